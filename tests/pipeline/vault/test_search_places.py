"""A search hit has the page and the boxes of what was found, and the text chunk it is of."""

from __future__ import annotations

from pathlib import Path

import pymupdf
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.domain.text_chunk import ChunkOptions
from quire.domain.vault_document import SearchHit
from quire.pipeline.document_formats import chunks_lines
from quire.pipeline.vault.place_backlog import PlaceBacklog
from quire.pipeline.vault.vault import Vault
from tests.support.environment import ROOT
from tests.support.vault_running import TEAM, add, settled, vault_at

SAMPLE = ROOT / "samples" / "text.pdf"
QUIET = {"LOCAL_CLASSIFIER": "0", "EMBEDDING_PROVIDER": "off", "VAULT_SWEEP_INTERVAL": "1d"}


async def _hit(vault: Vault, query: str) -> SearchHit:
    return (await (await vault.catalog()).search(TEAM, query)).hits[0]


async def _forget_places(vault: Vault) -> None:
    """The pieces become as an earlier version stored them."""

    async def change(connection: AsyncConnection) -> None:
        await connection.execute(text("UPDATE document_pieces SET places = NULL"))

    await (await vault.catalog())._database.write(change)


async def test_hit_has_the_box_of_its_words_and_rows_of_an_earlier_version_get_it(tmp_path: Path) -> None:
    async with vault_at(tmp_path, **QUIET) as (one, vault):
        row = await settled(vault, await add(vault, SAMPLE.read_bytes(), name="text.pdf"))
        hit = await _hit(vault, "painted staff")
        job = await vault.conversion(row)
        assert job is not None
        chunks = [line async for line in chunks_lines(await one.engine.elements(job), ChunkOptions())]
        await _forget_places(vault)
        bare = await _hit(vault, "painted staff")
        stored = [await PlaceBacklog(vault).next_page(10), await PlaceBacklog(vault).next_page(10)]
        again = await _hit(vault, "painted staff")

    assert hit.snippet is not None
    assert hit.snippet.chunk is not None
    assert hit.snippet.chunk.hash.encode() in b"".join(chunks)
    with pymupdf.open(SAMPLE) as document:
        for place in hit.snippet.places:
            words = document[place.page - 1].get_text("text", clip=pymupdf.Rect(*(place.box or ())))
            assert "painted" in words
            assert place.page >= hit.snippet.page  # type: ignore[operator]
    assert hit.snippet.places
    assert bare.snippet is not None
    assert (bare.snippet.places, bare.snippet.chunk) == ((), None)
    assert stored == [1, 0], "a document that has its places is left alone"
    assert again == hit
