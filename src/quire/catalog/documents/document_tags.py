"""Tags: one for all spellings of a name, with a use count, deleted with the last document that has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, insert, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.schema import ASSIGNMENTS, TAGS, TEAMS
from quire.catalog.search.word_rules import slug, storable
from quire.domain.vault_document import DocumentTag

_LAST = "\U0010ffff"
_ESCAPED = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})


async def assign(
    connection: AsyncConnection, team: str, document_pk: int, seq: int, names: Sequence[str]
) -> tuple[str, ...]:
    """Gives the document these tags and no others; the names as they are kept."""
    wanted: dict[str, str] = {}
    for name in names:
        tidy = " ".join(storable(name).split())
        if slug(tidy):
            wanted.setdefault(slug(tidy), tidy)
    await lock_team(connection, team)
    rows = await connection.execute(
        select(ASSIGNMENTS.c.tag_pk).where(ASSIGNMENTS.c.document_pk == document_pk)
    )
    before = {int(pk) for pk in rows.scalars()}
    kept: dict[str, tuple[int, str]] = {}
    for one in sorted(wanted):
        found = await connection.execute(
            text(
                "INSERT INTO document_tags (team, slug, name, uses) VALUES (:team, :slug, :name, 0) "
                "ON CONFLICT (team, slug) DO UPDATE SET uses = document_tags.uses RETURNING pk, name"
            ),
            {"team": team, "slug": one, "name": wanted[one]},
        )
        pk, name = found.one()
        kept[one] = (int(pk), str(name))
    now = {pk for pk, _ in kept.values()}
    if now - before:
        await connection.execute(
            insert(ASSIGNMENTS),
            [
                {"document_pk": document_pk, "tag_pk": pk, "team": team, "seq": seq}
                for pk in sorted(now - before)
            ],
        )
    await _count(connection, now - before, 1)
    await _drop(connection, team, document_pk, before - now)
    return tuple(kept[one][1] for one in wanted)


async def lock_team(connection: AsyncConnection, team: str) -> None:
    """Locks the team for other writers. A caller that also locks a document must do that first."""
    await connection.execute(select(TEAMS.c.team).where(TEAMS.c.team == team).with_for_update())


async def remove(connection: AsyncConnection, team: str, document_pk: int) -> None:
    """Takes all tags from the document."""
    await assign(connection, team, document_pk, 0, ())


async def suggest(connection: AsyncConnection, team: str, prefix: str, limit: int) -> list[DocumentTag]:
    wanted = select(TAGS).where(TAGS.c.team == team, TAGS.c.uses > 0)
    begun = slug(prefix)
    if prefix.strip() and not begun:
        return []
    if begun:
        inner = f"%-{begun.translate(_ESCAPED)}%"
        wanted = wanted.where(
            or_(
                (TAGS.c.slug >= begun) & (TAGS.c.slug < begun + _LAST),
                TAGS.c.slug.like(inner, escape="\\"),
            )
        )
    rows = await connection.execute(wanted.order_by(TAGS.c.uses.desc(), TAGS.c.slug).limit(limit))
    return [DocumentTag(row.pk, row.name, row.slug, row.uses) for row in rows]


async def _drop(connection: AsyncConnection, team: str, document_pk: int, tag_pks: Iterable[int]) -> None:
    dropped = sorted(tag_pks)
    if not dropped:
        return
    await connection.execute(
        delete(ASSIGNMENTS).where(ASSIGNMENTS.c.document_pk == document_pk, ASSIGNMENTS.c.tag_pk.in_(dropped))
    )
    await _count(connection, dropped, -1)
    gone = await connection.execute(
        delete(TAGS).where(TAGS.c.team == team, TAGS.c.pk.in_(dropped), TAGS.c.uses <= 0)
    )
    if gone.rowcount:
        await connection.execute(
            update(TEAMS)
            .where(TEAMS.c.team == team)
            .values(vectors_removed=TEAMS.c.vectors_removed + gone.rowcount)
        )


async def _count(connection: AsyncConnection, tag_pks: Iterable[int], change: int) -> None:
    for pk in sorted(tag_pks):
        await connection.execute(update(TAGS).where(TAGS.c.pk == pk).values(uses=TAGS.c.uses + change))
