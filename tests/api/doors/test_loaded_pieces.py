"""What the loaders for LangChain, LlamaIndex and Haystack load; their own modules only change the type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quire.client import UsageError
from quire.client.loaders.loaded_pieces import PieceLoader
from tests.support.serving import Server
from tests.support.submitted_documents import fresh


def test_sources_become_documents_pages_and_chunks(
    server: Server, make_pdf: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [fresh("loaded one"), fresh("loaded two")]
    path = tmp_path / "report.pdf"
    path.write_bytes(make_pdf(*pages))
    known: dict[str, str] = {"url": server.url, "api_key": "key-of-alpha"}
    by_page = list(PieceLoader(**known).pieces([path, b"# Bytes\n"]))
    assert [piece.text for piece in by_page] == [*pages, "# Bytes"]
    assert [piece.metadata["page"] for piece in by_page] == [1, 2, 1]
    assert {piece.metadata["status"] for piece in by_page} == {"completed"}
    assert by_page[0].metadata["source"] == str(path)
    assert by_page[0].id == f"{by_page[0].metadata['job_id']}-p1"
    whole = list(PieceLoader(**known, by="document").pieces([path]))
    assert [all(page in piece.text for page in pages) for piece in whole] == [True]
    chunks = list(PieceLoader(**known, by="chunk", chunking={"max_tokens": 32}).pieces([path]))
    assert sorted({page for piece in chunks for page in piece.metadata["pages"]}) == [1, 2]
    assert chunks[0].metadata["boxes"][0]["page"] == 1
    monkeypatch.setenv("QUIRE_URL", server.url)
    monkeypatch.setenv("QUIRE_API_KEY", "a key of before")
    with_key = PieceLoader(api_key="key-of-alpha", by="document")
    assert [piece.metadata["source"] for piece in with_key.pieces([path])] == [str(path)]
    with pytest.raises(UsageError):
        PieceLoader(by="word")  # type: ignore[arg-type]
