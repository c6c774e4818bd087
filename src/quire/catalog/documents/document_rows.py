"""Documents in the database: their rows, their attempts, and lists of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from sqlalchemy import Row, Select, Update, delete, func, insert, literal, select, text, union_all, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database
from quire.catalog.database.schema import ALIASES, DOCUMENTS, PIECE_BITS, PIECES
from quire.catalog.documents import cursors, document_filters, document_tags, row_mapping, word_listing
from quire.catalog.search import chunk_vectors, search_index, vector_rows
from quire.catalog.search.search_index import Prepared
from quire.catalog.search.word_rules import storable
from quire.clock import Clock
from quire.domain.vault_document import (
    Classification,
    ConversionRecord,
    DocumentFilters,
    DocumentPage,
    DocumentState,
    DocumentStatus,
    NewDocument,
    VaultDocument,
)

_PAGE_OF_EXPORT = 200
_CHECKED_AT_ONCE = 5_000
_PENDING = DocumentStatus.PENDING.value
_CONVERTED = (
    "job_id", "result_ref", "pages", "kind", "content_type", "content_ref", "content_hash", "size_bytes",
)  # fmt: skip


class DocumentRows:
    def __init__(self, database: Database, clock: Clock, stale_after_s: float) -> None:
        self._database = database
        self._postgres = database.postgres
        self._clock = clock
        self._stale_after_s = stale_after_s

    async def create(self, new: NewDocument) -> tuple[VaultDocument, bool]:
        head = search_index.prepare_head(None, (), storable(new.filename), None, postgres=self._postgres)

        async def change(connection: AsyncConnection) -> tuple[VaultDocument, bool]:
            there = await _row(connection, new.team, new.id)
            if there is not None:
                return row_mapping.document(there), False
            seq = await connection.execute(
                text(
                    "INSERT INTO catalog_teams (team, documents_made) VALUES (:team, 1) ON CONFLICT (team) "
                    "DO UPDATE SET documents_made = catalog_teams.documents_made + 1 RETURNING documents_made"
                ),
                {"team": new.team},
            )
            row = row_mapping.new_row(new, int(seq.scalar_one()), self._clock.now())
            made = (await connection.execute(insert(DOCUMENTS).returning(*DOCUMENTS.c), row)).one()
            await search_index.replace_head(connection, new.team, made.pk, head, postgres=self._postgres)
            return row_mapping.document(made), True

        return await self._database.write(change, is_durable=True)  # its caller is told that it is kept

    async def find(self, team: str, document_id: str) -> VaultDocument | None:
        async with self._database.reading() as connection:
            row = await _row(connection, team, document_id)
        return None if row is None else row_mapping.document(row)

    async def find_by_hash(self, team: str, content_hash: str) -> VaultDocument | None:
        wanted = (
            select(DOCUMENTS)
            .where(DOCUMENTS.c.team == team, DOCUMENTS.c.content_hash == content_hash)
            .order_by(DOCUMENTS.c.seq.desc())
            .limit(1)
        )
        async with self._database.reading() as connection:
            row = (await connection.execute(wanted)).first()
        return None if row is None else row_mapping.document(row)

    async def list(self, team: str, wanted: DocumentFilters, cursor: str | None, limit: int) -> DocumentPage:
        mark = cursors.question(team, wanted, "list")
        before = None if cursor is None else cursors.read(cursor, mark, int)[0]
        rows = await self._page(team, wanted, before, limit + 1)
        more = cursors.write(mark, rows[limit - 1].seq) if len(rows) > limit else None
        return DocumentPage(tuple(map(row_mapping.document, rows[:limit])), more)

    async def each(self, team: str, wanted: DocumentFilters) -> AsyncIterator[VaultDocument]:
        before: int | None = None
        while rows := await self._page(team, wanted, before, _PAGE_OF_EXPORT):
            for row in rows:
                yield row_mapping.document(row)
            before = int(rows[-1].seq)

    async def _page(
        self, team: str, wanted: DocumentFilters, before: int | None, limit: int
    ) -> Sequence[Row[Any]]:
        async with self._database.reading() as connection:
            narrowing = await self.narrowing(connection, team, wanted)
            if narrowing.impossible:
                return []
            if wanted.text:
                return await self._with_words(connection, narrowing, wanted.text, before, limit)
            query = narrowing.newest_first(row_mapping.COLUMNS, before).limit(limit)
            return (await connection.execute(query)).all()

    async def _with_words(
        self,
        connection: AsyncConnection,
        narrowing: document_filters.Narrowing,
        words: str,
        before: int | None,
        limit: int,
    ) -> Sequence[Row[Any]]:
        """Keys rise with the numbers that the pages are counted by: both are given under the team's lock."""
        rows: list[Row[Any]] = []
        before_pk: int | None = None
        if before is not None:
            last = select(DOCUMENTS.c.pk).where(DOCUMENTS.c.team == narrowing.team, DOCUMENTS.c.seq < before)
            found = (await connection.execute(last.order_by(DOCUMENTS.c.seq.desc()).limit(1))).scalar()
            if found is None:
                return rows
            before_pk = found + 1
        lists = word_listing.newest(
            connection, narrowing.team, words, limit, before_pk=before_pk, postgres=self._postgres
        )
        async with aclosing(lists):
            async for pks in lists:
                some = narrowing.among(pks, postgres=self._postgres)
                query = some.newest_first(row_mapping.COLUMNS, before).limit(limit - len(rows))
                rows += (await connection.execute(query)).all()
                if len(rows) == limit:
                    break
        return rows

    async def narrowing(
        self, connection: AsyncConnection, team: str, wanted: DocumentFilters
    ) -> document_filters.Narrowing:
        stale_before_s = self._clock.now() - self._stale_after_s
        return await document_filters.prepare(connection, team, wanted, stale_before_s=stale_before_s)

    async def counts(self, team: str) -> Mapping[DocumentState, int]:
        parts: list[Select[*tuple[Any, ...]]] = [
            select(DOCUMENTS.c.status, func.count())
            .where(DOCUMENTS.c.team == team)
            .group_by(DOCUMENTS.c.status)
        ]
        async with self._database.reading() as connection:
            for state in (DocumentState.STALE, DocumentState.NEEDS_CLASSIFICATION, DocumentState.UNSUPPORTED):
                narrowing = await self.narrowing(connection, team, DocumentFilters(state=state))
                counted = select(literal(state.value), func.count()).select_from(DOCUMENTS)
                parts.append(counted.where(narrowing.where()))
            # One question: between two, a document could end and be taken away where it was not yet counted.
            rows = await connection.execute(union_all(*parts))
            found = dict.fromkeys(DocumentState, 0) | {DocumentState(name): int(many) for name, many in rows}
        found[DocumentState.PENDING] -= found[DocumentState.STALE]
        found[DocumentState.COMPLETED] -= found[DocumentState.NEEDS_CLASSIFICATION]
        found[DocumentState.COMPLETED] -= found[DocumentState.UNSUPPORTED]
        return found

    async def delete(self, team: str, document_id: str) -> VaultDocument | None:
        async def change(connection: AsyncConnection) -> VaultDocument | None:
            row = await _row(connection, team, document_id, lock=True)
            if row is None:
                return None
            await self._remove(connection, row)
            return row_mapping.document(row)

        return await self._database.write(change)

    async def _remove(self, connection: AsyncConnection, row: Row[Any]) -> None:
        await document_tags.remove(connection, row.team, row.pk)
        await vector_rows.forget_document(connection, row.team, row.pk)
        await chunk_vectors.forget_chunks(connection, row.pk)
        await search_index.remove(connection, row.team, row.pk, postgres=self._postgres)
        await connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.pk == row.pk))

    async def merge(self, team: str, document_id: str, attempt: int, into: str) -> bool:
        async def change(connection: AsyncConnection) -> bool:
            # Always in the same order, so that two that want each other don't wait for each other.
            rows = {one: await _row(connection, team, one, lock=True) for one in sorted({document_id, into})}
            gone, kept = rows[document_id], rows[into]
            if gone is None or kept is None or gone.pk == kept.pk:
                return False
            if (gone.attempt, gone.status) != (attempt, _PENDING):
                return False
            await connection.execute(
                update(ALIASES).where(ALIASES.c.document_pk == gone.pk).values(document_pk=kept.pk)
            )
            await self._remove(connection, gone)
            await connection.execute(insert(ALIASES).values(team=team, id=document_id, document_pk=kept.pk))
            return True

        return await self._database.write(change)

    async def find_by_alias(self, team: str, document_id: str) -> VaultDocument | None:
        wanted = (
            select(DOCUMENTS)
            .join(ALIASES, ALIASES.c.document_pk == DOCUMENTS.c.pk)
            .where(ALIASES.c.team == team, ALIASES.c.id == document_id, DOCUMENTS.c.team == team)
        )
        async with self._database.reading() as connection:
            row = (await connection.execute(wanted)).first()
        return None if row is None else row_mapping.document(row)

    async def begin_processing(self, team: str, document_id: str, seen: int | None) -> int | None:
        now_s = self._clock.now()
        statement = (
            update(DOCUMENTS)
            .where(DOCUMENTS.c.team == team, DOCUMENTS.c.id == document_id)
            .values(
                attempt=DOCUMENTS.c.attempt + 1,
                status=_PENDING,
                pending_since=now_s,
                updated_at=now_s,
                completed_at=None,
                error=None,
            )
            .returning(DOCUMENTS.c.attempt)
        )
        if seen is not None:
            statement = statement.where(DOCUMENTS.c.attempt == seen)

        async def change(connection: AsyncConnection) -> int | None:
            number: int | None = (await connection.execute(statement)).scalar()
            return number

        return await self._database.write(change)

    async def still_current(self, team: str, document_id: str, attempt: int) -> bool:
        found = await self.find(team, document_id)
        return found is not None and found.status is DocumentStatus.PENDING and found.attempt == attempt

    async def note_conversion(
        self, team: str, document_id: str, attempt: int, found: ConversionRecord, *, late: bool = False
    ) -> bool:
        values: dict[str, Any] = {
            name: value for name in _CONVERTED if (value := getattr(found, name)) is not None
        }
        if found.metadata is not None:
            values["metadata"] = row_mapping.as_json(found.metadata)

        async def change(connection: AsyncConnection) -> bool:
            statement = self._finishing(team, document_id, attempt, late=late).values(**values)
            return (await connection.execute(statement)).first() is not None

        return await self._database.write(change)

    async def set_body(
        self, team: str, document_id: str, attempt: int, body: Prepared, *, early: str = ""
    ) -> bool:
        async def change(connection: AsyncConnection) -> bool:
            row = await _row(connection, team, document_id, lock=True)
            if row is None or row.attempt != attempt or (early and not _is_replaceable(row, early)):
                return False
            await search_index.replace_body(connection, team, row.pk, body, postgres=self._postgres)
            await chunk_vectors.text_changed(connection, row.pk)
            if not row.summary:
                await vector_rows.forget_document(connection, team, row.pk)
            return True

        return await self._database.write(change)

    async def complete(
        self,
        team: str,
        document_id: str,
        attempt: int,
        found: Classification | None,
        error: Mapping[str, Any] | None,
        *,
        late: bool,
    ) -> bool:
        async def change(connection: AsyncConnection) -> bool:
            ending = self._ending(team, document_id, attempt, DocumentStatus.COMPLETED, error, late=late)
            if found is not None:
                ending = ending.values(
                    title=None if found.title is None else storable(found.title).strip() or None,
                    summary=None if found.summary is None else storable(found.summary).strip() or None,
                    date=found.date,
                    language=found.language,
                    classified_by=found.by,
                )
            row = (await connection.execute(ending)).first()
            if row is None:
                return False
            if found is not None:
                await self._retag(connection, row, found.tags)
            return True

        return await self._database.write(change)

    async def fail(self, team: str, document_id: str, attempt: int, error: Mapping[str, Any]) -> bool:
        async def change(connection: AsyncConnection) -> bool:
            ending = self._ending(team, document_id, attempt, DocumentStatus.FAILED, error)
            return (await connection.execute(ending)).first() is not None

        return await self._database.write(change)

    async def stale(self, older_than_s: float, limit: int) -> Sequence[VaultDocument]:
        query = (
            select(DOCUMENTS)
            .where(
                text("documents.status = 'pending'"),
                DOCUMENTS.c.pending_since < self._clock.now() - older_than_s,
            )
            .order_by(DOCUMENTS.c.pending_since)
            .limit(limit)
        )
        async with self._database.reading() as connection:
            return [row_mapping.document(row) for row in await connection.execute(query)]

    async def without_places(
        self, before_pk: int | None, limit: int
    ) -> tuple[Sequence[VaultDocument], int | None]:
        async with self._database.reading() as connection:
            if before_pk is None:
                last = (await connection.execute(select(func.max(DOCUMENTS.c.pk)))).scalar()
                before_pk = (last or 0) + 1
            first = max(0, before_pk - _CHECKED_AT_ONCE)
            query = (
                select(DOCUMENTS)
                .join(PIECES, PIECES.c.id == DOCUMENTS.c.pk * (1 << PIECE_BITS) + 1)
                .where(
                    DOCUMENTS.c.pk >= first,
                    DOCUMENTS.c.pk < before_pk,
                    DOCUMENTS.c.status == DocumentStatus.COMPLETED.value,
                    PIECES.c.places.is_(None),
                )
                .order_by(DOCUMENTS.c.pk.desc())
                .limit(limit)
            )
            rows = (await connection.execute(query)).all()
        after = rows[-1].pk if len(rows) == limit else first
        return [row_mapping.document(row) for row in rows], after or None

    async def assign_tags(self, team: str, document_id: str, names: Sequence[str]) -> tuple[str, ...] | None:
        async def change(connection: AsyncConnection) -> tuple[str, ...] | None:
            row = await _row(connection, team, document_id, lock=True)
            return None if row is None else await self._retag(connection, row, names)

        return await self._database.write(change)

    async def _retag(
        self, connection: AsyncConnection, row: Row[Any], names: Sequence[str]
    ) -> tuple[str, ...]:
        """New tags, and with them a new head and, when its text is another one, no vector any more."""
        kept = await document_tags.assign(connection, row.team, row.pk, row.seq, names)
        changed = await connection.execute(
            update(DOCUMENTS)
            .where(DOCUMENTS.c.pk == row.pk)
            .values(tags=row_mapping.as_json(kept), updated_at=self._clock.now())
            .returning(*DOCUMENTS.c)
        )
        now = changed.one()
        head = search_index.prepare_head(now.title, kept, now.filename, now.summary, postgres=self._postgres)
        await search_index.replace_head(connection, now.team, now.pk, head, postgres=self._postgres)
        described = await row_mapping.text_to_embed(connection, now)
        await vector_rows.forget_document(
            connection,
            now.team,
            now.pk,
            unless_hash=row_mapping.text_hash(described.text) if described else None,
        )
        return kept

    def _finishing(self, team: str, document_id: str, attempt: int, *, late: bool = False) -> Update:
        """A change that only the pending attempt may make; with `late` also the current one if it is completed."""
        open_to = (_PENDING, DocumentStatus.COMPLETED.value) if late else (_PENDING,)
        return (
            update(DOCUMENTS)
            .where(
                DOCUMENTS.c.team == team,
                DOCUMENTS.c.id == document_id,
                DOCUMENTS.c.attempt == attempt,
                DOCUMENTS.c.status.in_(open_to),
            )
            .values(updated_at=self._clock.now())
            .returning(*DOCUMENTS.c)
        )

    def _ending(
        self,
        team: str,
        document_id: str,
        attempt: int,
        status: DocumentStatus,
        error: Mapping[str, Any] | None,
        *,
        late: bool = False,
    ) -> Update:
        now_s = self._clock.now()
        return self._finishing(team, document_id, attempt, late=late).values(
            status=status.value,
            completed_at=func.coalesce(DOCUMENTS.c.completed_at, now_s) if late else now_s,
            pending_since=None,
            error=None if error is None else row_mapping.as_json(error),
        )


def _is_replaceable(row: Row[Any], early: str) -> bool:
    """Whether the text of a row is not its final one: it is pending, or was completed with this error code."""
    if row.status == _PENDING:
        return True
    return row.error is not None and json.loads(row.error).get("code") == early


async def _row(
    connection: AsyncConnection, team: str, document_id: str, *, lock: bool = False
) -> Row[Any] | None:
    query = select(DOCUMENTS).where(DOCUMENTS.c.team == team, DOCUMENTS.c.id == document_id)
    if lock:
        query = query.with_for_update()  # SQLite ignores it: its writer is alone anyway
    return (await connection.execute(query)).first()
