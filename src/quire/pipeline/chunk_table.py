"""Owns the Parquet form of a document's chunks: one row a chunk, with the fields of the JSON as columns.

The library that writes Parquet comes with the extra `quire[bulk]`. It needs all rows at once, so they are limited.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from quire.domain.text_chunk import CHUNKS_SCHEMA_VERSION, TOKENIZER, ChunkOptions, TextChunk
from quire.errors import RequestError
from quire.pipeline.document_elements import DocumentElements, ElementPage
from quire.pipeline.document_formats import compact_json
from quire.rendering.document_chunks import Chunker

if TYPE_CHECKING:
    from arro3.core import RecordBatch

PARQUET_TYPE = "application/vnd.apache.parquet"
MOST_TEXT_BYTES = 64 << 20
"""Of the rows of one file; about 10,000 pages of 3,000 characters."""

_COMPRESSION = "zstd(3)"
_PIECE_BYTES = 256 << 10
_INTEGERS = frozenset({"index", "tokens", "overlap_chars"})
_TEXTS = frozenset({"kind", "text", "hash", "boxes"})
_TEXT_LISTS = frozenset({"headings", "elements"})


def check_parquet() -> None:
    """Raises RequestError if the library that writes Parquet is missing."""
    try:
        import arro3.core
        import arro3.io  # noqa: F401
    except ImportError as error:
        raise RequestError(
            "Parquet needs a library that is not installed here: pip install 'quire[bulk]'. "
            "JSON lines need none."
        ) from error


async def chunks_parquet(
    head: dict[str, Any],
    elements: DocumentElements,
    options: ChunkOptions,
    most_bytes: int = MOST_TEXT_BYTES,
) -> AsyncGenerator[bytes, None]:
    """A Parquet file; `head` and the options are in its metadata. Raises RequestError for a document too long."""
    check_parquet()
    chunker = Chunker(options)
    batches: list[RecordBatch] = []
    held = 0

    def cut(run: list[ElementPage] | None) -> int:
        chunks = chunker.end() if run is None else [one for page in run for one in chunker.add(page.page)]
        rows = [_row(chunk) for chunk in chunks]
        if rows or run is None:
            batches.append(_record_batch(rows))
        return sum(len(row["text"]) * 2 + len(row["boxes"]) for row in rows)

    async with aclosing(elements.joined_runs()) as runs:
        async for run in runs:
            held += await asyncio.to_thread(cut, run)
            if held > most_bytes:
                raise RequestError("format: the document is too long for Parquet. Ask for JSON lines.")
    await asyncio.to_thread(cut, None)
    metadata = head | {
        "schema_version": CHUNKS_SCHEMA_VERSION,
        "tokenizer": TOKENIZER,
        "max_tokens": options.max_tokens,
        "overlap": options.overlap,
    }
    content = await asyncio.to_thread(parquet_file, batches, metadata)
    for start in range(0, len(content), _PIECE_BYTES):
        yield content[start : start + _PIECE_BYTES]


def _row(chunk: TextChunk) -> dict[str, Any]:
    found = chunk.as_dict()
    return found | {"boxes": compact_json(found["boxes"])}


def _record_batch(rows: Sequence[dict[str, Any]]) -> RecordBatch:
    from arro3.core import Field, RecordBatch, Schema

    names = list(_row(TextChunk(0, "", "", (), ())))
    columns = [_column(name, [row[name] for row in rows]) for name in names]
    kinds = [Field(name, column.type, nullable=True) for name, column in zip(names, columns, strict=True)]
    return RecordBatch.from_arrays(columns, schema=Schema(kinds))


def _column(name: str, values: list[Any]) -> Any:
    from arro3.core import Array, DataType

    if name in _INTEGERS:
        return Array(values, DataType.int32())
    if name in _TEXTS:
        return Array([encodable(one) for one in values], DataType.string())
    if name in _TEXT_LISTS:
        return _lists([[encodable(text) for text in one] for one in values], DataType.string())
    if name == "pages":
        return _lists(values, DataType.int32())
    return Array(values, DataType.bool() if name == "grounded" else DataType.float64())


def _lists(values: Sequence[Sequence[Any]], kind: Any) -> Any:
    import numpy as np
    from arro3.core import Array, DataType, Field, list_array

    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(one) for one in values], out=offsets[1:])
    flat = Array([item for one in values for item in one], kind)
    return list_array(offsets, flat, type=DataType.list(Field("element", kind, nullable=True)))


def parquet_file(batches: list[RecordBatch], metadata: dict[str, Any]) -> bytes:
    from arro3.core import Table
    from arro3.io import write_parquet

    known = {f"quire.{name}": str(value) for name, value in metadata.items() if value is not None}
    out = io.BytesIO()
    write_parquet(
        Table.from_batches(batches),
        out,
        compression=_COMPRESSION,
        created_by="quire",
        key_value_metadata={name: encodable(value) for name, value in known.items()},
    )
    return out.getvalue()


def encodable(text: str) -> str:
    """Texts of documents may have half a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
