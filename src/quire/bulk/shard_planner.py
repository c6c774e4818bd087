"""Makes a plan: lists the source once, leaves out what earlier plans hold, and cuts the rest into fixed shards."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from quire.bulk.known_documents import DigestSet, KnownDocuments
from quire.bulk.plan_options import PlanOptions
from quire.bulk.shard_plan import (
    DELETED,
    DUPLICATE,
    READ,
    PlanHeader,
    PlannedDocument,
    Plans,
    encode_segment,
    header_name,
    segment_name,
)
from quire.clock import Clock
from quire.errors import RequestError, StateConflictError
from quire.objects.bulk_locations import BulkLocation, ListedObject
from quire.objects.object_store import in_thread

_BYTES_A_PAGE = 40_000
_SEGMENT_DOCUMENTS = 20_000
_MD5 = re.compile(r'^"?([0-9a-f]{32})"?$')


@dataclass(slots=True)
class _Counts:
    documents: int = 0
    bytes: int = 0
    actions: Counter[str] = field(default_factory=Counter)


class Planner:
    """Makes the next plan of a target."""

    def __init__(
        self, source: BulkLocation, target: BulkLocation, plans: Plans, options: PlanOptions
    ) -> None:
        self._source = source
        self._target = target
        self._plans = plans
        self._options = options
        self._known = KnownDocuments()
        self._contents = DigestSet()

    async def run(self, clock: Clock) -> PlanHeader | None:
        """Returns the new plan, which is stored; None if there is nothing new.

        Raises StateConflictError if another driver has stored a plan in the meantime: its plan holds.
        """
        listed_at = clock.now()
        header = PlanHeader(
            run=self._plans.next_run,
            source=self._source.url,
            token=secrets.token_hex(4),
            first_shard=self._plans.shard_count,
            shards=0,
            segments=[],
            documents=0,
            bytes=0,
            duplicates=0,
            deleted=0,
            listed_at=listed_at,
            row_options=self._options.row_options,
        )
        writer = _SegmentWriter(self._target, header, self._options.shard_pages)
        async for batch in self.new_documents():
            for one in batch:
                await writer.add(one)
        finished = await writer.finish()
        if not finished.shards:
            return None
        content = msgspec.json.encode(finished)
        if not await self._target.create(header_name(finished.run), content):
            raise StateConflictError(
                f"Another run has just planned {self._target.url}. Run again to work on its plan."
            )
        self._plans.headers.append(finished)
        return finished

    async def new_documents(self) -> AsyncIterator[list[PlannedDocument]]:
        """Yields what is new in the source: documents to read, duplicates, and keys that are gone."""
        await self._load_known()
        left, listed = self._options.limit, 0
        async for batch in self._listed():
            listed += len(batch)
            found = self._new_entries(batch)
            if left is not None:
                found = found[:left]
                left -= len(found)
            yield found
            if left == 0:
                return  # the listing is not complete: nothing is known of keys that it has not shown
        if self._options.wanted.since:
            return
        if self._known.any_gone:
            if not listed:
                raise RequestError(
                    f"{self._source.url} lists no document now; {len(self._known)} were known. "
                    "Check that it is mounted and that the pattern is right. Nothing was marked as deleted."
                )
            async for _run, entries in self._plans.entries():
                yield self._gone(entries)

    async def _load_known(self) -> None:
        async for _run, entries in self._plans.entries():
            self._known.add(
                [one.key for one in entries],
                [one.etag for one in entries],
                [one.action == DELETED for one in entries],
            )
            contents = [one.content for one in entries if one.content]
            if contents:
                self._contents.add_new(contents)
        self._known.freeze()

    def _new_entries(self, batch: Sequence[tuple[ListedObject, str]]) -> list[PlannedDocument]:
        if not batch:
            return []
        is_new = self._known.is_new([one.key for one, _ in batch], [one.etag for one, _ in batch])
        found = [
            PlannedDocument(one.key, one.size, one.etag, content)
            for (one, content), new in zip(batch, is_new, strict=True)
            if new and one.modified >= self._options.wanted.since
        ]
        contents = [one.content for one in found if one.content]
        if not contents:
            return found
        first = iter(self._contents.add_new(contents).tolist())
        return [
            msgspec.structs.replace(one, action=DUPLICATE) if one.content and not next(first) else one
            for one in found
        ]

    def _gone(self, entries: Sequence[PlannedDocument]) -> list[PlannedDocument]:
        wanted = [one for one in entries if self._options.wanted.matches(one.key)]
        if not wanted:
            return []
        gone = self._known.is_gone([one.key for one in wanted])
        return [
            PlannedDocument(one.key, action=DELETED)
            for one, is_gone in zip(wanted, gone, strict=True)
            if is_gone
        ]

    async def _listed(self) -> AsyncIterator[list[tuple[ListedObject, str]]]:
        """Yields the wanted objects, each with what identifies its content, or an empty text."""
        wanted = self._options.wanted
        folder = self._source.folder
        sizes = await self._common_sizes() if folder is not None and self._options.dedupe else frozenset()
        async for batch in self._source.listed():
            found = [one for one in batch if wanted.matches(one.key)]
            if not self._options.dedupe:
                yield [(one, "") for one in found]
            elif folder is None:
                yield [(one, _content_of(one)) for one in found]
            else:
                yield await in_thread(_hashed, folder, found, sizes)

    async def _common_sizes(self) -> frozenset[int]:
        """Sizes that more than one file has: only such files are hashed."""
        counts: Counter[int] = Counter()
        async for batch in self._source.listed():
            counts.update(one.size for one in batch if self._options.wanted.matches(one.key))
        return frozenset(size for size, times in counts.items() if times > 1 and size)


class _SegmentWriter:
    """Cuts entries into shards, and writes shards in segments."""

    def __init__(self, target: BulkLocation, header: PlanHeader, shard_pages: int) -> None:
        self._target = target
        self._header = header
        self._shard_pages = shard_pages
        self._held: dict[int, list[PlannedDocument]] = {}
        self._held_documents = 0
        self._shard: list[PlannedDocument] = []
        self._pages = 0.0
        self._next = header.first_shard
        self._counts = _Counts()

    async def add(self, entry: PlannedDocument) -> None:
        pages = estimated_pages(entry.size) if entry.action == READ else 0
        if self._shard and self._pages + pages > self._shard_pages:
            await self._close_shard()
        self._shard.append(entry)
        self._pages += pages or 0.01  # rows without a text are small, and still rows
        self._counts.documents += entry.action != DELETED
        self._counts.bytes += entry.size
        self._counts.actions[entry.action] += 1

    async def finish(self) -> PlanHeader:
        if self._shard:
            await self._close_shard()
        if self._held:
            await self._write()
        counts = self._counts
        return msgspec.structs.replace(
            self._header,
            shards=self._next - self._header.first_shard,
            documents=counts.documents,
            bytes=counts.bytes,
            duplicates=counts.actions[DUPLICATE],
            deleted=counts.actions[DELETED],
        )

    async def _close_shard(self) -> None:
        self._held[self._next] = self._shard
        self._held_documents += len(self._shard)
        self._next += 1
        self._shard, self._pages = [], 0.0
        if self._held_documents >= _SEGMENT_DOCUMENTS:
            await self._write()

    async def _write(self) -> None:
        name = segment_name(self._header, len(self._header.segments))
        self._header.segments.append(min(self._held))
        await self._target.put(name, await in_thread(encode_segment, self._held))
        self._held, self._held_documents = {}, 0


def estimated_pages(size: int) -> float:
    return max(1.0, size / _BYTES_A_PAGE)


def _content_of(one: ListedObject) -> str:
    """The MD5 of an object that was stored in one piece; its ETag says nothing of the content otherwise."""
    found = _MD5.match(one.etag)
    return f"md5:{found[1]}:{one.size}" if found and one.size else ""


def _hashed(
    folder: Path, batch: Sequence[ListedObject], sizes: frozenset[int]
) -> list[tuple[ListedObject, str]]:
    return [(one, _sha256(folder / one.key) if one.size in sizes else "") for one in batch]


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError:  # the reader will say so in the document's row
        return ""
