"""The documents and tags whose vectors lie nearest to a query's."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from sqlalchemy import Column, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database import statement
from quire.catalog.matrices import Matrix
from quire.catalog.tables import DOCUMENT_VECTORS, TAG_VECTORS, TEAMS
from quire.catalog.vectors import as_text, unit
from quire.domain.documents import Vector

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
            # Nobody else's until it is whole: a thread goes on writing when its search is given up.
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
