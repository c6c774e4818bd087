"""What search knows of a document's text: its head, its pieces and the words in them.

Functions here run inside the caller's transaction. Tokenising is done before it begins, in `prepare_…`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.schema import BUCKET_BITS, PIECE_BITS, PIECES, TEAMS
from quire.catalog.documents.document_filters import team_word
from quire.catalog.search import team_terms
from quire.catalog.search.piece_places import packed_places
from quire.catalog.search.text_pieces import TextPiece
from quire.catalog.search.word_rules import words

_OFTEN = 3
_ROWS_AT_A_TIME = 100
_WORDS_AT_A_TIME = 5_000
"""The driver's work for one statement is done on the event loop, so it gets no more than this at once."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """One piece with its words, ready to be stored but for whose it is. Number 0 is the head."""

    number: int
    page: int | None
    text: str
    head: str
    often: str
    body: str
    lexemes: str | None
    """The words as PostgreSQL takes them; none for SQLite."""
    places: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The head of a document or its whole body."""

    pieces: Sequence[Indexed]
    words: Collection[str]
    length: int


def prepare_head(
    title: str | None, tags: Sequence[str], filename: str, summary: str | None, *, postgres: bool
) -> Prepared:
    head = [word for part in (title or "", *tags, filename) for word in words(part)]
    body = words(summary or "")
    found = _indexed(TextPiece(0, None, summary or ""), head, body, postgres=postgres)
    return Prepared([found], {*head, *body}, len(head) + len(body))


def prepare_body(pieces: Iterable[TextPiece], *, postgres: bool) -> Prepared:
    """Takes a second for some megabytes of text."""
    indexed, seen, length = [], set[str](), 0
    for piece in pieces:
        body = words(piece.text)
        indexed.append(_indexed(piece, [], body, postgres=postgres))
        seen.update(body)
        length += len(body)
    return Prepared(indexed, seen, length)


def _indexed(piece: TextPiece, head: Sequence[str], body: Sequence[str], *, postgres: bool) -> Indexed:
    often = [word for word, times in Counter(body).items() if times >= _OFTEN]
    lexemes = _lexemes(head, often, body) if postgres else None
    texts = (" ".join(head), " ".join(often), " ".join(body))
    return Indexed(piece.number, piece.page, piece.text, *texts, lexemes, packed_places(piece))


def _lexemes(head: Iterable[str], often: Iterable[str], body: Iterable[str]) -> str:
    """The words as PostgreSQL takes them."""
    listed = [f"'{word}'" for word in {*head, *body}]
    listed += [f"'h={word}'" for word in set(head)]
    listed += [f"'o={word}'" for word in often]
    return " ".join(listed)


async def replace_head(
    connection: AsyncConnection, team: str, document_pk: int, head: Prepared, *, postgres: bool
) -> None:
    await _replace(connection, team, document_pk, (0, 0), head, postgres=postgres)


async def replace_body(
    connection: AsyncConnection, team: str, document_pk: int, body: Prepared, *, postgres: bool
) -> None:
    await _replace(connection, team, document_pk, (1, (1 << PIECE_BITS) - 1), body, postgres=postgres)


async def remove(connection: AsyncConnection, team: str, document_pk: int, *, postgres: bool) -> None:
    """Removes all pieces of the document and takes their words out of the counts."""
    nothing = Prepared((), (), 0)
    await replace_head(connection, team, document_pk, nothing, postgres=postgres)
    await replace_body(connection, team, document_pk, nothing, postgres=postgres)


async def beginning(connection: AsyncConnection, document_pk: int) -> str:
    """The first piece of the content."""
    found = await connection.execute(
        select(PIECES.c.text).where(PIECES.c.id == (document_pk << PIECE_BITS) + 1)
    )
    return found.scalar() or ""


async def _replace(
    connection: AsyncConnection,
    team: str,
    document_pk: int,
    numbers: tuple[int, int],
    new: Prepared,
    *,
    postgres: bool,
) -> None:
    base = document_pk << PIECE_BITS
    these = PIECES.c.id.between(base + numbers[0], base + numbers[1])
    old = (await connection.execute(select(PIECES.c.head, PIECES.c.body).where(these))).all()
    if old:
        await connection.execute(delete(PIECES).where(these))
    for at in range(0, len(new.pieces), _ROWS_AT_A_TIME):
        rows = [piece_row(team, document_pk, piece) for piece in new.pieces[at : at + _ROWS_AT_A_TIME]]
        await insert_rows(connection, rows, postgres=postgres)
    if len(old) + len(new.pieces) > _ROWS_AT_A_TIME:
        deltas, old_length = await asyncio.to_thread(_difference, old, new.words)
    else:
        deltas, old_length = _difference(old, new.words)
    await connection.execute(
        update(TEAMS)
        .where(TEAMS.c.team == team)
        .values(
            words=TEAMS.c.words + new.length - old_length,
            pieces=TEAMS.c.pieces + len(new.pieces) - len(old),
        )
    )
    # Last, because other writers of the team wait for these rows until the transaction ends.
    in_order = iter(deltas.items())
    while some := dict(islice(in_order, _WORDS_AT_A_TIME)):
        await team_terms.apply(connection, team, some, postgres=postgres)


def _difference(old: Iterable[Sequence[str]], new_words: Collection[str]) -> tuple[dict[str, int], int]:
    """What the change does to the counts of the words, and how many words there were."""
    old_words: set[str] = set()
    old_length = 0
    for head, body in old:
        found = f"{head} {body}".split()
        old_words.update(found)
        old_length += len(found)
    return team_terms.change(old_words, new_words), old_length


def piece_row(team: str, document_pk: int, piece: Indexed) -> dict[str, Any]:
    mark = team_word(team)
    row: dict[str, Any] = {
        "id": (document_pk << PIECE_BITS) + piece.number,
        "document_pk": document_pk,
        "team_word": mark,
        "page": piece.page,
        "text": piece.text,
        "head": piece.head,
        "often": piece.often,
        "body": piece.body,
        "places": piece.places,
    }
    # The place of a word is part of the lexeme. Weights would do as well, but they are not in the index: each row
    # would have to be read. The team is a lexeme too, and about how new the document is, because this index
    # can't be read from the newest on. Words hold letters and digits only: no quoting needed.
    if piece.lexemes is not None:
        row["words"] = _with_owner(row, piece.lexemes)
    return row


def words_of_row(row: Mapping[str, Any]) -> str:
    """Returns the column `words` of PostgreSQL for a row that SQLite has stored without it."""
    return _with_owner(row, _lexemes(row["head"].split(), row["often"].split(), row["body"].split()))


def _with_owner(row: Mapping[str, Any], lexemes: str) -> str:
    return f"'={row['team_word']}' '~{row['document_pk'] >> BUCKET_BITS}' {lexemes}"


async def insert_rows(connection: AsyncConnection, rows: Sequence[dict[str, Any]], *, postgres: bool) -> None:
    if not postgres:
        await connection.execute(insert(PIECES), rows)
        return
    names = [column.name for column in PIECES.c]
    statement = (
        f"INSERT INTO document_pieces ({', '.join(names)}, words) "  # noqa: S608 - the names are ours
        f"VALUES ({', '.join(':' + name for name in names)}, CAST(CAST(:words AS text) AS tsvector))"
    )
    await connection.execute(text(statement), rows)
