"""The plans of a bulk run: which documents are in which shard, stored in `_quire/` of the target, never changed.

A plan is one listing of the source: segments of entries, then a header that makes them valid. Shard numbers go on from
plan to plan, and shard N is done when `part-NNNNNN.parquet` exists. A driver that dies before the header is written
leaves segments that no plan names.
"""

from __future__ import annotations

import gzip
import re
import zlib
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec

from quire.errors import ObjectsError
from quire.objects.bulk_locations import BulkLocation

PLAN_FOLDER = "_quire"
FORMAT = 1
_RESTORE = "Restore it from a backup, or use another target: numbers of shards must not begin anew."
_PART = re.compile(r"^part-(\d{6,})\.parquet$")
_HEADER = re.compile(r"^_quire/plan-(\d{6})\.json$")
_SMALLEST_PART_BYTES = 12

READ, DUPLICATE, DELETED = "read", "duplicate", "deleted"


class PlannedDocument(msgspec.Struct, array_like=True, frozen=True):
    """One entry. `content` is equal for documents of equal content, as far as that is known without reading them."""

    key: str
    size: int = 0
    etag: str = ""
    content: str = ""
    action: str = READ


class PlanHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """`segments` has the first shard of each segment. `row_options` are the same in all plans of a target."""

    run: int
    source: str
    token: str
    first_shard: int
    shards: int
    segments: list[int]
    documents: int
    bytes: int
    duplicates: int
    deleted: int
    listed_at: float
    row_options: dict[str, str]
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    run: int
    documents: Sequence[PlannedDocument]


def part_name(shard: int) -> str:
    return f"part-{shard:06}.parquet"


async def finished_shards(target: BulkLocation) -> dict[int, int]:
    """Returns the numbers of the shards that have a part, with its size in bytes."""
    found: dict[int, int] = {}
    async for batch in target.listed():
        for one in batch:
            match = _PART.match(one.key)
            if match and one.size >= _SMALLEST_PART_BYTES:
                found[int(match[1])] = one.size
    return found


class Plans:
    """The plans of one target, in their order."""

    def __init__(self, target: BulkLocation, headers: Sequence[PlanHeader]) -> None:
        self._target = target
        self.headers = list(headers)
        self._kept: tuple[str, dict[int, list[PlannedDocument]]] = ("", {})

    @classmethod
    async def load(cls, target: BulkLocation) -> Plans:
        """Raises ObjectsError where a plan was written by a later version or is damaged."""
        names: list[str] = []
        async for batch in target.listed(PLAN_FOLDER):
            names += [one.key for one in batch if _HEADER.match(one.key)]
        headers = [_header(name, await target.get(name)) for name in sorted(names)]
        run = shard = 0
        for header in headers:
            if (header.run, header.first_shard) != (run + 1, shard):
                raise ObjectsError(
                    f"A plan before {header_name(header.run)} is missing in {target.url}. {_RESTORE}",
                    retryable=False,
                )
            run, shard = header.run, header.first_shard + header.shards
        return cls(target, headers)

    @property
    def next_run(self) -> int:
        return len(self.headers) + 1

    @property
    def shard_count(self) -> int:
        return self.headers[-1].first_shard + self.headers[-1].shards if self.headers else 0

    async def shard(self, number: int) -> Shard:
        """Raises ObjectsError where no plan has that shard."""
        header = next(
            (one for one in self.headers if one.first_shard <= number < one.first_shard + one.shards), None
        )
        if header is None:
            raise ObjectsError(f"No plan in {self._target.url} has the shard {number}.", retryable=False)
        name = segment_name(header, bisect_right(header.segments, number) - 1)
        if self._kept[0] != name:
            self._kept = (name, decode_segment(await self._target.get(name)))
        return Shard(number, header.run, self._kept[1].get(number, []))

    async def entries(self) -> AsyncIterator[tuple[int, list[PlannedDocument]]]:
        """Yields the entries of all plans in their order, segment by segment, each with the number of its run."""
        for header in self.headers:
            for place in range(len(header.segments)):
                segment = decode_segment(await self._target.get(segment_name(header, place)))
                yield header.run, [one for shard in sorted(segment) for one in segment[shard]]


def header_name(run: int) -> str:
    return f"{PLAN_FOLDER}/plan-{run:06}.json"


def segment_name(header: PlanHeader, place: int) -> str:
    return f"{PLAN_FOLDER}/plan-{header.run:06}-{header.token}/segment-{place:05}.json.gz"


def encode_segment(shards: dict[int, list[PlannedDocument]]) -> bytes:
    return gzip.compress(msgspec.json.encode(shards), 3)


def decode_segment(content: bytes) -> dict[int, list[PlannedDocument]]:
    """Raises ObjectsError where the segment is damaged."""
    try:
        return msgspec.json.decode(gzip.decompress(content), type=dict[int, list[PlannedDocument]])
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise ObjectsError(f"A segment of the plan is damaged. {_RESTORE}", retryable=False) from error


def _header(name: str, content: bytes) -> PlanHeader:
    try:
        found = msgspec.json.decode(content, type=PlanHeader)
    except msgspec.DecodeError as error:
        raise ObjectsError(f"The plan {name} is damaged. {_RESTORE}", retryable=False) from error
    if found.format > FORMAT:
        raise ObjectsError(f"The plan {name} was written by a later version of Quire.", retryable=False)
    return found
