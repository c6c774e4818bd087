"""Documents to rows inside other data engines: Ray Data, Daft, Spark's `mapInPandas`, or a plain loop.

The engine's own process parses nothing: each process that calls `read_documents` has killable reader processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quire.bulk.page_rows import COLUMNS, PageRow, column_kind
from quire.bulk.shard_reader import document_rows
from quire.reading.sync_reader import ReaderLimits, shared_reader

_SPARK_TYPES = {
    "text": "string",
    "texts": "array<string>",
    "int32": "int",
    "int64": "bigint",
    "float": "double",
}

SPARK_SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[column_kind(name)]}" for name in COLUMNS)
"""The rows of `map_in_pandas`, as Spark's `mapInPandas` wants them described."""


def read_documents(
    documents: Iterable[tuple[str, bytes | str | os.PathLike[str]]],
    *,
    formats: Iterable[str] = (),
    ocr: bool = True,
    password: str | None = None,
    limits: ReaderLimits | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields one row a page, as `quire bulk` writes them, for pairs of a key and a document (bytes or a path).

    Never raises for a document: one that can't be read is a row with an `error`.
    """
    reader = shared_reader(limits)
    wanted = frozenset(formats)
    for key, document in documents:
        reading = reader.read_whole(document, password=password, ocr=ocr)
        size = len(document) if isinstance(document, bytes) else _size(document)
        for row in document_rows(PageRow(key, size=size), reading, wanted):
            yield {name: _plain(getattr(row, name)) for name in COLUMNS}


def read_batch(batch: Mapping[str, Any], **options: Any) -> dict[str, list[Any]]:
    """The same for a batch of columns `path` (the key) and `bytes`, as `ray.data.read_binary_files` gives them."""
    rows = list(
        read_documents(zip(map(str, batch["path"]), map(bytes, batch["bytes"]), strict=True), **options)
    )
    return {name: [row[name] for row in rows] for name in COLUMNS}


def map_in_pandas(frames: Iterable[Any], **options: Any) -> Iterator[Any]:
    """The same for Spark's `mapInPandas`: frames with columns `path` and `content`, as its `binaryFile` gives them."""
    import pandas

    for frame in frames:
        pairs = zip(map(str, frame["path"]), map(bytes, frame["content"]), strict=True)
        yield pandas.DataFrame(list(read_documents(pairs, **options)), columns=list(COLUMNS))


def daft_pages(**options: Any) -> Any:
    """Returns a function for Daft that makes one struct a page of the columns with keys and contents."""
    import daft

    kinds = {
        "text": daft.DataType.string(),
        "texts": daft.DataType.list(daft.DataType.string()),
        "int32": daft.DataType.int32(),
        "int64": daft.DataType.int64(),
        "float": daft.DataType.float64(),
    }
    row = daft.DataType.struct({name: kinds[column_kind(name)] for name in COLUMNS})

    def pages(key: str, content: bytes) -> Iterator[dict[str, Any]]:
        yield from read_documents([(key, content)], **options)

    return daft.func(return_dtype=row)(pages)


def _size(document: str | os.PathLike[str]) -> int:
    try:
        return os.stat(document).st_size  # noqa: PTH116 - a path of any kind
    except OSError:
        return 0


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
