"""Filters as conditions of a query over documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, and_, bindparam, exists, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog import words
from quire.catalog.tables import ASSIGNMENTS, DOCUMENTS, TAGS
from quire.domain.documents import DocumentFilters, DocumentState, DocumentStatus

MAX_FILTER_WORDS = 8


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Filters made ready for one database. `tag_pks` begins with the least used tag."""

    team: str
    conditions: tuple[ColumnElement[bool], ...]
    tag_pks: tuple[int, ...] = ()
    impossible: bool = False
    """One of the tags doesn't exist, so nothing fits."""

    @property
    def narrow(self) -> bool:
        return bool(self.conditions or self.tag_pks)

    def where(self) -> ColumnElement[bool]:
        """Everything as one condition on `documents`, the team included."""
        return and_(DOCUMENTS.c.team == self.team, *self.conditions, *map(_has_tag, self.tag_pks))

    def where_among(self, pks: Iterable[int], *, postgres: bool) -> ColumnElement[bool]:
        """The same, for a few documents that are known by their keys."""
        known = one_of(DOCUMENTS.c.pk, pks, postgres=postgres)
        return and_(known, of_team(self.team), *self.conditions, *map(_has_tag, self.tag_pks))

    def newest_first(
        self, columns: Sequence[ColumnElement[object]], before_seq: int | None
    ) -> Select[*tuple[Any, ...]]:
        """The documents that fit, newest first. With a tag, the tag's own order is walked."""
        if not self.tag_pks:
            found = select(*columns).where(self.where()).order_by(DOCUMENTS.c.seq.desc())
            return found if before_seq is None else found.where(DOCUMENTS.c.seq < before_seq)
        first, *others = self.tag_pks
        found = (
            select(*columns)
            .join_from(ASSIGNMENTS, DOCUMENTS, ASSIGNMENTS.c.document_pk == DOCUMENTS.c.pk)
            .where(ASSIGNMENTS.c.tag_pk == first, DOCUMENTS.c.team == self.team)
            .where(*self.conditions, *map(_has_tag, others))
            .order_by(ASSIGNMENTS.c.seq.desc())
        )
        return found if before_seq is None else found.where(ASSIGNMENTS.c.seq < before_seq)


async def prepare(
    connection: AsyncConnection,
    team: str,
    filters: DocumentFilters,
    *,
    postgres: bool,
    stale_before_s: float,
) -> Narrowing:
    """The filters as conditions; the tags are looked up on the connection."""
    conditions = _conditions(filters, stale_before_s)
    if filters.text:
        found = dict.fromkeys(words.words(filters.text))
        conditions += [
            _contains(word, number, postgres=postgres)
            for number, word in enumerate(list(found)[:MAX_FILTER_WORDS])
        ]
    slugs = {words.slug(name) for name in filters.tags}
    if not slugs:
        return Narrowing(team, tuple(conditions))
    rows = await connection.execute(
        select(TAGS.c.pk).where(TAGS.c.team == team, TAGS.c.slug.in_(slugs)).order_by(TAGS.c.uses, TAGS.c.pk)
    )
    tag_pks = tuple(int(pk) for pk in rows.scalars())
    return Narrowing(team, tuple(conditions), tag_pks, impossible=len(tag_pks) < len(slugs))


def one_of(column: Column[Any], numbers: Iterable[int], *, postgres: bool) -> ColumnElement[bool]:
    """That the column has one of many numbers, as one parameter: hundreds of them take long to write out."""
    name = f"{column.name}_one_of"
    if postgres:
        listed = text(f"SELECT unnest(CAST(:{name} AS bigint[]))").bindparams(bindparam(name, list(numbers)))
    else:
        listed = text(f"SELECT value FROM json_each(:{name})").bindparams(  # noqa: S608
            bindparam(name, json.dumps(list(numbers)))
        )
    return column.in_(listed)


def of_team(team: str) -> ColumnElement[bool]:
    """That a document is the team's, for documents found by their keys.

    Written so that no index can be used for it: SQLite takes a team for ten documents and would rather go
    through all of them than look up a hundred keys.
    """
    return DOCUMENTS.c.team.concat("") == team


def team_word(team: str) -> str:
    """The team as one word of the index: names of teams may hold characters that words can't."""
    return "t" + hashlib.blake2b(team.encode(), digest_size=12).hexdigest()


def _conditions(filters: DocumentFilters, stale_before_s: float) -> list[ColumnElement[bool]]:
    columns = DOCUMENTS.c
    found: list[ColumnElement[bool]] = []
    if filters.state is DocumentState.STALE:
        found += [columns.status == DocumentStatus.PENDING.value, columns.pending_since < stale_before_s]
    elif filters.state is DocumentState.NEEDS_CLASSIFICATION:
        # Written out, because a partial index is only used where its own condition can be seen.
        found.append(text("documents.status = 'completed' AND documents.title IS NULL"))  # type: ignore[arg-type]
    elif filters.state is not None:
        found.append(columns.status == filters.state.value)
    if filters.kinds:
        found.append(columns.kind.in_(filters.kinds))
    if filters.language is not None:
        found.append(columns.language == filters.language)
    if filters.date_from is not None:
        found.append(columns.date >= filters.date_from)
    if filters.date_to is not None:
        found.append(columns.date <= filters.date_to)
    if filters.created_from_s is not None:
        found.append(columns.created_at >= filters.created_from_s)
    if filters.created_to_s is not None:
        found.append(columns.created_at < filters.created_to_s)
    return found


def _contains(word: str, number: int, *, postgres: bool) -> ColumnElement[bool]:
    """That the document has the word. Whose document it is, the other conditions say."""
    name = f"contains_{number}"
    if postgres:
        # As an array it is looked up once; as a subquery it may be asked again for each document.
        matching = (
            f"SELECT document_pk FROM document_pieces WHERE words @@ CAST(CAST(:{name} AS text) AS tsquery)"  # noqa: S608
        )
        condition = text(f"documents.pk = ANY(ARRAY({matching}))").bindparams(bindparam(name, f"'{word}'"))
        return condition  # type: ignore[return-value]
    matching = f"SELECT rowid >> 12 FROM document_words WHERE document_words MATCH :{name}"  # noqa: S608
    return DOCUMENTS.c.pk.in_(text(matching).bindparams(bindparam(name, f'{{head body}} : "{word}"')))


def _has_tag(tag_pk: int) -> ColumnElement[bool]:
    given = ASSIGNMENTS.alias()
    return exists(
        select(given.c.tag_pk)
        .where(given.c.document_pk == DOCUMENTS.c.pk, given.c.tag_pk == tag_pk)
        .correlate(DOCUMENTS)
    )
