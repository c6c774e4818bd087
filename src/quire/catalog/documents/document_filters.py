"""Filters as conditions of a query over documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, and_, exists, func, not_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.schema import ASSIGNMENTS, DOCUMENTS, TAGS
from quire.catalog.search import word_rules
from quire.domain.vault_document import (
    UNSUPPORTED_TYPE,
    DocumentFilters,
    DocumentState,
    DocumentStatus,
)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Filters made ready for one database. `tag_pks` begins with the least used tag."""

    team: str
    conditions: tuple[ColumnElement[bool], ...]
    tag_pks: tuple[int, ...] = ()
    impossible: bool = False
    """One of the tags doesn't exist, so nothing fits."""
    by_keys: bool = False
    """One of the conditions lists the keys of documents, so that no index should be walked."""

    @property
    def narrow(self) -> bool:
        return bool(self.conditions or self.tag_pks)

    def where(self) -> ColumnElement[bool]:
        """Everything as one condition on `documents`, the team included."""
        if self.by_keys:
            return self.of_found()
        return and_(DOCUMENTS.c.team == self.team, *self.conditions, *map(_has_tag, self.tag_pks))

    def of_found(self) -> ColumnElement[bool]:
        """The same, for documents that are found by their keys."""
        return and_(of_team(self.team), *self.conditions, *map(_has_tag, self.tag_pks))

    def among(self, pks: Iterable[int], *, postgres: bool) -> Narrowing:
        """The same, of these documents only."""
        known = one_of(DOCUMENTS.c.pk, pks, postgres=postgres)
        return replace(self, conditions=(*self.conditions, known), by_keys=True)

    def newest_first(
        self, columns: Sequence[ColumnElement[object]], before_seq: int | None
    ) -> Select[*tuple[Any, ...]]:
        """The documents that fit, newest first. With a tag, the tag's own order is walked."""
        if self.by_keys or not self.tag_pks:
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

    def keys(self) -> Select[int]:
        """The keys of the documents that fit, in no order. A tag is one team's, so where there are only tags the
        documents needn't be read."""
        if self.conditions or not self.tag_pks:
            return select(DOCUMENTS.c.pk).where(self.where())
        first, *others = self.tag_pks
        key = ASSIGNMENTS.c.document_pk
        return select(key).where(ASSIGNMENTS.c.tag_pk == first, *(_has_tag(pk, key) for pk in others))


async def prepare(
    connection: AsyncConnection,
    team: str,
    filters: DocumentFilters,
    *,
    stale_before_s: float,
) -> Narrowing:
    """The filters as conditions, all but the words (see `containing`); the tags are looked up on the connection."""
    conditions = _conditions(filters, stale_before_s)
    slugs = {word_rules.slug(name) for name in filters.tags}
    if not slugs:
        return Narrowing(team, tuple(conditions))
    rows = await connection.execute(
        select(TAGS.c.pk).where(TAGS.c.team == team, TAGS.c.slug.in_(slugs)).order_by(TAGS.c.uses, TAGS.c.pk)
    )
    tag_pks = tuple(int(pk) for pk in rows.scalars())
    return Narrowing(team, tuple(conditions), tag_pks, impossible=len(tag_pks) < len(slugs))


def one_of(column: Column[Any], numbers: Iterable[int], *, postgres: bool) -> ColumnElement[bool]:
    """That the column has one of many numbers, as one parameter: hundreds of them take long to write out."""
    listed, parameters = listed_keys(f"{column.name}_one_of", numbers, postgres=postgres)
    return column.in_(text(listed).bindparams(**parameters))


def listed_keys(name: str, numbers: Iterable[int], *, postgres: bool) -> tuple[str, dict[str, Any]]:
    """A query that answers with these numbers, and its parameter."""
    if postgres:
        return f"SELECT unnest(CAST(:{name} AS bigint[]))", {name: list(numbers)}
    return f"SELECT value FROM json_each(:{name})", {name: json.dumps(list(numbers))}  # noqa: S608


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
    elif filters.state in (DocumentState.NEEDS_CLASSIFICATION, DocumentState.UNSUPPORTED):
        # Written out, because a partial index is only used where its own condition can be seen.
        found.append(text("documents.status = 'completed' AND documents.title IS NULL"))  # type: ignore[arg-type]
        unsupported = func.coalesce(columns.error, "").contains(f'"{UNSUPPORTED_TYPE}"', autoescape=True)
        found.append(unsupported if filters.state is DocumentState.UNSUPPORTED else not_(unsupported))
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


def _has_tag(tag_pk: int, key: Column[Any] = DOCUMENTS.c.pk) -> ColumnElement[bool]:
    given = ASSIGNMENTS.alias()
    return exists(
        select(given.c.tag_pk)
        .where(given.c.document_pk == key, given.c.tag_pk == tag_pk)
        .correlate(key.table)
    )
