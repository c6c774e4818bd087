"""The documents that have all of some words, newest first, unranked.

A common word is in very many of them, of which a page shows fifty. So the newest documents are read first, as
many as should do by how common the words are, and then ever more of the older ones. Of words that are much more common
than the rarest one the index isn't asked at all: the documents that the others leave are read instead.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import statement
from quire.catalog.database.schema import BUCKET_BITS, PIECE_BITS
from quire.catalog.documents.document_filters import listed_keys, team_word
from quire.catalog.search import query_reading, team_terms
from quire.catalog.search.word_rules import words

MAX_WORDS = 8
_RARE = 2_000
_PLENTY = 1.5
_MUCH_MORE = 4
_MORE_EACH_TIME = 4
_LEAST_WIDTH = 500
_MAX_BUCKETS = 16


async def newest(
    connection: AsyncConnection,
    team: str,
    query: str,
    many: int,
    *,
    before_pk: int | None = None,
    postgres: bool,
) -> AsyncGenerator[list[int], None]:
    """The keys of the documents below `before_pk` that have every word of the query, in lists of falling keys.

    About `many` are wanted, so the first lists are of that order. Among them may be documents of other teams.
    A query without words fits nothing.
    """
    wanted = list(dict.fromkeys(words(query)))[:MAX_WORDS]
    counts, _ = await team_terms.look_up(connection, team, wanted, (), 0, postgres=postgres)
    if not wanted or any(team_terms.listed(word) and word not in counts for word in wanted):
        return
    statistics = await query_reading.team_statistics(connection, team)
    high = before_pk or statistics.last_pk + 1
    rarest = min(counts.get(word, 1) for word in wanted)
    indexed = [word for word in wanted if counts.get(word, 1) <= _MUCH_MORE * rarest]
    others = [word for word in wanted if word not in indexed]
    share = math.prod(min(1.0, counts.get(word, 1) / statistics.last_pk) for word in wanted)
    enough = int(_PLENTY * many / share) if rarest > _RARE and share * high > _PLENTY * many else high
    width = max(_LEAST_WIDTH, enough)
    index = _Index(connection, indexed, team if statistics.crowded else None, postgres)
    looked_at = had_all = 0
    while high > 0:
        low = max(0, high - width)
        if postgres:
            low = low >> BUCKET_BITS << BUCKET_BITS
        found = await index.between(low, high)
        while found:
            taken = _next_step(many, looked_at, had_all)
            some, found = found[:taken], found[taken:]
            looked_at += len(some)
            if others:
                some = await _having(connection, some, others, postgres=postgres)
            had_all += len(some)
            if some:
                yield some
        high, width = low, width * _MORE_EACH_TIME


def _next_step(many: int, looked_at: int, had_all: int) -> int:
    """How many documents to read next: what should do by how many had all words so far, then more and more."""
    if not had_all:
        return 2 * many + looked_at
    wanted = many - had_all if had_all < many else _MORE_EACH_TIME * had_all
    return math.ceil(_PLENTY * wanted * looked_at / had_all)


class _Index:
    """The database's own index, asked for documents that have all of some words."""

    def __init__(
        self, connection: AsyncConnection, wanted: Sequence[str], team: str | None, postgres: bool
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._team = team
        self._postgres = postgres

    async def between(self, low: int, high: int) -> list[int]:
        """The keys from `low` up to but not including `high`, falling."""
        parts, parameters = self._on_postgres(low, high) if self._postgres else self._on_sqlite(low, high)
        # Each word may be in another piece of the document.
        rows = await self._connection.execute(statement(" INTERSECT ".join(parts)), parameters)
        return sorted({int(pk) for pk in rows.scalars()}, reverse=True)

    def _on_postgres(self, low: int, high: int) -> tuple[list[str], dict[str, Any]]:
        # The sum, so that no index is used for it: that of the words is the one.
        also = ["document_pk + 0 >= :low", "document_pk + 0 < :high"]
        parameters: dict[str, Any] = {"low": low, "high": high}
        buckets = range(low >> BUCKET_BITS, (high - 1 >> BUCKET_BITS) + 1)
        if len(buckets) <= _MAX_BUCKETS:
            also.append("words @@ CAST(CAST(:buckets AS text) AS tsquery)")
            parameters["buckets"] = " | ".join(f"'~{bucket}'" for bucket in buckets)
        if self._team is not None:
            also.append("words @@ CAST(CAST(:team AS text) AS tsquery)")
            parameters["team"] = f"'={team_word(self._team)}'"
        for number, word in enumerate(self._wanted):
            parameters[f"word_{number}"] = f"'{word}'"
        parts = [
            "SELECT document_pk FROM document_pieces "  # noqa: S608 - numbers of ours
            f"WHERE words @@ CAST(CAST(:word_{number} AS text) AS tsquery) AND {' AND '.join(also)}"
            for number in range(len(self._wanted))
        ]
        return parts, parameters

    def _on_sqlite(self, low: int, high: int) -> tuple[list[str], dict[str, Any]]:
        of_team = "" if self._team is None else f"team_word : {team_word(self._team)} AND "
        parameters: dict[str, Any] = {"low": low << PIECE_BITS, "high": high << PIECE_BITS}
        for number, word in enumerate(self._wanted):
            parameters[f"word_{number}"] = f'{of_team}{{head body}} : "{word}"'
        parts = [
            f"SELECT rowid >> {PIECE_BITS} FROM document_words WHERE document_words MATCH :word_{number} "  # noqa: S608
            "AND rowid >= :low AND rowid < :high"
            for number in range(len(self._wanted))
        ]
        return parts, parameters


async def _having(
    connection: AsyncConnection, pks: Sequence[int], wanted: Sequence[str], *, postgres: bool
) -> list[int]:
    """Those of the documents that have all of the words, found by reading them."""
    known, parameters = listed_keys("pks", pks, postgres=postgres)
    find = "strpos" if postgres else "instr"
    parts = []
    for number, word in enumerate(wanted):
        parts.append(
            f"SELECT document_pk FROM document_pieces WHERE document_pk IN ({known}) "  # noqa: S608
            f"AND {find}(' ' || head || ' ' || body || ' ', :word_{number}) > 0"
        )
        parameters[f"word_{number}"] = f" {word} "
    rows = await connection.execute(statement(" INTERSECT ".join(parts)), parameters)
    return sorted({int(pk) for pk in rows.scalars()}, reverse=True)
