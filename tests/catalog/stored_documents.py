"""Documents of the catalog's tests."""

from __future__ import annotations

from quire.catalog.catalog import Catalog
from quire.domain.vault_document import Classification, ContentPage, NewDocument, VaultDocument


def new(document_id: str, team: str = "blue", **fields: object) -> NewDocument:
    given = {"filename": f"{document_id}.pdf", "content_ref": f"vault/{team}/{document_id}", "kind": "pdf"}
    return NewDocument(team=team, id=document_id, **{**given, **fields})  # type: ignore[arg-type]


async def stored(
    catalog: Catalog,
    document_id: str,
    text: str = "",
    *,
    team: str = "blue",
    title: str | None = None,
    summary: str | None = None,
    tags: tuple[str, ...] = (),
    date: str | None = None,
    language: str | None = None,
    **fields: object,
) -> VaultDocument:
    """A document that went all the way."""
    await catalog.create(new(document_id, team, **fields))
    attempt = await catalog.begin_processing(team, document_id)
    assert attempt is not None
    if text:
        await catalog.set_content(team, document_id, attempt, [ContentPage(text, 1)])
    found = Classification(title=title, by="local", summary=summary, tags=tags, date=date, language=language)
    assert await catalog.complete(team, document_id, attempt, found)
    return await catalog.get(team, document_id)
