"""Chunks as Parquet: what is refused, and texts that are hard to store."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from arro3.io import read_parquet

from quire.domain.element import Element, ElementKind, PageElements
from quire.domain.text_chunk import ChunkOptions
from quire.errors import RequestError
from quire.pipeline.chunk_table import chunks_parquet


class Pages:
    """The elements of a document whose pages have these texts."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    async def joined_runs(self) -> AsyncIterator[list[Any]]:
        for number, text in enumerate(self._texts, 1):
            element = Element(f"p{number}-e1", ElementKind.PARAGRAPH, text)
            yield [SimpleNamespace(page=PageElements(number, (element,)))]


async def written(pages: Any, **limits: int) -> bytes:
    return b"".join(
        [piece async for piece in chunks_parquet({"job_id": "j"}, pages, ChunkOptions(), **limits)]
    )


async def test_documents_without_text_and_half_surrogates_are_written() -> None:
    empty = read_parquet(BytesIO(await written(Pages()))).read_all()
    assert (empty.num_rows, empty.column_names[:3]) == (0, ["index", "kind", "text"])
    odd = read_parquet(BytesIO(await written(Pages("half \ud800 pair")))).read_all()
    assert odd.column("text").to_pylist() == ["half ? pair"]
    # As rows of `quire bulk` name it, and as Parquet does.
    assert {odd.schema.field(name).type.value_field.name for name in ("headings", "pages")} == {"element"}


async def test_documents_that_are_too_long_for_memory_are_refused() -> None:
    with pytest.raises(RequestError, match="JSON lines"):
        await written(Pages(*("word " * 2_000 for _ in range(4))), most_bytes=20_000)


async def test_the_extra_is_named_when_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arro3.io", None)
    with pytest.raises(RequestError, match=r"pip install 'quire\[bulk\]'"):
        await written(Pages("words"))
