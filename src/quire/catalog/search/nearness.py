"""Nearest neighbours: the documents and tags whose vectors are nearest to a query's.

On SQLite all vectors of one team and model are in memory, and a query is compared with every one of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from sqlalchemy import Column, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import statement
from quire.catalog.database.schema import DOCUMENT_VECTORS, TAG_VECTORS, TEAMS
from quire.catalog.search.vector_rows import as_text, unit
from quire.domain.vault_document import Vector

Floats = np.ndarray[Any, np.dtype[np.float32]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

_SKETCH_FROM = 20_000
_SKETCH_DIMS = 64
_SKETCH_SAMPLE = 4_000
_SKETCH_LEAST = 0.6
_LOOKED_AT = 4_000
_BLOCK = 10_000


class Matrix:
    """Rows of vectors and whose each is. Rows may be added while another thread searches.

    Many rows get a *sketch*: their coordinates along the few directions in which they differ most. The nearest of
    the sketches, many more than are wanted, are then compared exactly. Where few directions don't tell enough, as
    with vectors that are spread evenly over all of them, there is no sketch and everything is compared.
    """

    def __init__(self) -> None:
        self.change = 0
        """Up to which change of the team's vectors this is current."""
        self.removed = 0
        self.used = 0
        self.dead = 0
        self.places: dict[int, int] = {}
        self._pks: Numbers = np.empty(0, np.int64)
        self._rows: Floats = np.empty((0, 0), np.float32)
        self._directions: Floats | None = None
        self._sketch: Floats = np.empty((0, _SKETCH_DIMS), np.float32)
        self._tried_at = 0

    @property
    def size_bytes(self) -> int:
        return int(self._rows.nbytes + self._pks.nbytes + self._sketch.nbytes + 100 * len(self.places))

    @property
    def wants_sketch(self) -> bool:
        """Whether there are many more rows than when a sketch was last tried."""
        return self._directions is None and self.used >= max(_SKETCH_FROM, 2 * self._tried_at)

    def put(self, packed: Sequence[tuple[int, bytes]]) -> None:
        """Adds or replaces rows, given as float16 bytes. Those of another width are of no use and left out."""
        width = 2 * self._rows.shape[1] or len(packed[0][1])
        fitting = [(pk, row) for pk, row in packed if len(row) == width]
        if not fitting:
            return
        joined = b"".join(row for _, row in fitting)
        rows = np.frombuffer(joined, "<f2").reshape(len(fitting), width // 2).astype(np.float32)
        fresh = dict.fromkeys(pk for pk, _ in fitting if pk not in self.places)
        self._reserve(self.used + len(fresh), width // 2)
        for place, pk in enumerate(fresh, self.used):
            self.places[pk] = place
            self._pks[place] = pk
        at = [self.places[pk] for pk, _ in fitting]
        self._rows[at] = rows
        if self._directions is not None:
            self._sketch[at] = rows @ self._directions
        self.used += len(fresh)

    def drop(self, pks: Sequence[int]) -> None:
        for pk in pks:
            self._pks[self.places.pop(pk)] = -1
        self.dead += len(pks)

    def make_sketch(self) -> None:
        self._tried_at = self.used
        sample = self._rows[: self.used : max(1, self.used // _SKETCH_SAMPLE)]
        if sample.shape[1] <= 2 * _SKETCH_DIMS:
            return
        strengths, directions = np.linalg.eigh(sample.T @ sample)
        if strengths[-_SKETCH_DIMS:].sum() < _SKETCH_LEAST * strengths.sum():
            return
        along = np.ascontiguousarray(directions[:, -_SKETCH_DIMS:], np.float32)
        sketch = np.zeros((len(self._pks), _SKETCH_DIMS), np.float32)
        for first in range(0, self.used, _BLOCK):
            block = slice(first, min(first + _BLOCK, self.used))
            sketch[block] = self._rows[block] @ along
        self._sketch, self._directions = sketch, along

    def cosines(self, wanted: Floats, pks: Sequence[int]) -> dict[int, float]:
        """Of exactly these, as far as they are there."""
        if self._rows.shape[1] != len(wanted):
            return {}
        there = [pk for pk in pks if pk in self.places]
        found = _products(self._rows[[self.places[pk] for pk in there]], wanted)
        return {pk: float(cosine) for pk, cosine in zip(there, found, strict=True)}

    def nearest(self, wanted: Floats, most: int) -> dict[int, float]:
        """The `most` nearest and their cosines, nearest first."""
        # In this order: rows are counted when they are in place, and a sketch is there before its directions are.
        used, rows, directions, sketch = self.used, self._rows, self._directions, self._sketch
        if not used or rows.shape[1] != len(wanted):
            return {}
        pks = self._pks[:used]
        places = np.arange(used)
        looked_at = max(_LOOKED_AT, 20 * most)
        if directions is not None and used > 2 * looked_at:
            rough = _products(sketch[:used], wanted @ directions)
            rough[pks < 0] = -2.0
            places = np.argpartition(rough, -looked_at)[-looked_at:]
        cosines = _products(rows[:used] if len(places) == used else rows[places], wanted)
        cosines[pks[places] < 0] = -2.0
        if len(places) > most:
            best = np.argpartition(cosines, -most)[-most:]
            places, cosines = places[best], cosines[best]
        order = np.lexsort((pks[places], -cosines))
        return {int(pks[places[n]]): float(cosines[n]) for n in order if pks[places[n]] >= 0}

    def _reserve(self, wanted: int, dims: int) -> None:
        if wanted <= len(self._pks):
            return
        capacity = max(wanted, int(len(self._pks) * 1.3))
        self._pks = _grown(self._pks, (capacity,), self.used)
        self._rows = _grown(self._rows, (capacity, dims), self.used)
        if self._directions is not None:
            self._sketch = _grown(self._sketch, (capacity, _SKETCH_DIMS), self.used)


def _products(rows: Floats, wanted: Floats) -> Floats:
    # Not the matrix product: its library starts threads that wait for each other, and on a busy machine for long.
    found: Floats = np.einsum("ij,j->i", rows, wanted)
    return found


def _grown(array: np.ndarray[Any, Any], shape: tuple[int, ...], used: int) -> np.ndarray[Any, Any]:
    grown = np.zeros(shape, array.dtype)
    if used:
        grown[:used] = array[:used]
    return grown


_ROWS_AT_A_TIME = 20_000
_IN_A_THREAD_FROM = 20_000


Cosines = dict[int, float]


class Nearness(Protocol):
    async def nearest(
        self,
        connection: AsyncConnection,
        team: str,
        query: Vector,
        most: tuple[int, int],
        among: Sequence[int] | None,
    ) -> tuple[Cosines, Cosines]:
        """The nearest documents and tags by their pk; `among` narrows the documents to these."""
        ...

    async def of_documents(
        self, connection: AsyncConnection, team: str, query: Vector, pks: Sequence[int]
    ) -> dict[int, float]:
        """The cosines of exactly these documents, as far as they have a vector of the query's model."""
        ...


class PostgresNearness:
    """Asks pgvector. Large teams are served by its HNSW index, small ones by looking at every row."""

    async def nearest(
        self,
        connection: AsyncConnection,
        team: str,
        query: Vector,
        most: tuple[int, int],
        among: Sequence[int] | None,
    ) -> tuple[Cosines, Cosines]:
        select_from, parameters = _asked(team, query)
        documents = select_from(DOCUMENT_VECTORS, "ORDER BY distance LIMIT :most")
        parameters |= {"most": most[0], "most_tags": most[1]}
        if among is not None:
            # Apart, so that it goes by the keys and not through the index of the nearest.
            some = select_from(DOCUMENT_VECTORS, "OFFSET 0", among=True)
            documents = f"SELECT * FROM ({some}) AS a ORDER BY distance LIMIT :most"  # noqa: S608
            parameters["among"] = list(among)
        tags = select_from(TAG_VECTORS, "ORDER BY distance LIMIT :most_tags")
        both = f"(SELECT 0 AS kind, * FROM ({documents}) AS d) UNION ALL (SELECT 1, * FROM ({tags}) AS t)"  # noqa: S608
        found: tuple[Cosines, Cosines] = ({}, {})
        for kind, pk, distance in await connection.execute(statement(both), parameters):
            found[kind][int(pk)] = 1 - float(distance)
        return found

    async def of_documents(
        self, connection: AsyncConnection, team: str, query: Vector, pks: Sequence[int]
    ) -> dict[int, float]:
        if not pks:
            return {}
        select_from, parameters = _asked(team, query)
        rows = await connection.execute(
            statement(select_from(DOCUMENT_VECTORS, "", among=True)), parameters | {"among": list(pks)}
        )
        return {int(pk): 1 - float(distance) for pk, distance in rows}


class SqliteNearness:
    """Keeps the vectors of the teams that search in memory and compares with all of them.

    What changed since is read before each question: new vectors have a number above the last one seen, and a
    counter tells that some were removed, in which case those that are left are listed.
    """

    def __init__(self, cache_bytes: int) -> None:
        self._cache_bytes = cache_bytes
        self._kept: OrderedDict[tuple[str, str, str], Matrix] = OrderedDict()
        self._locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()
        self._read: WeakKeyDictionary[AsyncConnection, dict[str, tuple[int, int]]] = WeakKeyDictionary()

    async def nearest(
        self,
        connection: AsyncConnection,
        team: str,
        query: Vector,
        most: tuple[int, int],
        among: Sequence[int] | None,
    ) -> tuple[Cosines, Cosines]:
        tags = await self._nearest(connection, TAG_VECTORS, team, query, most[1])
        if among is None:
            return await self._nearest(connection, DOCUMENT_VECTORS, team, query, most[0]), tags
        found = await self.of_documents(connection, team, query, among)
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[: most[0]]), tags

    async def of_documents(
        self, connection: AsyncConnection, team: str, query: Vector, pks: Sequence[int]
    ) -> dict[int, float]:
        matrix = await self._matrix(connection, DOCUMENT_VECTORS, team, query.model)
        return matrix.cosines(unit(query), pks)

    async def _nearest(
        self, connection: AsyncConnection, table: Table, team: str, query: Vector, most: int
    ) -> dict[int, float]:
        matrix = await self._matrix(connection, table, team, query.model)
        if matrix.used < _IN_A_THREAD_FROM:
            return matrix.nearest(unit(query), most)
        return await asyncio.to_thread(matrix.nearest, unit(query), most)

    async def _counters(self, connection: AsyncConnection, team: str) -> tuple[int, int]:
        """How far the vectors had changed when this connection first asked; it lasts for one search."""
        known = self._read.setdefault(connection, {})
        if team not in known:
            found = await connection.execute(
                select(TEAMS.c.vector_changes, TEAMS.c.vectors_removed).where(TEAMS.c.team == team)
            )
            change, removed = found.one_or_none() or (0, 0)
            known[team] = (int(change), int(removed))
        return known[team]

    async def _matrix(self, connection: AsyncConnection, table: Table, team: str, model: str) -> Matrix:
        """The matrix with everything that was there when this connection first asked."""
        key = (table.name, team, model)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            change, removed = await self._counters(connection, team)
            # Removed from the cache until it is whole: a thread continues to write after its search was cancelled.
            matrix = self._kept.pop(key, None) or Matrix()
            if removed > matrix.removed and matrix.used:
                matrix = await _without_removed(connection, (table, team, model), matrix)
            matrix.removed = max(matrix.removed, removed)
            await _read_changes(connection, (table, team, model), matrix, change)
            self._kept[key] = matrix
        while len(self._kept) > 1 and sum(one.size_bytes for one in self._kept.values()) > self._cache_bytes:
            self._kept.popitem(last=False)
        return matrix


async def _read_changes(
    connection: AsyncConnection, source: tuple[Table, str, str], matrix: Matrix, upto: int
) -> None:
    table, team, model = source
    while matrix.change < upto:
        rows = (
            await connection.execute(
                select(_key(table), table.c.change, table.c.embedding)
                .where(table.c.team == team, table.c.model == model, table.c.change > matrix.change)
                .order_by(table.c.change)
                .limit(_ROWS_AT_A_TIME)
            )
        ).all()
        if rows:
            await asyncio.to_thread(matrix.put, [(row[0], row[2]) for row in rows])
        # Past the last row there is nothing of this model up to the counter that was read first.
        matrix.change = int(rows[-1][1]) if len(rows) == _ROWS_AT_A_TIME else upto
        if matrix.wants_sketch:
            await asyncio.to_thread(matrix.make_sketch)


async def _without_removed(
    connection: AsyncConnection, source: tuple[Table, str, str], matrix: Matrix
) -> Matrix:
    table, team, model = source
    rows = await connection.execute(select(_key(table)).where(table.c.team == team, table.c.model == model))
    left = set(rows.scalars())
    gone = [pk for pk in matrix.places if pk not in left]
    if matrix.dead + len(gone) > matrix.used // 3:
        return Matrix()
    matrix.drop(gone)
    return matrix


def _asked(team: str, query: Vector) -> tuple[Callable[..., str], dict[str, Any]]:
    """How to ask PostgreSQL for distances to the query, and what goes with it."""
    values = unit(query)
    wide = f"halfvec({len(values)})"

    # In a query of its own the vector is read once; in a prepared statement it would be for every row.
    def select_from(table: Table, order: str, *, among: bool = False) -> str:
        only = f"AND {_key(table).name} = ANY(CAST(:among AS bigint[]))" if among else ""
        return (
            f"SELECT {_key(table).name} AS pk, "  # noqa: S608 - numbers and names of ours
            f"CAST(embedding AS {wide}) <=> (SELECT CAST(CAST(:query AS text) AS {wide})) AS distance "
            f"FROM {table.name} WHERE dims = {len(values)} AND team = :team AND model = :model {only} {order}"
        )

    return select_from, {"query": as_text(values), "team": team, "model": query.model}


def _key(table: Table) -> Column[Any]:
    return table.c.document_pk if table is DOCUMENT_VECTORS else table.c.tag_pk
