"""The estimate of a bulk run (`--dry-run`): counts what is new, reads a sample, extrapolates the rest."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from quire.bulk.page_rows import ShardStats, stats_of
from quire.bulk.shard_plan import DELETED, DUPLICATE, READ, PlannedDocument, Shard
from quire.bulk.shard_planner import Planner, estimated_pages
from quire.bulk.shard_reader import ShardReader

_SAMPLE = 12


@dataclass(slots=True)
class RunEstimate:
    """Pages, seconds and pages for AI are extrapolated by bytes from a sample; without one they are None."""

    documents: int = 0
    bytes: int = 0
    duplicates: int = 0
    deleted: int = 0
    shards: int = 0
    types: dict[str, int] = field(default_factory=dict)
    pages: int | None = None
    seconds: float | None = None
    ai_pages: int | None = None
    sampled: int = 0


async def count_new(planner: Planner, shard_pages: int) -> tuple[RunEstimate, list[PlannedDocument]]:
    """Counts what a run would read; nothing is stored. Returns a sample of it as well."""
    found, sample, pages, step = RunEstimate(), list[PlannedDocument](), 0.0, 1
    types: Counter[str] = Counter()
    async for batch in planner.new_documents():
        for one in batch:
            found.duplicates += one.action == DUPLICATE
            found.deleted += one.action == DELETED
            if one.action != READ:
                continue
            if found.documents % step == 0:
                sample.append(one)
                if len(sample) >= 2 * _SAMPLE:  # half of them, and half as often from now on
                    sample, step = sample[::2], step * 2
            found.documents += 1
            found.bytes += one.size
            types[PurePosixPath(one.key).suffix.lower() or "none"] += 1
            pages += estimated_pages(one.size)
    found.shards = -(-int(pages) // shard_pages) if found.documents else 0
    found.types = dict(types.most_common())
    return found, sample[:_SAMPLE]


async def measure(estimate: RunEstimate, sample: list[PlannedDocument], reader: ShardReader) -> None:
    """Reads the sample and fills in pages, seconds and pages for AI."""
    if not sample:
        return
    rows = await reader.rows(Shard(0, 0, sample[:1]))  # the first one also waits for the reader processes
    began = time.monotonic()
    rows += await reader.rows(Shard(0, 0, sample[1:]))
    seconds = time.monotonic() - began
    stats: ShardStats = stats_of(rows)
    size = sum(one.size for one in sample)
    timed = sum(one.size for one in sample[1:])
    factor = estimate.bytes / size if size else estimate.documents / len(sample)
    estimate.pages = round(stats.pages * factor)
    estimate.ai_pages = round(stats.ai_pages * factor)
    estimate.sampled = len(sample)
    estimate.seconds = seconds * estimate.bytes / timed if timed else None
