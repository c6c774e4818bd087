"""Which workers are alive, and the locks that one process holds for all.

A worker renews a heartbeat key with a TTL. A worker on this machine is also known to be dead as soon as its process has
ended, without waiting for the TTL.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection

BEATS_IN_A_TTL = 3
"""How often a process beats in the time after which it counts as dead: two beats may be lost."""


@dataclass(frozen=True, slots=True)
class WorkerId:
    """`<machine>.<pid>.<start of the process>.<random>`; the machine part is unique to a process-id space."""

    machine: str
    pid: int
    started: str
    nonce: str

    @classmethod
    def of_this_process(cls) -> WorkerId:
        pid = os.getpid()
        return cls(_machine(), pid, _process_start(pid) or "0", secrets.token_hex(4))

    @classmethod
    def parse(cls, text: str) -> WorkerId | None:
        parts = text.split(".")
        if len(parts) != 4 or not parts[1].isdigit():
            return None
        return cls(parts[0], int(parts[1]), parts[2], parts[3])

    def __str__(self) -> str:
        return f"{self.machine}.{self.pid}.{self.started}.{self.nonce}"

    def is_known_dead(self) -> bool:
        """True only if it ran on this machine and the process table no longer has it."""
        if self.machine != _machine() or self.started == "0":
            return False
        return _process_start(self.pid) != self.started


def held_unit(job_id: str, unit: str) -> str:
    """The name of a unit in the heartbeat of the worker that holds it."""
    return f"{job_id} {unit}"


class Workers:
    def __init__(self, connection: RedisConnection, clock: Clock, ttl_s: float) -> None:
        self._connection = connection
        self._clock = clock
        self.ttl_s = ttl_s
        self._housekeeper = ""
        """The last known holder of the housekeeper lock."""

    async def beat(self, worker_id: str, held: Sequence[str] = ()) -> None:
        """Renews the heartbeat; `held` are the units (`held_unit`) that the worker works on."""
        now = now_ms(self._clock)
        beat = ("SET", keys.worker(worker_id), json.dumps([now, *held]), "PX", int(self.ttl_s * 1000))
        await self._connection.commands([beat, ("ZADD", keys.WORKERS, now, worker_id)])

    async def leave(self, worker_id: str) -> None:
        await self._connection.commands(
            [
                ("DEL", keys.worker(worker_id)),
                ("ZREM", keys.WORKERS, worker_id),
                ("ZREM", keys.WORKERS_DISK_FULL, worker_id),
            ]
        )

    async def report_disk(self, worker_id: str, *, is_full: bool) -> None:
        """Records whether the worker has stepped back because its disk is full; call it with each heartbeat."""
        if not is_full:
            await self._connection.command("ZREM", keys.WORKERS_DISK_FULL, worker_id)
            return
        await self._connection.commands(
            [
                ("ZADD", keys.WORKERS_DISK_FULL, now_ms(self._clock), worker_id),
                ("PEXPIRE", keys.WORKERS_DISK_FULL, int(self.ttl_s * 2000)),
            ]
        )

    async def with_full_disk(self) -> list[str]:
        """The workers that take no units now because their disks are full."""
        since = now_ms(self._clock) - int(self.ttl_s * 1000)
        found = await self._connection.command("ZRANGEBYSCORE", keys.WORKERS_DISK_FULL, since, "+inf")
        return list(found)

    async def report_clock(self, worker_id: str, offset_s: float) -> None:
        """Records that the worker's clock is off; call it with each heartbeat as long as that is so."""
        now, ttl_ms = now_ms(self._clock), int(self.ttl_s * 1000)
        await self._connection.commands(
            [
                ("ZADD", keys.WORKERS_CLOCK_OFF, now, f"{worker_id} {offset_s:.0f}"),
                ("ZREMRANGEBYSCORE", keys.WORKERS_CLOCK_OFF, "-inf", now - 2 * ttl_ms),
                ("PEXPIRE", keys.WORKERS_CLOCK_OFF, 2 * ttl_ms),
            ]
        )

    async def with_wrong_clock(self) -> dict[str, float]:
        """The workers whose clocks are off, and by how many seconds each is behind (negative: ahead)."""
        since = now_ms(self._clock) - int(self.ttl_s * 1000)
        found = await self._connection.command("ZRANGEBYSCORE", keys.WORKERS_CLOCK_OFF, since, "+inf")
        pairs = (member.rpartition(" ") for member in found)  # the latest report of a worker comes last
        return {worker_id: float(offset_s) for worker_id, _, offset_s in pairs}

    async def denies(self, worker_id: str, unit: str, since_s: float) -> bool:
        """Whether a worker that is alive does not have this unit (`held_unit`), which it claimed at `since_s`.

        The server may have lost the end of a unit, so that only its claim is left. Both times are by the worker's own
        clock; the margin covers a claim whose answer came late.
        """
        named = json.loads(await self._connection.command("GET", keys.worker(worker_id)) or "0")
        if not isinstance(
            named, list
        ):  # it is gone, or a process of an earlier version, which names no units here
            return False
        at, *held = named
        return bool(at > (since_s + self.ttl_s) * 1000) and unit not in held

    async def alive(self, worker_id: str) -> bool:
        parsed = WorkerId.parse(worker_id)
        if parsed is not None and parsed.is_known_dead():
            return False
        return bool(await self._connection.command("EXISTS", keys.worker(worker_id)))

    async def dead_among(self, ids: Collection[str]) -> set[str]:
        """Those processes that are known to be dead.

        The heartbeat of a worker has expired; a process that is no worker, or has left as one, has none to miss.
        """
        gone = {one for one in ids if (known := WorkerId.parse(one)) is not None and known.is_known_dead()}
        asked = [one for one in ids if one not in gone]
        found = await self._connection.commands(
            command
            for one in asked
            for command in (("EXISTS", keys.worker(one)), ("ZSCORE", keys.WORKERS, one))
        )
        beats, joined = found[::2], found[1::2]
        silent = (
            one
            for one, beat, at in zip(asked, beats, joined, strict=True)
            if not int(beat) and at is not None
        )
        return gone.union(silent)

    async def heartbeats(self) -> dict[str, float]:
        """Worker ids and the time of each one's last heartbeat."""
        flat = await self._connection.command("ZRANGE", keys.WORKERS, 0, -1, "WITHSCORES")
        return {flat[i]: float(flat[i + 1]) / 1000 for i in range(0, len(flat), 2)}

    async def count_alive(self) -> int:
        """How many workers have sent a heartbeat in time and are not known to be dead."""
        heartbeats = await self.heartbeats()
        return len(heartbeats) - len(self.without_heartbeat(heartbeats))

    def without_heartbeat(self, heartbeats: Mapping[str, float]) -> dict[str, float]:
        """Those whose last heartbeat is older than the TTL or whose process on this machine has ended."""
        since_s = self._clock.now() - self.ttl_s
        parsed = {name: WorkerId.parse(name) for name in heartbeats}
        return {
            name: at
            for name, at in heartbeats.items()
            if at < since_s or ((one := parsed[name]) is not None and one.is_known_dead())
        }

    async def trim_expired(self) -> None:
        oldest = int((self._clock.now() - 10 * self.ttl_s) * 1000)
        await self._connection.command("ZREMRANGEBYSCORE", keys.WORKERS, "-inf", oldest)

    async def hold_housekeeping(self, worker_id: str, ttl_s: float) -> bool:
        """Takes or renews the housekeeper lock for ttl_s seconds; returns whether this process holds it.

        The lock has a TTL of its own, because a process without workers can be the housekeeper and has no heartbeat.
        """
        if self._housekeeper != worker_id:  # a look costs less than a try to take it
            self._housekeeper = str(await self._connection.command("GET", keys.HOUSEKEEPER) or "")
            if self._housekeeper not in ("", worker_id) and not self.is_housekeeper_dead():
                return False
        self._housekeeper = await self._hold(keys.HOUSEKEEPER, worker_id, ttl_s)
        return self._housekeeper == worker_id

    def is_housekeeper_dead(self) -> bool:
        """Whether the last known holder of the housekeeper lock ran on this machine and its process has ended."""
        known = WorkerId.parse(self._housekeeper)
        return known is not None and known.is_known_dead()

    async def hold_embedding(self, worker_id: str, ttl_s: float) -> bool:
        """Takes or renews the embedder lock for ttl_s seconds; returns whether this process holds it."""
        return await self._hold(keys.VAULT_EMBEDDER, worker_id, ttl_s) == worker_id

    async def _hold(self, key: str, worker_id: str, ttl_s: float) -> str:
        """Takes or renews a lock with a TTL and returns its holder.

        The lock of a process that is known to be dead is taken over at once.
        """
        ttl_ms = int(ttl_s * 1000)
        holder = str(await self._connection.script("plain/hold_lock", [key], worker_id, ttl_ms))
        parsed = WorkerId.parse(holder)
        if holder != worker_id and parsed is not None and parsed.is_known_dead():
            holder = str(await self._connection.script("plain/swap_value", [key], holder, worker_id, ttl_ms))
        return holder

    async def release_housekeeping(self, worker_id: str) -> None:
        """Releases the housekeeper lock, if this process holds it."""
        await self._connection.script("plain/swap_value", [keys.HOUSEKEEPER], worker_id, "", 0)


@cache
def _machine() -> str:
    """The same for processes that see each other's process ids, different for all others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "m" + hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]
    return hashlib.sha256(f"{boot}{space}{socket.gethostname()}".encode()).hexdigest()[:12]


def _process_start(pid: int) -> str | None:
    """When the process started, in the kernel's ticks; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]
