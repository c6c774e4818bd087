"""The queues: Redis Streams with consumer groups, their delayed entries and dead letters.

An entry is a hint that a unit of a job may be worked on; the truth is in the job. So entries may be doubled or
lost without harm: a doubled one is dropped when its unit is claimed, a lost one is put back by the housekeeper.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from quire.clock import Clock, now_ms
from quire.coordination.connection import Arg, RedisConnection, pairs
from quire.coordination.dead_letters import DeadLetter, FailedCall, dead_letter_of
from quire.coordination.entry_removals import EntryRemovals
from quire.coordination.keys import QUEUES, QueueKeys
from quire.coordination.priority_shares import PriorityShares
from quire.coordination.work_signals import SignalSender, WorkSignals, signal_commands
from quire.domain.job import JobPriority, UnitKind, unit_kind, unit_page
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
    priority: JobPriority = JobPriority.NORMAL

    @property
    def kind(self) -> UnitKind:
        return unit_kind(self.unit)

    @property
    def stream(self) -> str:
        return QUEUES[self.kind].stream_of(self.priority)

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
        return json.dumps([self.job_id, self.unit, self.epoch, self.content_ref, self.priority])

    @classmethod
    def unpack(cls, packed: str) -> Hint:
        job_id, unit, epoch, content_ref, *priority = json.loads(packed)
        return cls(
            job_id,
            unit,
            epoch,
            content_ref=content_ref,
            priority=JobPriority(*priority or [JobPriority.NORMAL]),
        )


PAGE_ENTRY_FIELDS = ("options", "export", "vault", "content_ref", "deadline_at", "mime", "trace")
"""The fields of a job from which the entries of its pages are made."""
DescribePages = Callable[[Sequence[Hint], Sequence[str | None]], Awaitable[list[dict[str, str]]]]
"""Gets pages and, if they are new pages of one job, the values of PAGE_ENTRY_FIELDS."""


class Queues:
    def __init__(
        self, connection: RedisConnection, clock: Clock, describe_pages: DescribePages | None = None
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._describe_pages = describe_pages
        self._signals = SignalSender(connection)
        self.removals = EntryRemovals(connection)
        self._put_later = asyncio.Event()
        self._next_due_s = math.inf  # of the entries that this process has delayed since `wait_for_delayed`

    async def ensure_groups(self, kinds: Iterable[UnitKind]) -> None:
        wanted = [(stream, QUEUES[kind].group) for kind in kinds for stream in QUEUES[kind].streams]
        commands = [("XGROUP", "CREATE", stream, group, "0", "MKSTREAM") for stream, group in wanted]
        # The client of a cluster fails when its first commands are sent at once, each on a new connection.
        sent_together = 1 if self._connection.is_cluster else max(1, len(commands))
        for first in range(0, len(commands), sent_together):
            made = await self._connection.outcomes(commands[first : first + sent_together])
            _raise_unless(made, "BUSYGROUP")

    async def put(
        self,
        hints: Iterable[Hint],
        *,
        described: Sequence[str | None] = (),
        then: Sequence[tuple[Arg, ...]] = (),
    ) -> None:
        """Queues units. `described`: the values of PAGE_ENTRY_FIELDS, if the pages are new ones of one job.

        `then`: commands that follow them at once, in the same round trip unless the server is a cluster.
        """
        queued = list(hints)
        if not queued:
            return
        added: list[tuple[Arg, ...]] = [
            ("XADD", hint.stream, "MAXLEN", "~", _STREAM_BOUND, "*", *fields)
            for hint, fields in zip(queued, await self._entry_fields(queued, described), strict=True)
        ]
        entries = Counter(hint.kind for hint in queued)
        due = self._signals.due(entries)
        signals = signal_commands(due)
        if self._connection.is_cluster:  # on different nodes, so in two round trips
            await self._connection.commands(added)
            await self._connection.commands([*then, *signals])
        else:
            await self._connection.commands([*added, *then, *signals])
        self._signals.send_soon({kind: count for kind, count in entries.items() if kind not in due})

    async def _entry_fields(
        self, hints: Sequence[Hint], described: Sequence[str | None]
    ) -> list[tuple[str, ...]]:
        """The fields of each entry; a page's also has the description that external dispatchers need."""
        fields = [hint.fields() for hint in hints]
        pages = [at for at, hint in enumerate(hints) if hint.kind is UnitKind.PAGE]
        if pages and self._describe_pages is not None:
            found = await self._describe_pages([hints[at] for at in pages], described)
            for at, more in zip(pages, found, strict=True):
                merged = {**pairs(fields[at]), **more}
                fields[at] = tuple(part for pair in merged.items() for part in pair)
        return fields

    async def put_units(
        self,
        job_id: str,
        epoch: int,
        units: Iterable[str],
        content_ref: str,
        priority: JobPriority = JobPriority.NORMAL,
        *,
        described: Sequence[str | None] = (),
    ) -> None:
        """Queues units of one job."""
        hints = (Hint(job_id, unit, epoch, content_ref=content_ref, priority=priority) for unit in units)
        await self.put(hints, described=described)

    async def put_later(self, hint: Hint, not_before_s: float) -> None:
        """Delays a unit, and removes its entry, if it has one, at once: the depth counts each unit once."""
        later = ("ZADD", QUEUES[hint.kind].delayed, int(not_before_s * 1000), hint.packed())
        await self._connection.commands([later, *(self._removal(hint) if hint.entry_id else ())])
        self._next_due_s = min(self._next_due_s, not_before_s)
        self._put_later.set()

    async def remove_delayed_of(self, job_ids: Iterable[str], kinds: Iterable[UnitKind]) -> None:
        """Removes the delayed entries of jobs that are deleted. Reads the delayed sets once, in steps."""
        wanted = set(job_ids)
        for key in dict.fromkeys(QUEUES[kind].delayed for kind in kinds):
            gone: list[str] = []
            for start in itertools.count(0, 1000):
                found = await self._connection.command("ZRANGE", key, start, start + 999)
                gone += [member for member in found if Hint.unpack(member).job_id in wanted]
                if len(found) < 1000:
                    break
            if gone:
                await self._connection.command("ZREM", key, *gone)

    def signals(self, worker_id: str) -> WorkSignals:
        """The wake-ups of one worker."""
        return WorkSignals(self._connection, worker_id)

    @property
    def losses(self) -> int:
        """How often a connection was lost: entries that were delivered then may not have been received."""
        return self._connection.losses

    async def wait_for_delayed(self, timeout_s: float) -> None:
        """Returns as soon as an entry is due that this process has delayed since the last call.

        Returns after the time at the latest: other processes delay entries too.
        """
        until = self._clock.monotonic() + timeout_s
        while True:
            left_s = min(until - self._clock.monotonic(), self._next_due_s - self._clock.now())
            if left_s <= 0:
                break
            self._put_later.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._put_later.wait()
        self._next_due_s = math.inf

    async def read(self, kind: UnitKind, consumer: str, count: int, block_s: float) -> list[Hint]:
        """New entries; waits up to block_s for them. Creates the group again if the server has lost it."""
        found, _ = await self.read_mixed(kind, consumer, count, block_s)
        return found

    async def read_mixed(
        self, kind: UnitKind, consumer: str, count: int, block_s: float = 0
    ) -> tuple[list[Hint], bool]:
        """As `read`, and whether entries of several priorities were there.

        COUNT holds for each stream, so entries of several priorities that arrive at the same moment may be more than
        were asked for: those of the lowest priority are queued again.
        """
        queue = QUEUES[kind]
        streams = queue.streams
        try:
            answer = await self._read_new(queue, consumer, count, block_s)
        except CoordinationCommandError as error:
            if not _says(error, "NOGROUP"):
                raise
            await self.ensure_groups([kind])
            answer = await self._read_new(queue, consumer, count, 0)
        by_stream = (
            dict(answer or {}) if isinstance(answer, dict) else {row[0]: row[1] for row in answer or ()}
        )
        found = [
            read_hint(entry_id, fields, priority)
            for priority, stream in zip(queue.priorities, streams, strict=True)
            for entry_id, fields in by_stream.get(stream, ())
            if fields
        ]
        await self._put_back(found[count:])
        return found[:count], len(by_stream) > 1

    async def _read_new(self, queue: QueueKeys, consumer: str, count: int, block_s: float) -> Any:
        command = ("XREADGROUP", "GROUP", queue.group, consumer, "COUNT", count)
        streams = ("STREAMS", *queue.streams, *[">"] * len(queue.streams))
        if block_s > 0:
            return await self._connection.blocking(*command, "BLOCK", int(block_s * 1000), *streams)
        return await self._connection.command(*command, *streams)

    async def read_shares(
        self, kind: UnitKind, consumer: str, shares: Mapping[JobPriority, int]
    ) -> list[Hint]:
        """New entries without waiting: of each priority its share, and what one leaves goes to the others."""
        return await self._read_entries(kind, consumer, ">", shares)

    async def in_hand(self, kind: UnitKind, consumer: str, limit: int = 1000) -> list[Hint]:
        """Entries that were delivered to a consumer and not acknowledged, also those it never received."""
        shares = dict.fromkeys(QUEUES[kind].priorities, limit)
        return await self._read_entries(kind, consumer, "0", shares)

    async def _read_entries(
        self, kind: UnitKind, consumer: str, first: str, shares: Mapping[JobPriority, int]
    ) -> list[Hint]:
        queue = QUEUES[kind]
        try:
            rows = await self._connection.script(
                "plain/read_entries",
                queue.streams,
                *(queue.group, consumer, first),
                *(shares.get(priority, 0) for priority in queue.priorities),
            )
        except CoordinationCommandError as error:
            if not _says(error, "NOGROUP"):
                raise
            await self.ensure_groups([kind])
            return []
        deleted = [(queue.streams[number - 1], entry_id) for number, entry_id, fields in rows if not fields]
        if deleted:
            await self._connection.commands(("XACK", stream, queue.group, one) for stream, one in deleted)
        return [
            read_hint(entry_id, fields, queue.priorities[number - 1])
            for number, entry_id, fields in rows
            if fields
        ]

    async def done(self, hint: Hint) -> None:
        """Acknowledges and deletes the entry, whatever the outcome of its unit."""
        if hint.entry_id:
            await self._connection.commands(self._removal(hint))

    def done_soon(self, hint: Hint) -> None:
        """As `done`, together with the other entries of the next moment, and without an error."""
        if hint.entry_id:
            self.removals.add(hint.stream, QUEUES[hint.kind].group, hint.entry_id)

    def _removal(self, hint: Hint) -> list[tuple[str, ...]]:
        stream, entry_id = hint.stream, hint.entry_id or ""
        return [("XACK", stream, QUEUES[hint.kind].group, entry_id), ("XDEL", stream, entry_id)]

    async def consumers(self, kind: UnitKind) -> dict[str, int]:
        """Consumers by name and how many unacknowledged entries each has."""
        found: Counter[str] = Counter()
        queue = QUEUES[kind]
        for rows in await self._infos(("CONSUMERS", stream, queue.group) for stream in queue.streams):
            found.update({str(one["name"]): int(one["pending"]) for one in map(pairs, rows)})
        return dict(found)

    async def undelivered(self, pending: Mapping[UnitKind, int]) -> list[UnitKind]:
        """The queues with entries that no worker has read, given how many each has that are not acknowledged."""
        of_stream = [(kind, stream) for kind in pending for stream in QUEUES[kind].streams]
        lengths = await self._connection.commands(("XLEN", stream) for _, stream in of_stream)
        entries: Counter[UnitKind] = Counter()
        for (kind, _), length in zip(of_stream, lengths, strict=True):
            entries[kind] += int(length)
        return [kind for kind, unacknowledged in pending.items() if entries[kind] > unacknowledged]

    async def _infos(self, asked: Iterable[tuple[str, ...]]) -> list[list[Any]]:
        """The answers of XINFO; one is empty if there is no such stream or group."""
        answers = await self._connection.outcomes(("XINFO", *args) for args in asked)
        _raise_unless(answers, "NOGROUP", "no such key")
        return [[] if isinstance(one, CoordinationCommandError) else list(one) for one in answers]

    async def delivered_until(self, kind: UnitKind, priority: JobPriority) -> float:
        """The time (s) up to which every entry of a stream was delivered to a worker; infinity if none waits.

        By the server's clock, to the millisecond.
        """
        queue = QUEUES[kind]
        stream = queue.stream_of(priority)
        about, groups = await self._infos([("STREAM", stream), ("GROUPS", stream)])
        last = next((one for one in map(pairs, groups) if one["name"] == queue.group), None)
        known = pairs(about)
        if not int(known.get("length", 0)):
            return math.inf
        if last is None:
            return 0.0
        if known["last-generated-id"] == last["last-delivered-id"]:
            return math.inf
        return int(last["last-delivered-id"].partition("-")[0]) / 1000

    async def take_over(self, kind: UnitKind, dead: str, limit: int = 256) -> list[Hint]:
        """Requeues the entries of a consumer that is known to be dead; returns them.

        The copy comes first: if this process dies in between, the entry is doubled, not lost.
        """
        left = await self.in_hand(kind, dead, limit)
        await self._put_back(left)
        return left

    async def _put_back(self, hints: Sequence[Hint]) -> None:
        """Queues copies of delivered entries and removes the originals."""
        await self.put(hints, then=[command for hint in hints for command in self._removal(hint)])

    async def forget_consumer(self, kind: UnitKind, consumer: str) -> None:
        """Removes a consumer where it has no unacknowledged entries: one that was believed dead may have read again."""
        queue = QUEUES[kind]
        await self._connection.script("plain/forget_consumer", list(queue.streams), queue.group, consumer)

    async def move_all_due(self, limit: int = 200) -> float:
        """Moves delayed entries whose time has come to their stream: first there, then gone from here.

        Returns the seconds until the next one is due; infinity if none is left.
        """
        delayed = [queue.delayed for queue in QUEUES.values()]
        if not await self._connection.any_exists(delayed):
            return math.inf
        now = now_ms(self._clock)
        found = await self._connection.commands(("ZRANGE", key, 0, 0, "WITHSCORES") for key in delayed)
        next_ms = {key: float(first[1]) for key, first in zip(delayed, found, strict=True) if first}
        for key in [key for key, at in next_ms.items() if at <= now]:
            due, rest = await self._connection.commands(
                [
                    ("ZRANGEBYSCORE", key, "-inf", now, "LIMIT", 0, limit),
                    ("ZRANGEBYSCORE", key, f"({now}", "+inf", "WITHSCORES", "LIMIT", 0, 1),
                ]
            )
            # At once, so that the depth of the queue does not count them twice.
            await self.put((Hint.unpack(packed) for packed in due), then=[("ZREM", key, *due)])
            next_ms[key] = now if len(due) == limit else float(rest[1]) if rest else math.inf
        return max(0.0, min(next_ms.values(), default=math.inf) - now) / 1000

    async def depth(self, kind: UnitKind) -> dict[str, int]:
        queue = QUEUES[kind]
        delayed, dead, *waiting = await self._connection.commands(
            [("ZCARD", queue.delayed), ("XLEN", queue.dlq), *(("XLEN", stream) for stream in queue.streams)]
        )
        return {"waiting": sum(map(int, waiting)), "delayed": int(delayed), "dead": int(dead)}

    async def oldest_s(self, kind: UnitKind) -> float:
        """The age of a queue's oldest entry, claimed ones included; 0 if it is empty."""
        found = await self._connection.commands(
            [("XRANGE", stream, "-", "+", "COUNT", 1) for stream in QUEUES[kind].streams]
        )
        added_ms = [int(str(rows[0][0]).partition("-")[0]) for rows in found if rows]
        return max(0.0, self._clock.now() - min(added_ms) / 1000) if added_ms else 0.0

    async def add_dead_letter(self, hint: Hint, reason: str, call: FailedCall | None = None) -> None:
        """Adds a unit that failed for good to the dead letters, where operators can read and replay it."""
        await self._connection.command(
            *("XADD", QUEUES[hint.kind].dlq, "MAXLEN", "~", _DEAD_LETTERS_KEPT, "*"),
            *hint.fields()[:6],
            *("reason", reason, "at", str(self._clock.now())),
            *(call.fields() if call else ()),
        )

    async def dead_letters(self, kind: UnitKind, limit: int = 100) -> list[DeadLetter]:
        """The newest first."""
        answer = await self._connection.command("XREVRANGE", QUEUES[kind].dlq, "+", "-", "COUNT", limit)
        return [dead_letter_of(kind, entry_id, fields) for entry_id, fields in answer]

    async def dead_letter(self, kind: UnitKind, entry_id: str) -> DeadLetter | None:
        answer = await self._connection.command("XRANGE", QUEUES[kind].dlq, entry_id, entry_id)
        return dead_letter_of(kind, *answer[0]) if answer else None

    async def remove_dead_letters_of(self, job_ids: Collection[str]) -> None:
        """Removes the dead letters of jobs that are deleted."""
        kinds = list(QUEUES)
        found = await asyncio.gather(*(self.dead_letters(kind, _DEAD_LETTERS_KEPT) for kind in kinds))
        letters = [letter for some in found for letter in some if letter.job_id in job_ids]
        await self._connection.commands(
            ("XDEL", QUEUES[letter.kind].dlq, letter.entry_id) for letter in letters
        )

    async def remove_dead_letter(self, letter: DeadLetter) -> None:
        await self._connection.command("XDEL", QUEUES[letter.kind].dlq, letter.entry_id)


def read_hint(entry_id: str, flat: Any, priority: JobPriority) -> Hint:
    """The hint that the fields of a stream entry describe."""
    fields = pairs(flat)
    content_ref = fields.get("content_ref", "").partition("#")[0]
    return Hint(fields["job_id"], fields["unit"], int(fields["epoch"]), entry_id, content_ref, priority)


def _raise_unless(answers: Iterable[Any], *texts: str) -> None:
    """Raises the first error whose text has none of these."""
    for one in answers:
        if isinstance(one, CoordinationCommandError) and not _says(one, *texts):
            raise one


def _says(error: CoordinationCommandError, *texts: str) -> bool:
    """Whether the server's reply has one of the texts; before version 7 a script's reply is wrapped in another."""
    return any(text in str(error.__cause__) for text in texts)


__all__ = ["QUEUES", "DeadLetter", "FailedCall", "Hint", "PriorityShares", "QueueKeys", "Queues"]
