"""The queue of parse requests in Redis: one script for each change."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import Arg, RedisConnection, pairs
from quire.coordination.parse_requests import (
    FIELDS_OF_A_CLAIM,
    Acceptance,
    BackendState,
    ClaimedBatch,
    NewRequest,
    NoBatch,
    Outcome,
    Permission,
    QueueStatus,
    RequestOutcome,
    RequestState,
    acceptance,
    claimed,
    request_state,
)
from quire.errors import CoordinationCommandError, CoordinationError

WORK = "work"
"""The wake-up for replicas that form batches, sent by replicas that do not."""

_DECAY = 0.95
_MAX_BACKOFF_S = 10.0
_MAX_SENDS = 10
_CALL_MARGIN_S = 30.0
_POLL_S = 5.0


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Limits for the scripts. `backoff_s` and `cooldown_s` belong to the backend's breaker."""

    ttl_s: float
    slots: int
    failures_to_open: int
    cooldown_s: float
    backoff_s: float
    call_timeout_s: float = 120.0
    """After this time, and a margin, a call whose process has died does not count any more."""


class ParseQueue:
    """Every method raises CoordinationError when Redis is unavailable, and can be repeated safely."""

    def __init__(self, connection: RedisConnection, clock: Clock, replica: str, limits: ParseLimits) -> None:
        self._connection = connection
        self._clock = clock
        self.replica = replica
        self._limits = limits
        self._ttl_ms = int(limits.ttl_s * 1000)
        self._call_lease_ms = int((limits.call_timeout_s + _CALL_MARGIN_S) * 1000)

    async def accept(
        self, object_key: str, requests: Sequence[NewRequest], *, forms_batches: bool
    ) -> list[Acceptance]:
        """Adds requests whose bodies are in one object, as many as the limits permit."""
        names = [
            keys.PARSE_QUEUE,
            keys.PARSE_SEQUENCE,
            keys.PARSE_SEGMENTS,
            keys.PARSE_BREAKER,
            keys.PARSE_WAKE,
        ]
        args: list[Arg] = [
            now_ms(self._clock),
            self._ttl_ms,
            self.replica,
            object_key,
            self._limits.failures_to_open,
        ]
        args.append(0 if forms_batches else 1)
        for one in requests:
            record = keys.parse_request(one.id)
            names += [record, keys.parse_key(fingerprint(one.team, one.key)) if one.key else record]
            args += [one.id, one.team, one.filename, int(one.priority), one.offset, one.length]
            args += [1 if one.key else 0, one.max_waiting]
        answers = await self._connection.script("parse/accept", names, *args)
        return [acceptance(answer) for answer in answers]

    async def find_by_key(self, team: str, key: str) -> str | None:
        """Returns the id of the request with this Idempotency-Key."""
        found = await self._connection.command("GET", keys.parse_key(fingerprint(team, key)))
        return None if found is None else str(found)

    async def claim(
        self, batch_id: str, size: int, *, release: str = "", ahead: bool = False
    ) -> ClaimedBatch | NoBatch:
        """Gives back the slot of the batch `release`, then claims a batch and a slot for it.

        With `ahead` the batch has exactly this size and gets its slot later (`take_slot`).
        """
        answer = await self._connection.script(
            "parse/claim",
            [
                keys.PARSE_QUEUE,
                keys.PARSE_BATCHES,
                keys.PARSE_SLOTS,
                keys.PARSE_BREAKER,
                keys.PARSE_STATS,
                keys.parse_batch(batch_id),
                keys.PARSE_CALLS,
            ],
            now_ms(self._clock),
            self._ttl_ms,
            batch_id,
            self.replica,
            size,
            self._limits.slots,
            self._limits.failures_to_open,
            keys.parse_request(""),
            release,
            1 if ahead else 0,
            self._call_lease_ms,
        )
        if answer[0] != "batch":
            return NoBatch(answer[0], float(answer[1]) / 1000 if len(answer) > 1 else 0.0)
        flat = answer[2:]
        rows = (flat[at : at + FIELDS_OF_A_CLAIM] for at in range(0, len(flat), FIELDS_OF_A_CLAIM))
        return ClaimedBatch(batch_id, tuple(claimed(row) for row in rows), int(answer[1]))

    async def take_slot(self, batch_id: str, *, release: str = "") -> bool | None:
        """Gives a batch that was claimed ahead the slot of the batch `release`, or a free one; False if none is free.

        None if the batch does not belong to this replica any more.
        """
        names = [keys.PARSE_BATCHES, keys.PARSE_SLOTS, keys.parse_batch(batch_id), keys.PARSE_CALLS]
        args: list[Arg] = [batch_id, self.replica, self._limits.slots, release, keys.parse_request("")]
        args += [now_ms(self._clock), self._call_lease_ms]
        answer = int(await self._connection.script("parse/slot", names, *args))
        return None if answer < 0 else answer == 1

    async def unfinished(self, ids: Sequence[str]) -> list[bool]:
        """Returns for each request whether it is queued or in a batch."""
        states = await self._connection.commands([("HGET", keys.parse_request(one), "st") for one in ids])
        return [state in ("q", "s") for state in states]

    async def wake_formers(self) -> None:
        """Wakes the replicas that form batches."""
        await self._connection.command("PUBLISH", keys.PARSE_WAKE, WORK)

    async def finish(
        self, batch_id: str, outcomes: Sequence[Outcome], *, at_s: float, result_key: str, last: bool
    ) -> list[str]:
        """Records outcomes; returns the objects whose bodies are not needed any more."""
        names = [
            keys.PARSE_QUEUE,
            keys.PARSE_BATCHES,
            keys.PARSE_SLOTS,
            keys.PARSE_SEGMENTS,
            keys.PARSE_STATS,
            keys.parse_batch(batch_id),
            keys.PARSE_WAKE,
            keys.PARSE_CALLS,
        ]
        args: list[Arg] = [
            int(at_s * 1000),
            self._ttl_ms,
            batch_id,
            self.replica,
            1 if last else 0,
            result_key,
        ]
        for one in outcomes:
            names.append(keys.parse_request(one.id))
            first: Arg = json.dumps(one.error) if one.ending is RequestOutcome.ERROR else one.offset
            args += [
                one.id,
                one.ending.value,
                first,
                one.length,
                one.position,
                one.size,
                f"{one.seconds:.6f}",
            ]
        return list(await self._connection.script("parse/finish", names, *args))

    async def batches(self) -> dict[str, str]:
        """Returns the claimed batches and the replicas that own them."""
        return pairs(await self._connection.command("HGETALL", keys.PARSE_BATCHES))

    async def slots(self) -> dict[str, str]:
        """Returns the batches that have a slot and the replicas that own them."""
        return pairs(await self._connection.command("HGETALL", keys.PARSE_SLOTS))

    async def reclaim(self, batch_id: str, owner: str, error: dict[str, Any]) -> tuple[int, list[str]]:
        """Puts a batch's requests back; returns their number (-1: not that owner's) and objects to delete.

        A request that was sent too often, because every process that sent it died, ends with `error`.
        """
        answer = await self._connection.script(
            "parse/reclaim",
            [
                keys.PARSE_QUEUE,
                keys.PARSE_BATCHES,
                keys.PARSE_SLOTS,
                keys.PARSE_SEGMENTS,
                keys.parse_batch(batch_id),
                keys.PARSE_WAKE,
                keys.PARSE_CALLS,
            ],
            batch_id,
            owner,
            keys.parse_request(""),
            _MAX_SENDS,
            json.dumps(error),
            now_ms(self._clock),
        )
        return int(answer[0]), [str(one) for one in answer[1:]]

    async def leave(self, ids: Collection[str], *, keep: bool) -> list[str]:
        """Records that callers left; with `keep` their requests stay. Returns objects that are not needed any more."""
        names = [keys.PARSE_QUEUE, keys.PARSE_SEGMENTS, keys.PARSE_STATS]
        names += [keys.parse_request(one) for one in ids]
        return list(await self._connection.script("parse/leave", names, self.replica, 1 if keep else 0, *ids))

    async def attach(self, team: str, request_id: str, *, wait: bool = True) -> RequestState | None:
        """Returns the state of the team's request; with `wait` this replica gets a wake-up when it ends."""
        answer = await self._connection.script(
            "parse/attach", [keys.parse_request(request_id)], team, self.replica if wait else ""
        )
        return request_state(request_id, answer) if answer else None

    async def rate_limit_wait_s(self, client: str, a_minute: int) -> float:
        """Returns 0 if the client may send a request now, else the seconds until it may."""
        name = hashlib.sha256(client.encode()).hexdigest()[:32]
        wait_ms = await self._connection.script(
            "parse/rate", [keys.parse_rate(name)], now_ms(self._clock), a_minute
        )
        return int(wait_ms) / 1000

    async def may_call(self, batch_id: str) -> Permission:
        """Asks the breaker whether a batch that has failed before may make another call."""
        answer = await self._connection.script(
            "parse/call",
            [keys.PARSE_BREAKER, keys.PARSE_CALLS],
            now_ms(self._clock),
            batch_id,
            self._limits.failures_to_open,
            self._call_lease_ms,
        )
        return Permission(answer[0])

    async def observe(
        self, what: str, images: int = 0, seconds: float = 0.0, batch_id: str = ""
    ) -> BackendState:
        """Records a backend call (`ok`, `failed`, `down`) or a health check (`healthy`, `unhealthy`).

        A call without images is a probe.
        """
        answer = await self._connection.script(
            "parse/observe",
            [keys.PARSE_BREAKER, keys.PARSE_MODEL, keys.PARSE_STATS, keys.PARSE_CALLS],
            now_ms(self._clock),
            what,
            images,
            f"{seconds:.6f}",
            self._limits.failures_to_open,
            int(self._limits.cooldown_s * 1000),
            int(self._limits.backoff_s * 1000),
            int(_MAX_BACKOFF_S * 1000),
            _DECAY,
            batch_id,
            self._call_lease_ms,
        )
        failures, until_ms, opened, last_ok_ms, *sums = answer
        return BackendState(
            int(failures),
            float(until_ms) / 1000,
            tuple(float(one) for one in sums),  # type: ignore[arg-type]
            opened=int(opened) == 1,
            last_success_s=int(last_ok_ms) / 1000,
        )

    async def has_work(self) -> bool:
        """Whether a request waits or a batch is claimed, in any replica."""
        return bool(
            await self._connection.command("EXISTS", keys.PARSE_QUEUE, keys.PARSE_BATCHES, keys.PARSE_SLOTS)
        )

    async def depth(self) -> int:
        return int(await self._connection.command("ZCARD", keys.PARSE_QUEUE))

    async def status(self) -> QueueStatus:
        band = 1 << 42
        answers = await self._connection.commands(
            [
                ("ZCARD", keys.PARSE_QUEUE),
                ("HLEN", keys.PARSE_SLOTS),
                ("HMGET", keys.PARSE_BREAKER, "failures", "until"),
                ("HMGET", keys.PARSE_MODEL, "w", "x", "y", "xx", "xy"),
                ("HGETALL", keys.PARSE_STATS),
                *(
                    ("ZRANGEBYSCORE", keys.PARSE_QUEUE, nth * band, (nth + 1) * band, "LIMIT", 0, 1)
                    for nth in range(3)
                ),
            ]
        )
        depth, slots, breaker, sums, stats = answers[:5]
        first = [name for found in answers[5:] for name in found]
        ages = await self._connection.commands([("HGET", keys.parse_request(one), "at") for one in first])
        times = [int(one) / 1000 for one in ages if one]
        counters = {name: int(value) for name, value in pairs(stats).items()}
        last = counters.pop("last_batch", None)
        last_ok = counters.pop("last_ok", 0)
        return QueueStatus(
            depth=int(depth),
            oldest_at=min(times, default=None),
            slots_taken=int(slots),
            backend=BackendState(
                int(breaker[0] or 0),
                int(breaker[1] or 0) / 1000,
                tuple(float(one or 0) for one in sums),  # type: ignore[arg-type]
                last_success_s=last_ok / 1000,
            ),
            last_batch_at=None if last is None else last / 1000,
            counters=counters,
        )

    async def register_shelf(self, prefix: str, until_s: float) -> None:
        """Registers a prefix of object keys for deletion at that time; called before its first object is written."""
        await self._connection.command("ZADD", keys.PARSE_EXPIRY, int(until_s * 1000), prefix)

    async def expired_shelves(self, limit: int = 20) -> list[str]:
        """Returns prefixes whose objects have expired."""
        found = await self._connection.command(
            "ZRANGEBYSCORE", keys.PARSE_EXPIRY, "-inf", now_ms(self._clock), "LIMIT", 0, limit
        )
        return list(found)

    async def forget_shelf(self, prefix: str) -> None:
        """Removes a prefix whose objects have been deleted."""
        cursor = "0"
        while True:
            cursor, found = await self._connection.command(
                "HSCAN", keys.PARSE_SEGMENTS, cursor, "MATCH", f"{prefix}/*", "COUNT", 500
            )
            if found:
                await self._connection.command("HDEL", keys.PARSE_SEGMENTS, *pairs(found))
            if str(cursor) == "0":
                break
        await self._connection.command("ZREM", keys.PARSE_EXPIRY, prefix)

    async def heartbeat(self, ttl_s: float) -> None:
        """Marks this replica as alive."""
        await self._connection.command(
            "SET", keys.worker(self.replica), now_ms(self._clock), "PX", int(ttl_s * 1000)
        )

    async def end_heartbeat(self) -> None:
        """Marks this replica as dead."""
        await self._connection.command("DEL", keys.worker(self.replica))

    async def wakeups(self) -> AsyncGenerator[list[str] | None, None]:
        """Yields ids of requests that other replicas have finished, or [WORK]; None if some may have been missed."""
        while True:
            try:
                async with self._connection.subscription() as pubsub:
                    await pubsub.subscribe(keys.PARSE_WAKE)
                    yield None
                    while True:
                        message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=_POLL_S)
                        if message is not None and message["type"] == "message":
                            yield str(message["data"]).split()
            except (CoordinationError, CoordinationCommandError):
                await asyncio.sleep(0.2)


def fingerprint(team: str, key: str) -> str:
    return hashlib.sha256(f"{team}\0{key}".encode()).hexdigest()[:32]
