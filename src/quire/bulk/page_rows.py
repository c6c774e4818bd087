"""The rows of a bulk run and their Parquet form. `docs/bulk.md` documents every column; the schema has a version.

The library that writes Parquet comes with the extra `quire[bulk]`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from quire.errors import DamagedError, SettingsError

if TYPE_CHECKING:
    from arro3.core import RecordBatch

SCHEMA_VERSION = 1
PAGE, ERROR, DUPLICATE, DELETED = "page", "error", "duplicate", "deleted"
FORMATS = ("text", "html", "elements", "chunks")
"""Columns that are filled on request."""
_COMPRESSION = "zstd(3)"
_STATS = "quire.stats"
_AI_SOURCES = ("ai", "cache", "batch")


@dataclass(slots=True)
class PageRow:
    """One row, in the order of the columns. A document that can't be read is one row `error` with page 0."""

    key: str
    etag: str = ""
    size: int = 0
    content: str = ""
    run: int = 0
    kind: str = PAGE
    page: int = 0
    pages: int = 0
    mime: str = ""
    markdown: str | None = None
    text: str | None = None
    html: str | None = None
    elements: str | None = None
    chunks: str | None = None
    page_class: str | None = None
    source: str | None = None
    reader: str | None = None
    grade: str | None = None
    reasons: tuple[str, ...] = ()
    confidence: float | None = None
    words: int = 0
    language: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    milliseconds: int = 0
    error_code: str | None = None
    error: str | None = None


COLUMNS = tuple(one.name for one in fields(PageRow))
_INT32 = ("page", "pages", "run", "words", "milliseconds", "tokens_in", "tokens_out")
_KINDS = {"reasons": "texts", "size": "int64", "confidence": "float", "cost_usd": "float"}
_KINDS |= dict.fromkeys(_INT32, "int32")


def column_kind(name: str) -> str:
    """What a column has: `text`, `texts`, `int32`, `int64` or `float`."""
    return _KINDS.get(name, "text")


@dataclass(slots=True)
class ShardStats:
    """What a part holds, for progress and the report; it is also stored in the part's metadata."""

    documents: int = 0
    pages: int = 0
    errors: int = 0
    duplicates: int = 0
    deleted: int = 0
    bytes: int = 0
    words: int = 0
    ai_pages: int = 0
    milliseconds: int = 0
    cost_usd: float = 0.0
    readers: dict[str, int] = field(default_factory=dict)
    error_codes: dict[str, int] = field(default_factory=dict)
    slowest: list[tuple[int, str]] = field(default_factory=list)

    def merge(self, other: ShardStats) -> None:
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.readers, other.readers), (self.error_codes, other.error_codes)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        both = [(int(ms), str(key)) for ms, key in (*self.slowest, *other.slowest)]
        self.slowest = sorted(both, reverse=True)[:_SLOWEST]


_COUNTED = (
    *("documents", "pages", "errors", "duplicates", "deleted", "bytes", "words", "ai_pages", "milliseconds"),
    "cost_usd",
)
_SLOWEST = 10


def stats_of(rows: Sequence[PageRow]) -> ShardStats:
    """Counts rows. An unreadable page of a readable document is an error as well."""
    found = ShardStats()
    spent: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row.key] = row.size
        spent[row.key] = spent.get(row.key, 0) + row.milliseconds
        found.pages += row.kind == PAGE or row.page > 0
        found.duplicates += row.kind == DUPLICATE
        found.deleted += row.kind == DELETED
        found.words += row.words
        found.cost_usd += row.cost_usd
        found.ai_pages += needs_ai(row)
        if row.reader:
            found.readers[row.reader] = found.readers.get(row.reader, 0) + 1
        if row.error_code:
            found.errors += 1
            found.error_codes[row.error_code] = found.error_codes.get(row.error_code, 0) + 1
    found.documents = len(sizes)
    found.bytes = sum(sizes.values())
    found.milliseconds = sum(spent.values())
    found.slowest = sorted(((ms, key) for key, ms in spent.items() if ms), reverse=True)[:_SLOWEST]
    return found


