"""What search knows of a document's text: its head, its pieces and the words in them.

Functions here are parts of somebody else's transaction. Tokenising is done before it begins, in `prepare_…`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog import terms
from quire.catalog.filters import team_word
from quire.catalog.pieces import Piece
from quire.catalog.tables import BUCKET_BITS, PIECE_BITS, PIECES, TEAMS
from quire.catalog.words import words

_OFTEN = 3


@dataclass(frozen=True, slots=True)
class Indexed:
    """One piece with its words, ready to be stored. Number 0 is the head."""

    number: int
    page: int | None
    text: str
    head: tuple[str, ...]
    body: tuple[str, ...]


def prepare_head(title: str | None, tags: Sequence[str], filename: str, summary: str | None) -> Indexed:
    head = tuple(word for part in (title or "", *tags, filename) for word in words(part))
    return Indexed(0, None, summary or "", head, tuple(words(summary or "")))


def prepare_body(pieces: Iterable[Piece]) -> list[Indexed]:
    return [Indexed(piece.number, piece.page, piece.text, (), tuple(words(piece.text))) for piece in pieces]


async def replace_head(
    connection: AsyncConnection, team: str, document_pk: int, head: Indexed, *, postgres: bool
) -> None:
    await _replace(connection, team, document_pk, (0, 0), [head], postgres=postgres)


async def replace_body(
    connection: AsyncConnection, team: str, document_pk: int, body: Sequence[Indexed], *, postgres: bool
) -> None:
    await _replace(connection, team, document_pk, (1, (1 << PIECE_BITS) - 1), body, postgres=postgres)


async def remove(connection: AsyncConnection, team: str, document_pk: int, *, postgres: bool) -> None:
    """Removes all pieces of the document and takes their words out of the counts."""
    for first, last in ((0, 0), (1, (1 << PIECE_BITS) - 1)):
        await _replace(connection, team, document_pk, (first, last), [], postgres=postgres)


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
    pieces: Sequence[Indexed],
    *,
    postgres: bool,
) -> None:
    base = document_pk << PIECE_BITS
    these = PIECES.c.id.between(base + numbers[0], base + numbers[1])
    old_words: set[str] = set()
    old_count, old_length = 0, 0
    for head, body in await connection.execute(select(PIECES.c.head, PIECES.c.body).where(these)):
        found = f"{head} {body}".split()
        old_words.update(found)
        old_count, old_length = old_count + 1, old_length + len(found)
    if old_count:
        await connection.execute(delete(PIECES).where(these))
    if pieces:
        rows = [piece_row(team, document_pk, piece, postgres=postgres) for piece in pieces]
        await insert_rows(connection, rows, postgres=postgres)
    new_words = {word for piece in pieces for word in (*piece.head, *piece.body)}
    length = sum(len(piece.head) + len(piece.body) for piece in pieces)
    await connection.execute(
        update(TEAMS)
        .where(TEAMS.c.team == team)
        .values(words=TEAMS.c.words + length - old_length, pieces=TEAMS.c.pieces + len(pieces) - old_count)
    )
    # Last, because other writers of the team wait for these rows until the transaction ends.
    await terms.apply(connection, team, terms.change(old_words, new_words), postgres=postgres)


def piece_row(team: str, document_pk: int, piece: Indexed, *, postgres: bool) -> dict[str, Any]:
    mark = team_word(team)
    often = [word for word, times in Counter(piece.body).items() if times >= _OFTEN]
    row: dict[str, Any] = {
        "id": (document_pk << PIECE_BITS) + piece.number,
        "document_pk": document_pk,
        "team_word": mark,
        "page": piece.page,
        "text": piece.text,
        "head": " ".join(piece.head),
        "often": " ".join(often),
        "body": " ".join(piece.body),
    }
    if postgres:
        row["words"] = _tsvector(mark, document_pk, piece, often)
    return row


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


def _tsvector(mark: str, document_pk: int, piece: Indexed, often: Collection[str]) -> str:
    """The piece as PostgreSQL writes its vectors of words. Words hold letters and digits only: no quoting needed.

    Where a word stands is part of the lexeme. Weights would do as well, but they are not in the index: each row
    would have to be looked at. The team is a lexeme too, and about how new the document is, because this index
    can't be read from the newest on.
    """
    listed = [
        f"'={mark}'",
        f"'~{document_pk >> BUCKET_BITS}'",
        *(f"'{word}'" for word in {*piece.head, *piece.body}),
    ]
    listed += [f"'h={word}'" for word in set(piece.head)]
    listed += [f"'o={word}'" for word in often]
    return " ".join(listed)
