"""Which pieces have which words, asked of the database's own index; and the pieces themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.filters import one_of, team_word
from quire.catalog.tables import BUCKET_BITS, PIECE_BITS, PIECES

_PLENTY = 1.5
_MAX_BUCKETS = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """One list of pieces: those that have, for each of `groups`, any of its words in the column.

    `column` is head, often, or `all` for head and body. At most `limit` pieces, of the newest documents;
    about `expected` are there.
    """

    groups: tuple[tuple[str, ...], ...]
    column: str
    limit: int
    expected: float = 0.0


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose pieces are looked at, and how many documents there are in all.

    Without a team the pieces of all teams are in the lists, which is quicker where most are one team's: whoever
    asks must then see to it that no others get further. `among` narrows the lists to these documents.
    """

    team: str | None
    last_pk: int
    among: Sequence[int] | None = None


async def ask(
    connection: AsyncConnection, scope: Scope, lists: Sequence[Asked], *, postgres: bool
) -> list[list[int]]:
    """The ids of the pieces for each list."""
    if not lists:
        return []
    if not postgres:
        return await _ask_sqlite(connection, scope, lists)
    windows = [_window(scope, one) for one in lists]
    answers = await _ask_postgres(connection, scope, lists, windows)
    # What was expected to be common among the newest may be common only among older ones.
    short = [n for n, one in enumerate(lists) if windows[n] and len(answers[n]) < one.limit // 4]
    if short:
        again = await _ask_postgres(connection, scope, [lists[n] for n in short], [()] * len(short))
        for number, ids in zip(short, again, strict=True):
            answers[number] = ids
    return answers


async def _ask_sqlite(connection: AsyncConnection, scope: Scope, lists: Sequence[Asked]) -> list[list[int]]:
    parameters: dict[str, Any] = {}
    selects: list[str] = []
    only = ""
    if scope.among is not None:
        only = f" AND (rowid >> {PIECE_BITS}) IN (SELECT value FROM json_each(:among))"  # noqa: S608
        parameters["among"] = json.dumps(list(scope.among))
    for number, one in enumerate(lists):
        parameters[f"words_{number}"] = _fts5(scope.team, one)
        selects.append(
            f"SELECT rowid AS id FROM document_words WHERE document_words MATCH :words_{number}{only} "  # noqa: S608
            f"ORDER BY rowid DESC LIMIT {one.limit}"
        )
    return await _gather(connection, selects, "group_concat(found.id)", parameters)


async def _ask_postgres(
    connection: AsyncConnection, scope: Scope, lists: Sequence[Asked], windows: Sequence[Sequence[int]]
) -> list[list[int]]:
    parameters: dict[str, Any] = {}
    selects: list[str] = []
    only = ""
    if scope.among is not None:
        only = " AND document_pk = ANY(CAST(:among AS bigint[]))"
        parameters["among"] = list(scope.among)
    for number, (one, window) in enumerate(zip(lists, windows, strict=True)):
        conditions = []
        for place, words in enumerate(_tsqueries(scope.team, one, window)):
            name = f"words_{number}_{place}"
            parameters[name] = words
            conditions.append(f"words @@ CAST(CAST(:{name} AS text) AS tsquery)")
        # Were the order an index's, it would go through that for a common word and unpack the words of each row.
        selects.append(
            f"SELECT id FROM document_pieces WHERE {' AND '.join(conditions)}{only} "  # noqa: S608 - numbers of ours
            f"ORDER BY id + 0 DESC LIMIT {one.limit}"
        )
    return await _gather(connection, selects, "string_agg(CAST(found.id AS text), ',')", parameters)


async def _gather(
    connection: AsyncConnection, selects: Sequence[str], gathered: str, parameters: Mapping[str, Any]
) -> list[list[int]]:
    """All lists in one round trip, each as one row: rows cost more than what is in them."""
    parts = [
        f"SELECT {number} AS list, {gathered} AS ids FROM ({inner}) AS found"  # noqa: S608
        for number, inner in enumerate(selects)
    ]
    answers: list[list[int]] = [[] for _ in selects]
    for number, ids in await connection.execute(text(" UNION ALL ".join(parts)), dict(parameters)):
        answers[number] = [int(one) for one in ids.split(",")] if ids else []
    return answers


def _window(scope: Scope, one: Asked) -> Sequence[int]:
    """The newest documents, by their buckets, that should have enough; empty where all have to be looked at."""
    if scope.among is not None or one.expected <= _PLENTY * one.limit:
        return ()
    wanted = scope.last_pk * _PLENTY * one.limit / one.expected
    newest = scope.last_pk >> BUCKET_BITS
    oldest = int(scope.last_pk - wanted) >> BUCKET_BITS
    return range(oldest, newest + 1) if oldest > 0 and newest - oldest < _MAX_BUCKETS else ()


async def texts_of(
    connection: AsyncConnection, piece_ids: Sequence[int], *, postgres: bool
) -> dict[int, tuple[str, int | None]]:
    """The texts of these pieces and their pages."""
    rows = await connection.execute(
        select(PIECES.c.id, PIECES.c.text, PIECES.c.page).where(
            one_of(PIECES.c.id, piece_ids, postgres=postgres)
        )
    )
    return {piece_id: (text_of, page) for piece_id, text_of, page in rows.all()}


def _fts5(team: str | None, one: Asked) -> str:
    columns = "{head body}" if one.column == "all" else one.column
    all_of = " AND ".join("(" + " OR ".join(f'"{word}"' for word in group) + ")" for group in one.groups)
    of_team = "" if team is None else f"team_word : {team_word(team)} AND "
    return f"{of_team}{columns} : ({all_of})"


def _tsqueries(team: str | None, one: Asked, window: Sequence[int]) -> list[str]:
    """All of which must hold. One query of all of it would be worked out for every piece that has any of the words."""
    where = {"all": "", "head": "h=", "often": "o="}[one.column]
    found = [" | ".join(f"'{where}{word}'" for word in group) for group in one.groups]
    if window:
        found.append(" | ".join(f"'~{bucket}'" for bucket in window))
    if team is not None:
        found.append(f"'={team_word(team)}'")
    return found
