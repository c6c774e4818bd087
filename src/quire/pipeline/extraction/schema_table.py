"""Applies a saved schema to many documents and writes the values as CSV, JSON lines or Parquet, a row a document.

Nothing is stored: what a model has answered is in the cache of answers, so a caller that was cut off repeats the
request and pays only for what was not answered. Weakness: the rows of a Parquet file are in memory until it is written.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from quire.domain.job import MainJob
from quire.domain.vault_document import VaultDocument
from quire.errors import PlaneError, QuireError, RequestError
from quire.extraction.citation_check import QuoteMatch
from quire.extraction.value_table import ValueColumn, cell, value_columns
from quire.pipeline.chunk_table import check_parquet, encodable, parquet_file
from quire.pipeline.document_formats import compact_json
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.extraction.extraction_run import Extraction, NoModelError

FIXED_COLUMNS = ("document_id", "filename", "title", "status", "error", "complete", "valid", "flags")
MOST_ROWS = 100_000
_PIECE_BYTES = 256 << 10
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document of the vault and the job that read it, or why there is none."""

    row: VaultDocument
    job: MainJob | QuireError


class SchemaTable:
    def __init__(self, extraction: Extraction, request: ExtractionRequest) -> None:
        self._extraction = extraction
        self._request = request
        self._columns = value_columns(request.root, FIXED_COLUMNS)

    async def rows(self, documents: AsyncIterator[ReadDocument]) -> AsyncGenerator[dict[str, Any], None]:
        """A row for each document; one that can't be read or asked about has `status: failed` and its error.

        Raises NoModelError before the first row if no model is configured and a document could be read, and PlaneError.
        """
        held: list[dict[str, Any]] = []
        async for document in documents:
            row = await self._row(document)
            if self._extraction.has_model:
                yield row
            else:  # it failed; a later document may show that a model is missing
                held.append(row)
        for row in held:
            yield row

    async def _row(self, document: ReadDocument) -> dict[str, Any]:
        row = document.row
        head = {"document_id": row.id, "filename": row.filename, "title": row.title}
        try:
            if isinstance(document.job, QuireError):
                raise document.job
            found = await self._extraction.extract(document.job, self._request)
        except (NoModelError, PlaneError):
            raise
        except QuireError as error:
            return {**head, "status": "failed", "error": error.public}
        # The row has no `match`: a value that its page does not prove must not look like one that it does.
        flags = [f"{one['path']}: {flag}" for one in found["fields"] for flag in _flags(one)]
        return {
            **head,
            "status": "extracted",
            "error": None,
            "complete": found["complete"],
            "valid": found["valid"],
            "flags": flags,
            "values": found["values"],
        }

    def written(self, form: str, rows: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[bytes, None]:
        """The rows as `jsonl`, `csv` or `parquet`."""
        return {"jsonl": self.json_lines, "csv": self.csv, "parquet": self.parquet}[form](rows)

    async def json_lines(self, rows: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(rows):
            async for row in rows:
                yield (compact_json(row) + "\n").encode("utf-8", "replace")

    async def csv(self, rows: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[bytes, None]:
        """A text that a spreadsheet would run as a formula gets an apostrophe before it."""
        # With the first row: an error before it can still be reported.
        before = _csv_line([*FIXED_COLUMNS, *(column.name for column in self._columns)])
        async with aclosing(rows):
            async for row in rows:
                yield before + _csv_line([_inert(value) for value in self._cells(row)])
                before = b""
        if before:
            yield before

    async def parquet(self, rows: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[bytes, None]:
        """Raises RequestError without the library that writes Parquet, or for more than MOST_ROWS rows."""
        check_parquet()
        held: list[list[Any]] = []
        async with aclosing(rows):
            async for row in rows:
                held.append(self._cells(row))
                if len(held) > MOST_ROWS:
                    raise RequestError(f"format: Parquet has at most {MOST_ROWS} rows. Ask for JSON lines.")
        content = await asyncio.to_thread(_parquet, self._columns, held)
        for start in range(0, len(content), _PIECE_BYTES):
            yield content[start : start + _PIECE_BYTES]

    def _cells(self, row: dict[str, Any]) -> list[Any]:
        fixed = [row.get(name) for name in FIXED_COLUMNS]
        fixed[-1] = "; ".join(fixed[-1] or ())
        return [*fixed, *(cell(row.get("values"), column) for column in self._columns)]


def _flags(field: Mapping[str, Any]) -> list[str]:
    is_fuzzy = field["match"] == QuoteMatch.FUZZY and field["value"] is not None
    return [*field["flags"], *([QuoteMatch.FUZZY.value] if is_fuzzy else [])]


def _csv_line(cells: Sequence[Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue().encode("utf-8", "replace")


def _inert(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def _parquet(columns: Sequence[ValueColumn], rows: Sequence[Sequence[Any]]) -> bytes:
    from arro3.core import Array, DataType, Field, RecordBatch, Schema

    kinds = {"complete": "boolean", "valid": "boolean"}
    named = [(name, kinds.get(name, "string")) for name in FIXED_COLUMNS]
    named += [(column.name, column.kind) for column in columns]
    types = {"boolean": DataType.bool(), "integer": DataType.int64(), "number": DataType.float64()}
    arrays = []
    for place, (_, kind) in enumerate(named):
        values = [row[place] for row in rows]
        fits = all(one is None or _fits(kind, one) for one in values)
        if kind == "string" or not fits:
            values = [None if one is None else encodable(str(one)) for one in values]
        arrays.append(Array(values, types.get(kind if fits else "string", DataType.string())))
    fields = [Field(name, one.type, nullable=True) for (name, _), one in zip(named, arrays, strict=True)]
    return parquet_file([RecordBatch.from_arrays(arrays, schema=Schema(fields))], {})


def _fits(kind: str, value: Any) -> bool:
    """Whether a column of this kind has the value with all its digits; otherwise the column is written as text."""
    if kind == "integer":
        return bool(abs(value) < 1 << 63)
    return kind != "number" or isinstance(value, float) or abs(value) <= 1 << 53
