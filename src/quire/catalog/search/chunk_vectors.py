"""Vectors of text chunks in the database: which texts have none, storing them, and the nearest chunk of a document.

A document has one row, a sheet. Its `revision` grows with each new text of the document, in the transaction that stores
the text; a sheet of an earlier text is stale: search does not use it, and its vectors are used again for equal texts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, and_, delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database
from quire.catalog.database.schema import CHUNK_VECTORS, DOCUMENTS, PIECE_BITS, PIECES
from quire.catalog.documents.document_filters import one_of
from quire.catalog.search.chunk_sheet import (
    ChunkSheet,
    NearestPiece,
    PackedVector,
    packed_sheet,
    packed_vector,
    text_key,
)
from quire.catalog.search.text_pieces import MAX_PIECES
from quire.catalog.search.vector_rows import MAX_DIMS, unit
from quire.domain.vault_document import DocumentStatus, Vector

_STALE, _GROWING, _WHOLE = 0, 1, 2
_CHECKED_AT_ONCE = 5_000
_COMPARED_DOCUMENTS = 50
_COMPARED_CHUNKS = 16_000
_IN_A_THREAD_FROM = 500


@dataclass(slots=True)
class ChunksToEmbed:
    """The chunks of a document, and the vectors that are known of them. `add` and `put_chunk_vectors` go in turns."""

    team: str
    id: str
    model: str
    most: int
    document_pk: int
    revision: int
    pieces: Sequence[tuple[int, int]]
    """Number and key of each piece that is to have a vector."""
    has_all: bool
    """Whether these are all pieces of the document."""
    missing: dict[int, str]
    """Texts without a vector, by their keys."""
    known: dict[int, PackedVector] = field(default_factory=dict)

    def batches(self, size: int) -> Iterator[dict[int, str]]:
        """The missing texts, `size` at a time; one empty batch if none is missing but the sheet is not current."""
        keys = list(self.missing)
        for at in range(0, max(1, len(keys)), size):
            yield {key: self.missing[key] for key in keys[at : at + size]}

    def add(self, keys: Sequence[int], vectors: Sequence[Any]) -> None:
        """Takes the vectors of these texts; one that is too wide to be stored counts as one without direction."""
        for key, values in zip(keys, vectors, strict=True):
            usable = 0 < len(values) <= MAX_DIMS
            self.known[key] = packed_vector(values if usable else [0.0])


class ChunkVectors:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def missing(
        self, team: str, document_id: str, model: str, most: int, *, texts: bool = True
    ) -> ChunksToEmbed | None:
        """None if the document is not completed, or has its vectors. Without `texts` only that is found out."""
        query = (
            select(DOCUMENTS.c.pk, CHUNK_VECTORS)
            .outerjoin(CHUNK_VECTORS, CHUNK_VECTORS.c.document_pk == DOCUMENTS.c.pk)
            .where(
                DOCUMENTS.c.team == team,
                DOCUMENTS.c.id == document_id,
                DOCUMENTS.c.status == DocumentStatus.COMPLETED.value,
            )
        )
        async with self._database.reading(as_one=True) as connection:
            row = (await connection.execute(query)).first()
            if row is None or _is_done(row, model, most):
                return None
            known = await asyncio.to_thread(_known, row, model)
            found = ChunksToEmbed(
                team, document_id, model, most, row.pk, row.revision or 0, (), False, {}, known
            )
            if not texts:
                return found
            first = (row.pk << PIECE_BITS) + 1
            pieces = await connection.execute(
                select(PIECES.c.id, PIECES.c.text)
                .where(PIECES.c.id.between(first, first + MAX_PIECES - 1))
                .order_by(PIECES.c.id)
                .limit(most + 1)
            )
            texts_there = [(int(piece) - first + 1, str(words)) for piece, words in pieces]
        await asyncio.to_thread(_fill, found, dict(texts_there[:most]))
        found.has_all = len(texts_there) <= most
        return found

    async def put(self, asked: ChunksToEmbed) -> bool:
        """Stores what is known so far. False, and nothing is stored, if the document is gone or has another text."""
        widths = {len(one.values) for one in asked.known.values()}
        dims = max(widths, default=0)
        fitting = {key: one for key, one in asked.known.items() if len(one.values) == dims}
        there = sum(key in fitting for _, key in asked.pieces)
        sheet = await asyncio.to_thread(packed_sheet, asked.pieces, fitting)
        whole = all(key in asked.known for _, key in asked.pieces)
        values = {
            "pk": asked.document_pk,
            "revision": asked.revision,
            "state": _WHOLE if whole else _GROWING,
            "model": asked.model,
            "dims": dims,
            "chunks": there,
            "most": MAX_PIECES if asked.has_all else asked.most,
            "sheet": sheet,
        }

        async def change(connection: AsyncConnection) -> bool:
            owner = await connection.execute(
                select(DOCUMENTS.c.pk).where(DOCUMENTS.c.pk == asked.document_pk).with_for_update()
            )
            if owner.first() is None:
                return False
            stored = await connection.execute(
                text(
                    "INSERT INTO document_chunk_embeddings "
                    "(document_pk, revision, state, model, dims, chunks, most, sheet) "
                    "VALUES (:pk, :revision, :state, :model, :dims, :chunks, :most, :sheet) "
                    "ON CONFLICT (document_pk) DO UPDATE SET state = excluded.state, model = excluded.model, "
                    "dims = excluded.dims, chunks = excluded.chunks, most = excluded.most, sheet = excluded.sheet "
                    "WHERE document_chunk_embeddings.revision = excluded.revision RETURNING document_pk"
                ),
                values,
            )
            return stored.first() is not None

        return await self._database.write(change)

    async def documents_missing(
        self, model: str, most: int, before_pk: int | None, limit: int
    ) -> tuple[Sequence[tuple[str, str]], int | None]:
        """Team and id of completed documents without their vectors, the newest first, and where to go on."""
        async with self._database.reading() as connection:
            if before_pk is None:
                last = (await connection.execute(select(func.max(DOCUMENTS.c.pk)))).scalar()
                before_pk = (last or 0) + 1
            first = max(0, before_pk - _CHECKED_AT_ONCE)
            done = and_(
                CHUNK_VECTORS.c.document_pk == DOCUMENTS.c.pk,
                CHUNK_VECTORS.c.state == _WHOLE,
                CHUNK_VECTORS.c.model == model,
                CHUNK_VECTORS.c.most >= most,
            )
            query = (
                select(DOCUMENTS.c.pk, DOCUMENTS.c.team, DOCUMENTS.c.id)
                .where(
                    DOCUMENTS.c.pk >= first,
                    DOCUMENTS.c.pk < before_pk,
                    DOCUMENTS.c.status == DocumentStatus.COMPLETED.value,
                    ~select(CHUNK_VECTORS.c.document_pk).where(done).exists().correlate(DOCUMENTS),
                )
                .order_by(DOCUMENTS.c.pk.desc())
                .limit(limit)
            )
            rows = (await connection.execute(query)).all()
        after = rows[-1].pk if len(rows) == limit else first
        return [(row.team, row.id) for row in rows], after or None

    async def nearest(self, pks: Sequence[int], query: Vector) -> dict[int, NearestPiece]:
        """The nearest piece of each document that has vectors of the query's model.

        `pks` are the best documents, in order: some are looked at, fewer where they are long.
        """
        some = list(pks[:_COMPARED_DOCUMENTS])
        if not some:
            return {}
        usable = and_(
            one_of(CHUNK_VECTORS.c.document_pk, some, postgres=self._database.postgres),
            CHUNK_VECTORS.c.state > _STALE,
            CHUNK_VECTORS.c.model == query.model,
        )
        async with self._database.reading() as connection:
            sizes = await connection.execute(
                select(CHUNK_VECTORS.c.document_pk, CHUNK_VECTORS.c.chunks).where(usable)
            )
            wanted = _first_chunks(some, {row.document_pk: row.chunks for row in sizes})
            if not wanted:
                return {}
            only = one_of(CHUNK_VECTORS.c.document_pk, wanted, postgres=self._database.postgres)
            rows = (await connection.execute(select(CHUNK_VECTORS).where(usable, only))).all()
        if sum(row.chunks for row in rows) < _IN_A_THREAD_FROM:
            return _nearest(rows, query)
        return await asyncio.to_thread(_nearest, rows, query)


async def text_changed(connection: AsyncConnection, document_pk: int) -> None:
    """Makes the vectors of a document stale: those of equal texts are used again when it is embedded."""
    await connection.execute(
        text(
            "INSERT INTO document_chunk_embeddings (document_pk, revision, state, model, dims, chunks, most, sheet) "
            "VALUES (:pk, 1, 0, '', 0, 0, 0, :nothing) ON CONFLICT (document_pk) "
            "DO UPDATE SET revision = document_chunk_embeddings.revision + 1, state = 0"
        ),
        {"pk": document_pk, "nothing": b""},
    )


async def forget_chunks(connection: AsyncConnection, document_pk: int) -> None:
    await connection.execute(delete(CHUNK_VECTORS).where(CHUNK_VECTORS.c.document_pk == document_pk))


def _is_done(row: Row[Any], model: str, most: int) -> bool:
    return bool(row.state == _WHOLE and row.model == model and row.most >= most)


def _known(row: Row[Any], model: str) -> dict[int, PackedVector]:
    if row.model != model or not row.chunks:
        return {}
    try:
        return ChunkSheet(row.sheet, row.chunks, row.dims).vectors()
    except ValueError:
        return {}


def _fill(found: ChunksToEmbed, texts: Mapping[int, str]) -> None:
    found.pieces = [(number, text_key(text)) for number, text in texts.items()]
    keys = {key for _, key in found.pieces}
    found.known = {key: one for key, one in found.known.items() if key in keys}
    found.missing = {key: texts[number] for number, key in found.pieces if key not in found.known}


def _first_chunks(pks: Sequence[int], sizes: Mapping[int, int]) -> list[int]:
    """The first documents that have no more chunks together than are compared; always the first that has any."""
    found: list[int] = []
    left = _COMPARED_CHUNKS
    for pk in pks:
        chunks = sizes.get(pk, 0)
        if chunks > left and found:
            break
        if chunks:
            found.append(pk)
            left -= chunks
    return found


def _nearest(rows: Sequence[Row[Any]], query: Vector) -> dict[int, NearestPiece]:
    wanted = unit(query)
    found: dict[int, NearestPiece] = {}
    for row in rows:
        try:
            nearest = ChunkSheet(row.sheet, row.chunks, row.dims).nearest(wanted)
        except ValueError:  # damaged: the document is found without
            continue
        if nearest is not None:
            found[row.document_pk] = nearest
    return found
