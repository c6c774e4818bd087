"""The queues: Redis Streams with consumer groups, their delayed entries and dead letters.

An entry is a hint that a unit of a job may be worked on; the truth is in the job. So entries may be doubled or
lost without harm: a doubled one is dropped when its unit is claimed, a lost one is put back by the sweeper.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from quire.clock import Clock
from quire.coordination.connection import RedisConnection, pairs
from quire.coordination.keys import QUEUES, QueueKeys
from quire.domain.job import UnitKind, unit_kind, unit_page
from quire.errors import CoordinationCommandError

_STREAM_BOUND = 1_000_000
_DEAD_LETTERS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Hint:
    """A queue entry: do this unit of this job. `entry_id` is None before it is queued."""

    job_id: str
    unit: str
    epoch: int
    entry_id: str | None = None
    content_ref: str = ""

    @property
    def kind(self) -> UnitKind:
        return unit_kind(self.unit)

    def fields(self) -> tuple[str, ...]:
        found: tuple[str, ...] = ("job_id", self.job_id, "unit", self.unit, "epoch", str(self.epoch))
        if self.kind is UnitKind.PAGE:
            number = unit_page(self.unit)
            found += (
                "page_id",
                str(number),
                "content_ref",
                f"{self.content_ref}#page={number}",
                "idempotency_key",
                f"doc:{self.job_id}:page:{number}:v{self.epoch}",
            )
        return found

    def packed(self) -> str:
        return json.dumps([self.job_id, self.unit, self.epoch, self.content_ref])

    @classmethod
    def unpack(cls, packed: str) -> Hint:
        job_id, unit, epoch, content_ref = json.loads(packed)
        return cls(job_id, unit, epoch, content_ref=content_ref)


DescribePages = Callable[[Sequence[Hint]], Awaitable[list[dict[str, str]]]]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    kind: UnitKind
    entry_id: str
    job_id: str
    unit: str
    reason: str
    at: float


class Queues:
    def __init__(
        self, connection: RedisConnection, clock: Clock, describe_pages: DescribePages | None = None
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._describe_pages = describe_pages
        self._put_later = asyncio.Event()

    async def ensure_groups(self, kinds: Iterable[UnitKind]) -> None:
        for kind in kinds:
            queue = QUEUES[kind]
            try:
                await self._connection.command("XGROUP", "CREATE", queue.stream, queue.group, "0", "MKSTREAM")
            except CoordinationCommandError as error:
                if not _says(error, "BUSYGROUP"):
                    raise

    async def put(self, hints: Iterable[Hint]) -> None:
        queued = list(hints)
        fields = await self._entry_fields(queued)
        await self._connection.commands(
            ("XADD", QUEUES[hint.kind].stream, "MAXLEN", "~", _STREAM_BOUND, "*", *fields[hint])
            for hint in queued
        )

    async def _entry_fields(self, hints: Iterable[Hint]) -> dict[Hint, tuple[str, ...]]:
        """The fields of each entry; a page's also has the description that external dispatchers need."""
        fields = {hint: hint.fields() for hint in hints}
        pages = [hint for hint in fields if hint.kind is UnitKind.PAGE]
        if pages and self._describe_pages is not None:
            for hint, more in zip(pages, await self._describe_pages(pages), strict=True):
                merged = {**pairs(fields[hint]), **more}
                fields[hint] = tuple(part for pair in merged.items() for part in pair)
        return fields

    async def put_units(self, job_id: str, epoch: int, units: Iterable[str], content_ref: str) -> None:
        """Queues units of one job."""
        await self.put(Hint(job_id, unit, epoch, content_ref=content_ref) for unit in units)

    async def put_later(self, hint: Hint, not_before_s: float) -> None:
        await self._connection.command(
            "ZADD", QUEUES[hint.kind].delayed, int(not_before_s * 1000), hint.packed()
        )
        self._put_later.set()

    async def wait_for_delayed(self, timeout_s: float) -> None:
        """Returns as soon as this process puts an entry among the delayed ones (or has, since the last call), and
        after the time at the latest: other processes do so too."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._put_later.wait()
        self._put_later.clear()

    async def read(self, kind: UnitKind, consumer: str, count: int, block_s: float) -> list[Hint]:
        """Waits up to block_s for new entries. Creates the group again if the server has lost it."""
        queue = QUEUES[kind]
        waiting = ("BLOCK", int(block_s * 1000)) if block_s > 0 else ()
        try:
            answer = await self._connection.blocking(
                *("XREADGROUP", "GROUP", queue.group, consumer, "COUNT", count),
                *waiting,
                *("STREAMS", queue.stream, ">"),
            )
        except CoordinationCommandError as error:
            if not _says(error, "NOGROUP"):
                raise
            await self.ensure_groups([kind])
            return []
        if not answer:
            return []
        return [_hint(entry_id, fields) for entry_id, fields in answer[0][1] if fields]

    async def in_hand(self, kind: UnitKind, consumer: str, limit: int = 1000) -> list[Hint]:
        """Entries that were delivered to a consumer and not acknowledged, also those it never received."""
        queue = QUEUES[kind]
        answer = await self._connection.command(
            *("XREADGROUP", "GROUP", queue.group, consumer, "COUNT", limit, "STREAMS", queue.stream, "0")
        )
        rows = answer[0][1] if answer else []
        deleted = [entry_id for entry_id, fields in rows if not fields]
        if deleted:
            await self._connection.command("XACK", queue.stream, queue.group, *deleted)
        return [_hint(entry_id, fields) for entry_id, fields in rows if fields]

    async def done(self, hint: Hint) -> None:
        """Acknowledges and deletes the entry, whatever the outcome of its unit."""
        queue = QUEUES[hint.kind]
        if hint.entry_id:
            await self._connection.commands(
                [
                    ("XACK", queue.stream, queue.group, hint.entry_id),
                    ("XDEL", queue.stream, hint.entry_id),
                ]
            )

    async def consumers(self, kind: UnitKind) -> dict[str, int]:
        """Consumers by name and how many unacknowledged entries each has."""
        queue = QUEUES[kind]
        try:
            answer = await self._connection.command("XINFO", "CONSUMERS", queue.stream, queue.group)
        except CoordinationCommandError as error:
            if not _says(error, "NOGROUP", "ERR no such key", "no such key"):
                raise
            return {}
        found = {}
        for flat in answer:
            fields = pairs(flat)
            found[str(fields["name"])] = int(fields["pending"])
        return found

    async def take_over(self, kind: UnitKind, dead: str, limit: int = 256) -> int:
        """Requeues the entries of a consumer that is known to be dead; returns how many.

        The copy comes first: if this process dies in between, the entry is doubled, not lost.
        """
        queue = QUEUES[kind]
        left = await self.in_hand(kind, dead, limit)
        await self.put(left)
        ids = [hint.entry_id for hint in left if hint.entry_id]
        if ids:
            await self._connection.commands(
                [("XACK", queue.stream, queue.group, *ids), ("XDEL", queue.stream, *ids)]
            )
        return len(ids)

    async def forget_consumer(self, kind: UnitKind, consumer: str) -> None:
        """Removes a consumer that has no unacknowledged entries."""
        queue = QUEUES[kind]
        await self._connection.command("XGROUP", "DELCONSUMER", queue.stream, queue.group, consumer)

    async def move_all_due(self, limit: int = 200) -> int:
        """Moves delayed entries whose time has come to their stream: first there, then gone from here.

        Returns how many are left.
        """
        now_ms = int(self._clock.now() * 1000)
        delayed = [queue.delayed for queue in QUEUES.values()]
        found, lengths = await asyncio.gather(
            self._connection.commands(
                ("ZRANGEBYSCORE", key, "-inf", now_ms, "LIMIT", 0, limit) for key in delayed
            ),
            self._connection.commands(("ZCARD", key) for key in delayed),
        )
        for key, due in zip(delayed, found, strict=True):
            if due:
                await self.put(Hint.unpack(packed) for packed in due)
                await self._connection.command("ZREM", key, *due)
        return sum(map(int, lengths)) - sum(map(len, found))

    async def depth(self, kind: UnitKind) -> dict[str, int]:
        queue = QUEUES[kind]
        waiting, delayed, dead = await self._connection.commands(
            [("XLEN", queue.stream), ("ZCARD", queue.delayed), ("XLEN", queue.dlq)]
        )
        return {"waiting": int(waiting), "delayed": int(delayed), "dead": int(dead)}

    async def add_dead_letter(self, hint: Hint, reason: str) -> None:
        """Adds a unit that failed for good to the dead letters, where operators can read and replay it."""
        await self._connection.command(
            *("XADD", QUEUES[hint.kind].dlq, "MAXLEN", "~", _DEAD_LETTERS_KEPT, "*"),
            *hint.fields()[:6],
            *("reason", reason, "at", str(self._clock.now())),
        )

    async def dead_letters(self, kind: UnitKind, limit: int = 100) -> list[DeadLetter]:
        """The newest first."""
        answer = await self._connection.command("XREVRANGE", QUEUES[kind].dlq, "+", "-", "COUNT", limit)
        return [_dead_letter(kind, entry_id, fields) for entry_id, fields in answer]

    async def dead_letter(self, kind: UnitKind, entry_id: str) -> DeadLetter | None:
        answer = await self._connection.command("XRANGE", QUEUES[kind].dlq, entry_id, entry_id)
        return _dead_letter(kind, *answer[0]) if answer else None

    async def remove_dead_letter(self, letter: DeadLetter) -> None:
        await self._connection.command("XDEL", QUEUES[letter.kind].dlq, letter.entry_id)


def _hint(entry_id: str, flat: Any) -> Hint:
    fields = pairs(flat)
    content_ref = fields.get("content_ref", "").partition("#")[0]
    return Hint(fields["job_id"], fields["unit"], int(fields["epoch"]), entry_id, content_ref)


def _dead_letter(kind: UnitKind, entry_id: str, flat: Any) -> DeadLetter:
    fields = pairs(flat)
    return DeadLetter(
        kind, entry_id, fields["job_id"], fields["unit"], fields.get("reason", ""), float(fields.get("at", 0))
    )


def _says(error: CoordinationCommandError, *starts: str) -> bool:
    return str(error.__cause__).startswith(starts)


__all__ = ["QUEUES", "DeadLetter", "Hint", "QueueKeys", "Queues"]
