"""Posting lists: which pieces have which words, from the database's index, and which documents to rank.

Candidates are kept in arrays, because there are thousands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import statement
from quire.catalog.database.schema import BUCKET_BITS, PIECE_BITS, PIECES
from quire.catalog.documents.document_filters import one_of, team_word
from quire.catalog.search.snippets import StoredPiece

_PIECES_OF_DOCUMENT = 2

Meaning = tuple[tuple[int, ...], float]
"""Which words of the query a list is about (by number), and what being in it counts for."""


@dataclass(frozen=True, slots=True)
class CandidateDocuments:
    """The pieces of each document (by its pk) that have most of the query."""

    pieces: dict[int, list[int]]

    def best_pieces(self, pk: int) -> list[int]:
        """The head, always, and then the best of the others."""
        head = pk << PIECE_BITS
        others = [piece for piece in self.pieces.get(pk, ()) if piece != head]
        return [head, *others[:_PIECES_OF_DOCUMENT]]


def best_documents(
    lists: Sequence[tuple[Meaning, Sequence[int]]], rarities: Sequence[float], most: int
) -> CandidateDocuments:
    """The `most` documents that have the rarest words in the best places; of equals the newest."""
    # Within a word, better places come later and overwrite.
    filled = sorted(
        ((meaning, np.array(ids, np.int64)) for meaning, ids in lists if ids), key=lambda one: one[0][1]
    )
    if not filled:
        return CandidateDocuments({})
    pieces = np.unique(np.concatenate([ids for _, ids in filled]))
    documents, owner = np.unique(pieces >> PIECE_BITS, return_inverse=True)
    of_documents = np.zeros(len(documents))
    of_pieces = np.zeros(len(pieces))
    for number, rarity in enumerate(rarities):
        levels = np.zeros(len(pieces))
        for (numbers, level), ids in filled:
            if number in numbers:
                levels[np.searchsorted(pieces, ids)] = level
        best = np.zeros(len(documents))
        np.maximum.at(best, owner, levels)
        of_documents += rarity * best
        of_pieces += rarity * levels
    order = np.lexsort((-documents, -of_documents))[:most]
    chosen = np.isin(owner, order)
    found: dict[int, list[int]] = {int(documents[place]): [] for place in order}
    places = np.flatnonzero(chosen)
    for place in places[np.lexsort((pieces[places], -of_pieces[places]))]:
        found[int(documents[owner[place]])].append(int(pieces[place]))
    return CandidateDocuments(found)


_PLENTY = 1.5
_MAX_BUCKETS = 16
_WALKED_MEANWHILE = 80
"""How many entries of the words' index can be gone through in the time that it takes to read one piece."""


@dataclass(frozen=True, slots=True)
class PostingQuery:
    """One list of pieces: those that have, for each of `groups`, any of its words in the column.

    `column` is head, often, or `all` for head and body. At most `limit` pieces, of the newest documents;
    about `expected` are there, and about `looked_at` have the rarest of the groups.
    """

    groups: tuple[tuple[str, ...], ...]
    column: str
    limit: int
    expected: float
    looked_at: float


@dataclass(frozen=True, slots=True)
class Scope:
    """The team whose pieces are read, and how many documents there are in all.

    Without a team the pieces of all teams are in the lists, which is faster where most are one team's: the
    caller must then remove those of other teams. `among` narrows the lists to these documents, the newest
    first; on PostgreSQL that needs a connection in a transaction.
    """

    team: str | None
    last_pk: int
    pieces_each: float
    """How many pieces a document usually has."""
    among: Sequence[int] | None = None


async def by_bitmaps(connection: AsyncConnection) -> None:
    """Until its transaction ends, PostgreSQL finds pieces of listed documents by what both indexes say.

    Otherwise it takes the documents' index alone and unpacks the words of all their pieces: it knows neither how many
    documents are listed nor what unpacking costs.
    """
    await connection.execute(_BY_BITMAPS)


_BY_BITMAPS = text(
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_indexscan', 'off', true)"
)


