"""Compaction: the current rows of a target as few large Parquet files, without old versions and deleted documents.

The target is not changed. The pages of an old version stay where a current duplicate refers to their content.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from quire.bulk import page_rows
from quire.bulk.known_documents import DigestSet, KnownDocuments
from quire.bulk.shard_plan import DELETED, DUPLICATE, Plans, finished_shards, part_name
from quire.errors import DamagedError, RequestError
from quire.objects.bulk_locations import BulkLocation
from quire.objects.object_store import in_thread

if TYPE_CHECKING:
    from arro3.core import RecordBatch

_BATCH_ROWS = 8_192


@dataclass(slots=True)
class Compacted:
    """`kept` and `dropped` count rows."""

    files: int = 0
    kept: int = 0
    dropped: int = 0


class Compaction:
    """Writes the current rows of `source`, a target of bulk runs, to `target`."""

    def __init__(self, source: BulkLocation, target: BulkLocation, file_bytes: int) -> None:
        self._source = source
        self._target = target
        self._file_bytes = file_bytes
        self._known = KnownDocuments()
        self._shared = DigestSet()

    async def run(self) -> Compacted:
        """Raises RequestError where shards are not finished or the target is not empty, DamagedError for a bad part."""
        await self._check()
        plans = await Plans.load(self._source)
        await self._load(plans)
        done = await finished_shards(self._source)
        if len(done) < plans.shard_count:
            raise RequestError(
                f"{plans.shard_count - len(done)} shards of {self._source.url} are not finished. "
                "Run `quire bulk` again first."
            )
        result = Compacted()
        held: list[RecordBatch] = []
        held_bytes = 0
        async for batches, size, rows in self._current(sorted(done)):
            kept = sum(one.num_rows for one in batches)
            result.kept += kept
            result.dropped += rows - kept
            held += batches
            held_bytes += size
            if held_bytes >= self._file_bytes:
                await self._write(held, result)
                held, held_bytes = [], 0
        if held:
            await self._write(held, result)
        return result

    async def _check(self) -> None:
        async for batch in self._target.listed():
            if batch:
                raise RequestError(
                    f"{self._target.url} is not empty. Compact into an empty place; "
                    "delete what an interrupted compaction has left."
                )

    async def _load(self, plans: Plans) -> None:
        async for run, entries in plans.entries():
            keys = [one.key for one in entries]
            self._known.add(keys, [str(run)] * len(keys), [one.action == DELETED for one in entries])
        self._known.freeze()
        async for run, entries in plans.entries():
            duplicates = [one for one in entries if one.action == DUPLICATE]
            if not duplicates:
                continue
            current = self._known.is_current([one.key for one in duplicates], [str(run)] * len(duplicates))
            contents = [
                one.content for one, is_current in zip(duplicates, current, strict=True) if is_current
            ]
            if contents:
                self._shared.add_new(contents)

    async def _current(self, shards: list[int]) -> AsyncIterator[tuple[list[RecordBatch], int, int]]:
        """The current rows of each part, with the part's size and the number of its rows."""
        for shard in shards:
            content = await self._source.get(part_name(shard))
            batches, rows = await in_thread(self._filtered, content, part_name(shard))
            yield batches, len(content), rows

    def _filtered(self, content: bytes, name: str) -> tuple[list[RecordBatch], int]:
        from arro3.io import read_parquet

        found: list[RecordBatch] = []
        rows = 0
        try:
            for batch in read_parquet(io.BytesIO(content), batch_size=_BATCH_ROWS):
                rows += batch.num_rows
                found += self._kept(batch)
        except Exception as error:  # the library has no class of its own for a damaged file
            raise DamagedError(f"{name} is damaged. Delete it and run `quire bulk` again.") from error
        return found, rows

    def _kept(self, batch: RecordBatch) -> Iterator[RecordBatch]:
        columns: list[list[Any]] = [
            list(batch[name].to_pylist()) for name in ("key", "run", "content", "kind")
        ]
        keys, runs, contents, kinds = columns
        current = self._known.is_current(keys, [str(run) for run in runs])
        shared = self._shared.contains(contents)
        flags = [
            bool(is_current or (is_shared and content and kind in (page_rows.PAGE, page_rows.ERROR)))
            for is_current, is_shared, content, kind in zip(current, shared, contents, kinds, strict=True)
        ]
        start = 0
        for flag, group in groupby(flags):
            length = sum(1 for _ in group)
            if flag:
                yield batch.slice(start, length)
            start += length

    async def _write(self, batches: list[RecordBatch], result: Compacted) -> None:
        content = await in_thread(_encoded, batches)
        await self._target.put(part_name(result.files), content)
        result.files += 1


def _encoded(batches: list[RecordBatch]) -> bytes:
    from arro3.core import Table
    from arro3.io import write_parquet

    metadata: dict[Any, Any] = {"quire.schema_version": str(page_rows.SCHEMA_VERSION)}
    buffer = io.BytesIO()
    table = Table.from_batches(batches, schema=batches[0].schema)
    write_parquet(table, buffer, compression="zstd(3)", created_by="quire", key_value_metadata=metadata)
    return buffer.getvalue()