def needs_ai(row: PageRow) -> bool:
    """Whether an AI model would see more of the page than the local readers did, and has not seen it."""
    seen = row.source in _AI_SOURCES
    return row.page > 0 and not seen and row.page_class in ("HAS_GRAPHICS", "SCANNED", "GARBLED")


def by_document(rows: Iterable[PageRow]) -> list[list[PageRow]]:
    """Returns the rows of each document, in the order of the first ones."""
    found: dict[tuple[str, str], list[PageRow]] = {}
    for row in rows:
        found.setdefault((row.key, row.etag), []).append(row)
    return list(found.values())


def check_installed() -> None:
    """Raises SettingsError if the library that writes Parquet is missing."""
    try:
        import arro3.core
        import arro3.io  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            "`quire bulk` needs a library for Parquet that is not installed. Run: pip install 'quire[bulk]'"
        ) from error


def to_parquet(rows: Sequence[PageRow], stats: ShardStats) -> bytes:
    """Returns the content of a part."""
    from dataclasses import asdict

    from arro3.io import write_parquet

    buffer = io.BytesIO()
    write_parquet(
        record_batch(rows),
        buffer,
        compression=_COMPRESSION,
        created_by="quire",
        key_value_metadata={
            "quire.schema_version": str(SCHEMA_VERSION),
            _STATS: json.dumps(asdict(stats)),
        },
    )
    return buffer.getvalue()


def record_batch(rows: Sequence[PageRow]) -> RecordBatch:
    """Returns the rows in Arrow's form, which every data engine takes without a copy."""
    from arro3.core import Array, DataType, Field, RecordBatch, Schema

    numbers = {"int32": DataType.int32(), "int64": DataType.int64(), "float": DataType.float64()}
    arrays: list[Any] = []
    kinds: list[Any] = []
    for name in COLUMNS:
        values, kind = [getattr(row, name) for row in rows], column_kind(name)
        if kind == "texts":
            array = _lists(values)
        elif kind in numbers:
            array = Array(values, numbers[kind])
        else:
            array = Array([None if one is None else _encodable(one) for one in values], DataType.string())
        arrays.append(array)
        kinds.append(Field(name, array.type, nullable=True))
    return RecordBatch.from_arrays(arrays, schema=Schema(kinds))


def read_stats(content: bytes) -> ShardStats | None:
    """Returns the stats in a part's metadata; None if it has none. Raises DamagedError where the part is damaged."""
    from arro3.io import read_parquet

    try:
        metadata = read_parquet(io.BytesIO(content)).schema.metadata
    except Exception as error:  # the library has no class of its own for a damaged file
        raise DamagedError("The part is no Parquet file, or it is damaged.") from error
    raw = metadata.get(_STATS.encode())
    return ShardStats(**json.loads(raw)) if raw else None


def read_rows(content: bytes) -> list[PageRow]:
    """Returns the rows of a part. Raises DamagedError where it is no part, or damaged."""
    from arro3.io import read_parquet

    try:
        table = read_parquet(io.BytesIO(content)).read_all()
        columns = {name: table[name].to_pylist() for name in table.column_names if name in COLUMNS}
    except Exception as error:  # the library has no class of its own for a damaged file
        raise DamagedError("The part is no Parquet file, or it is damaged.") from error
    if "key" not in columns:
        raise DamagedError("The part has no column `key`.")
    rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    return [PageRow(**row | {"reasons": tuple(row.get("reasons") or ())}) for row in rows]


def _lists(values: Sequence[Sequence[str]]) -> Any:
    import numpy as np
    from arro3.core import Array, DataType, Field, list_array

    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(one) for one in values], out=offsets[1:])
    flat = Array([_encodable(text) for one in values for text in one], DataType.string())
    # The name that the Parquet standard has for it: Iceberg finds the column only so.
    return list_array(offsets, flat, type=DataType.list(Field("element", DataType.string(), nullable=True)))


def _encodable(text: str) -> str:
    """Texts of documents may have half a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