async def ask(
    connection: AsyncConnection, scope: Scope, lists: Sequence[PostingQuery], *, postgres: bool
) -> list[list[int]]:
    """The ids of the pieces for each list."""
    if not lists:
        return []
    if not postgres:
        return await _ask_sqlite(connection, scope, lists)
    if scope.among is not None:
        await by_bitmaps(connection)
    reaches = [_reach(scope, one) for one in lists]
    answers = await _ask_postgres(connection, scope, lists, reaches)
    # What was expected to be common among the newest may be common only among older ones.
    short = [n for n, one in enumerate(lists) if reaches[n].cut and len(answers[n]) < one.limit // 4]
    if short:
        everything = [_Reach(documents=scope.among)] * len(short)
        again = await _ask_postgres(connection, scope, [lists[n] for n in short], everything)
        for number, ids in zip(short, again, strict=True):
            answers[number] = ids
    return answers


async def _ask_sqlite(
    connection: AsyncConnection, scope: Scope, lists: Sequence[PostingQuery]
) -> list[list[int]]:
    parameters: dict[str, Any] = {}
    selects: list[str] = []
    if scope.among is not None:
        parameters["among"] = json.dumps(list(scope.among))
    for number, one in enumerate(lists):
        if scope.among is not None and _read_rather(scope, one):
            selects.append(_reading(number, one, parameters))
            continue
        only = ""
        if scope.among is not None:
            only = f" AND (rowid >> {PIECE_BITS}) IN (SELECT value FROM json_each(:among))"  # noqa: S608
        parameters[f"words_{number}"] = _fts5(scope.team, one)
        selects.append(
            f"SELECT rowid AS id FROM document_words WHERE document_words MATCH :words_{number}{only} "  # noqa: S608
            f"ORDER BY rowid DESC LIMIT {one.limit}"
        )
    return await _gather(connection, selects, "group_concat(found.id)", parameters)


def _read_rather(scope: Scope, one: PostingQuery) -> bool:
    """Whether reading all pieces of the listed documents is quicker than going through the index for them."""
    among = len(scope.among or ())
    walked = min(one.looked_at, one.limit * scope.last_pk / max(1, among))
    return one.column == "all" and among * scope.pieces_each * _WALKED_MEANWHILE < walked


def _reading(number: int, one: PostingQuery, parameters: dict[str, Any]) -> str:
    all_of = []
    for place, group in enumerate(one.groups):
        names = [f"word_{number}_{place}_{which}" for which in range(len(group))]
        parameters |= {name: f" {word} " for name, word in zip(names, group, strict=True)}
        any_of = " OR ".join(f"instr(' ' || head || ' ' || body || ' ', :{name}) > 0" for name in names)
        all_of.append(f"({any_of})")
    return (
        "SELECT id FROM document_pieces WHERE document_pk IN (SELECT value FROM json_each(:among)) "  # noqa: S608
        f"AND {' AND '.join(all_of)} ORDER BY id DESC LIMIT {one.limit}"
    )


async def _ask_postgres(
    connection: AsyncConnection, scope: Scope, lists: Sequence[PostingQuery], reaches: Sequence[_Reach]
) -> list[list[int]]:
    parameters: dict[str, Any] = {}
    selects: list[str] = []
    for number, (one, reach) in enumerate(zip(lists, reaches, strict=True)):
        conditions = []
        matching, key = "words @@ {}", "document_pk"
        if reach.documents is not None:
            # Of both indexes, or of one where that is less: a function's answer and a sum are in no index.
            among = len(reach.documents)
            if among * scope.pieces_each * _WALKED_MEANWHILE < one.looked_at:
                matching = "ts_match_vq(words, {})"
            elif one.expected < among / 4:
                key = "document_pk + 0"
            parameters[f"among_{number}"] = list(reach.documents)
            conditions.append(f"{key} = ANY(CAST(:among_{number} AS bigint[]))")
        for place, words in enumerate(_tsqueries(scope.team, one, reach.buckets)):
            name = f"words_{number}_{place}"
            parameters[name] = words
            conditions.append(matching.format(f"CAST(CAST(:{name} AS text) AS tsquery)"))
        # Were the order an index's, it would go through that for a common word and unpack the words of each row.
        selects.append(
            f"SELECT id FROM document_pieces WHERE {' AND '.join(conditions)} "  # noqa: S608 - numbers of ours
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
    for number, ids in await connection.execute(statement(" UNION ALL ".join(parts)), dict(parameters)):
        answers[number] = [int(one) for one in ids.split(",")] if ids else []
    return answers


@dataclass(frozen=True, slots=True)
class _Reach:
    """Which documents a list is of: those of some buckets, those listed, or all; `cut` if there are older ones."""

    buckets: Sequence[int] = ()
    documents: Sequence[int] | None = None
    cut: bool = False


def _reach(scope: Scope, one: PostingQuery) -> _Reach:
    """The newest documents that should have enough, where that isn't all."""
    if one.expected <= _PLENTY * one.limit:
        return _Reach(documents=scope.among)
    share = _PLENTY * one.limit / one.expected
    if scope.among is not None:
        enough = math.ceil(share * scope.last_pk)
        return _Reach(documents=scope.among[:enough], cut=enough < len(scope.among))
    newest = scope.last_pk >> BUCKET_BITS
    oldest = int(scope.last_pk * (1 - share)) >> BUCKET_BITS
    if oldest <= 0 or newest - oldest >= _MAX_BUCKETS:
        return _Reach()
    return _Reach(buckets=range(oldest, newest + 1), cut=True)


async def texts_of(
    connection: AsyncConnection, piece_ids: Sequence[int], *, postgres: bool
) -> dict[int, StoredPiece]:
    """The texts of these pieces with their pages and places."""
    rows = await connection.execute(
        select(PIECES.c.id, PIECES.c.text, PIECES.c.page, PIECES.c.places).where(
            one_of(PIECES.c.id, piece_ids, postgres=postgres)
        )
    )
    return {piece_id: StoredPiece(text_of, page, places) for piece_id, text_of, page, places in rows.all()}


def _fts5(team: str | None, one: PostingQuery) -> str:
    columns = "{head body}" if one.column == "all" else one.column
    all_of = " AND ".join("(" + " OR ".join(f'"{word}"' for word in group) + ")" for group in one.groups)
    of_team = "" if team is None else f"team_word : {team_word(team)} AND "
    return f"{of_team}{columns} : ({all_of})"


def _tsqueries(team: str | None, one: PostingQuery, window: Sequence[int]) -> list[str]:
    """All of which must hold. One query of all of it would be worked out for every piece that has any of the words."""
    where = {"all": "", "head": "h=", "often": "o="}[one.column]
    found = [" | ".join(f"'{where}{word}'" for word in group) for group in one.groups]
    if window:
        found.append(" | ".join(f"'~{bucket}'" for bucket in window))
    if team is not None:
        found.append(f"'={team_word(team)}'")
    return found
