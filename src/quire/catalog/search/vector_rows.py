"""Vectors of documents and tags: find the missing ones, store and delete them.

`nearness` finds the nearest ones, differently on each database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from sqlalchemy import Row, Select, Table, and_, delete, or_, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database
from quire.catalog.database.schema import (
    ASSIGNMENTS,
    DOCUMENT_VECTORS,
    DOCUMENTS,
    TAG_VECTORS,
    TAGS,
    TEAMS,
)
from quire.catalog.documents import document_tags, row_mapping
from quire.domain.vault_document import DocumentStatus, TextToEmbed, Vector

MAX_DIMS = 4_096
_MAX_INDEXED_DIMS = 4_000  # pgvector's bound for an index of half-precision vectors


class Vectors:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._indexed: set[int] = set()

    async def documents_missing(
        self, model: str, after: tuple[str, str] | None, limit: int
    ) -> Sequence[TextToEmbed]:
        in_order = _documents_without(model).order_by(DOCUMENTS.c.team, DOCUMENTS.c.id).limit(limit)
        place = tuple_(DOCUMENTS.c.team, DOCUMENTS.c.id)
        found: list[TextToEmbed] = []
        async with self._database.reading() as connection:
            # A document without any text is passed over; the pages go on until one is full or nothing is left.
            while len(found) < limit:
                query = in_order if after is None else in_order.where(place > tuple_(*after))
                rows = (await connection.execute(query)).all()
                texts = [await row_mapping.text_to_embed(connection, row) for row in rows]
                found += [one for one in texts if one is not None]
                if len(rows) < limit:
                    break
                after = (rows[-1].team, rows[-1].id)
        return found[:limit]

    async def document_missing(self, team: str, document_id: str, model: str) -> TextToEmbed | None:
        query = _documents_without(model).where(DOCUMENTS.c.team == team, DOCUMENTS.c.id == document_id)
        async with self._database.reading() as connection:
            row = (await connection.execute(query)).first()
            return None if row is None else await row_mapping.text_to_embed(connection, row)

    async def tags_missing(
        self, model: str, after: tuple[str, str] | None, limit: int
    ) -> Sequence[TextToEmbed]:
        query = _tags_without(model).order_by(TAGS.c.team, TAGS.c.pk).limit(limit)
        if after is not None:
            team, pk = after[0], int(after[1])
            query = query.where(or_(TAGS.c.team > team, and_(TAGS.c.team == team, TAGS.c.pk > pk)))
        async with self._database.reading() as connection:
            return [_tag_text(row) for row in await connection.execute(query)]

    async def tags_of_document_missing(
        self, team: str, document_id: str, model: str
    ) -> Sequence[TextToEmbed]:
        query = (
            _tags_without(model)
            .join(ASSIGNMENTS, ASSIGNMENTS.c.tag_pk == TAGS.c.pk)
            .join(DOCUMENTS, DOCUMENTS.c.pk == ASSIGNMENTS.c.document_pk)
            .where(DOCUMENTS.c.team == team, DOCUMENTS.c.id == document_id)
            .order_by(TAGS.c.pk)
        )
        async with self._database.reading() as connection:
            return [_tag_text(row) for row in await connection.execute(query)]

    async def put_documents(self, texts: Sequence[TextToEmbed], vectors: Sequence[Vector]) -> int:
        async def change(connection: AsyncConnection) -> int:
            # All documents are locked, and in order, before the first team is.
            fitting: list[tuple[int, TextToEmbed, Vector]] = []
            for one, vector in sorted(_usable(texts, vectors), key=lambda pair: (pair[0].team, pair[0].id)):
                found = await connection.execute(
                    select(DOCUMENTS)
                    .where(DOCUMENTS.c.team == one.team, DOCUMENTS.c.id == one.id)
                    .with_for_update()
                )
                row = found.first()
                now = None if row is None else await row_mapping.text_to_embed(connection, row)
                if row is not None and now is not None and now.text == one.text:
                    fitting.append((row.pk, one, vector))
            for pk, one, vector in fitting:
                await self._put(connection, DOCUMENT_VECTORS, pk, one, vector)
            return len(fitting)

        await self._prepare(DOCUMENT_VECTORS, vectors)
        return await self._database.write(change)

    async def put_tags(self, texts: Sequence[TextToEmbed], vectors: Sequence[Vector]) -> int:
        async def change(connection: AsyncConnection) -> int:
            stored = 0
            for team in sorted({one.team for one in texts}):
                await document_tags.lock_team(connection, team)
            for one, vector in _usable(texts, vectors):
                found = await connection.execute(
                    select(TAGS.c.pk).where(
                        TAGS.c.team == one.team, TAGS.c.pk == int(one.id), TAGS.c.name == one.text
                    )
                )
                pk = found.scalar()
                if pk is not None:
                    await self._put(connection, TAG_VECTORS, pk, one, vector)
                    stored += 1
            return stored

        await self._prepare(TAG_VECTORS, vectors)
        return await self._database.write(change)

    async def _put(
        self, connection: AsyncConnection, table: Table, pk: int, one: TextToEmbed, vector: Vector
    ) -> None:
        change = await connection.execute(
            update(TEAMS)
            .where(TEAMS.c.team == one.team)
            .values(vector_changes=TEAMS.c.vector_changes + 1)
            .returning(TEAMS.c.vector_changes)
        )
        values = unit(vector)
        key = "document_pk" if table is DOCUMENT_VECTORS else "tag_pk"
        place = "CAST(CAST(:embedding AS text) AS halfvec)" if self._database.postgres else ":embedding"
        await connection.execute(
            text(
                f"INSERT INTO {table.name} ({key}, team, model, dims, text_hash, change, embedding) "  # noqa: S608
                f"VALUES (:pk, :team, :model, :dims, :text_hash, :change, {place}) "
                f"ON CONFLICT ({key}) DO UPDATE SET model = excluded.model, dims = excluded.dims, "
                "text_hash = excluded.text_hash, change = excluded.change, embedding = excluded.embedding"
            ),
            {
                "pk": pk,
                "team": one.team,
                "model": vector.model,
                "dims": len(values),
                "text_hash": row_mapping.text_hash(one.text),
                "change": change.scalar_one(),
                "embedding": as_text(values) if self._database.postgres else values.astype("<f2").tobytes(),
            },
        )

    async def _prepare(self, table: Table, vectors: Sequence[Vector]) -> None:
        """An index for each width of vectors, made before the first of them is there, so it takes no time."""
        if not self._database.postgres or table is not DOCUMENT_VECTORS:
            return
        for dims in {len(vector.values) for vector in vectors} - self._indexed:
            if not 0 < dims <= _MAX_INDEXED_DIMS:
                continue
            await self._database.write(partial(ensure_index, dims))
            self._indexed.add(dims)


async def ensure_index(dims: int, connection: AsyncConnection) -> None:
    """Creates PostgreSQL's index for vectors of this width, unless it exists or is too wide for an index."""
    name = f"document_embeddings_nearest_{dims}"
    there = await connection.execute(text("SELECT to_regclass(:name)"), {"name": name})
    if there.scalar() is None and dims <= _MAX_INDEXED_DIMS:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": 0x766563746F72})
        await connection.execute(
            text(
                f"CREATE INDEX IF NOT EXISTS {name} ON document_embeddings USING hnsw "
                f"((embedding::halfvec({dims})) halfvec_cosine_ops) WHERE dims = {dims}"
            )
        )


def unit(vector: Vector) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The vector with length one. Raises ValueError for one that has no direction, or numbers that are none."""
    values = np.asarray(vector.values, dtype=np.float32)
    length = float(np.linalg.norm(values))
    if values.ndim != 1 or not 0 < values.size <= MAX_DIMS or not np.isfinite(length) or length == 0.0:
        raise ValueError("not a vector")
    found: np.ndarray[Any, np.dtype[np.float32]] = (values / length).astype(np.float32)
    return found


def has_direction(vector: Vector) -> bool:
    """Whether the vector can be compared at all; that of a text without words can't."""
    try:
        unit(vector)
    except ValueError:
        return False
    return True


def as_text(values: np.ndarray[Any, np.dtype[np.float32]]) -> str:
    """The vector as pgvector writes it."""
    return "[" + ",".join(map("%.6g".__mod__, values.tolist())) + "]"


async def forget_document(
    connection: AsyncConnection, team: str, document_pk: int, *, unless_hash: str | None = None
) -> None:
    """Removes the document's vector, unless it was made of the text with this hash."""
    gone = delete(DOCUMENT_VECTORS).where(DOCUMENT_VECTORS.c.document_pk == document_pk)
    if unless_hash is not None:
        gone = gone.where(DOCUMENT_VECTORS.c.text_hash != unless_hash)
    if (await connection.execute(gone)).rowcount:
        await connection.execute(
            update(TEAMS).where(TEAMS.c.team == team).values(vectors_removed=TEAMS.c.vectors_removed + 1)
        )


def _documents_without(model: str) -> Select[Any]:
    there = select(DOCUMENT_VECTORS.c.document_pk).where(
        DOCUMENT_VECTORS.c.document_pk == DOCUMENTS.c.pk, DOCUMENT_VECTORS.c.model == model
    )
    return select(DOCUMENTS).where(
        DOCUMENTS.c.status == DocumentStatus.COMPLETED.value, ~there.exists().correlate(DOCUMENTS)
    )


def _tags_without(model: str) -> Select[Any]:
    there = select(TAG_VECTORS.c.tag_pk).where(
        TAG_VECTORS.c.tag_pk == TAGS.c.pk, TAG_VECTORS.c.model == model
    )
    return select(TAGS.c.team, TAGS.c.pk, TAGS.c.name).where(~there.exists().correlate(TAGS))


def _tag_text(row: Row[Any]) -> TextToEmbed:
    return TextToEmbed(row.team, str(row.pk), row.name)


def _usable(texts: Sequence[TextToEmbed], vectors: Sequence[Vector]) -> Iterator[tuple[TextToEmbed, Vector]]:
    """The pairs to store. One without a direction gets any, so that its text isn't handed out again for ever."""
    for one, vector in zip(texts, vectors, strict=True):
        if has_direction(vector):
            yield one, vector
        elif 0 < len(vector.values) <= MAX_DIMS:
            yield one, Vector(vector.model, np.full(len(vector.values), 1e-3, np.float32))
