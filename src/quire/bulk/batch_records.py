"""The records of AI batches in `_quire/ai/` of a bulk run's target, and the lock of the one driver that writes them.

A record is stored before its batch is handed in, and again with the batch's id. A driver that dies in between leaves a
record without an id; the next driver asks the provider whether the batch was handed in.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Sequence

import msgspec

from quire.bulk.shard_plan import PLAN_FOLDER
from quire.clock import Clock
from quire.errors import MissingError, ObjectsError, StateConflictError
from quire.objects.bulk_locations import BulkLocation

OPEN, COLLECTED, FAILED = "open", "collected", "failed"
_FOLDER = f"{PLAN_FOLDER}/ai"
_NAME = re.compile(rf"^{_FOLDER}/batch-(\d{{6}})\.json$")
_LOCK = f"{_FOLDER}/driver.json"
_LOCK_KEPT_S = 90.0
_LOCK_RENEWED_S = 20.0


class BatchPage(msgspec.Struct, array_like=True, frozen=True):
    """A page in a batch; its place in the record is the number of its request."""

    shard: int
    key: str
    etag: str
    page: int


class BatchRecord(msgspec.Struct):
    """One batch. `count` is how many of the pages were handed in; `rejected_usd` was paid for answers of no use."""

    number: int
    token: str
    provider: str
    model: str
    created_at: float
    reserved_usd: float
    count: int
    pages: list[BatchPage]
    batch_id: str = ""
    state: str = OPEN
    error: str = ""
    rejected_usd: float = 0.0

    def request_id(self, place: int) -> str:
        return f"{self.token}-{place}"

    def place_of(self, request_id: str) -> int | None:
        """The place of the page that a reply is for; None if it is of another batch."""
        token, _, place = request_id.rpartition("-")
        found = int(place) if token == self.token and place.isdecimal() else len(self.pages)
        return found if found < len(self.pages) else None


class BatchRecords:
    """All records of a target. Only the driver that holds the lock writes them."""

    def __init__(self, target: BulkLocation) -> None:
        self._target = target
        self.all: list[BatchRecord] = []

    async def load(self) -> None:
        """Raises ObjectsError where a record is damaged."""
        names: list[str] = []
        async for batch in self._target.listed(_FOLDER):
            names += [one.key for one in batch if _NAME.match(one.key)]
        self.all = [_decoded(name, await self._target.get(name)) for name in sorted(names)]

    @property
    def open(self) -> Sequence[BatchRecord]:
        return [one for one in self.all if one.state == OPEN]

    @property
    def batch_ids(self) -> frozenset[str]:
        return frozenset(one.batch_id for one in self.all if one.batch_id)

    @property
    def bound_usd(self) -> float:
        """What the rows do not say: the reserved price of open batches, and what was paid for nothing."""
        return sum(one.reserved_usd if one.state == OPEN else one.rejected_usd for one in self.all)

    async def add(self, record: BatchRecord) -> None:
        """Raises StateConflictError if another driver has made a record of that number."""
        if not await self._target.create(_record_name(record), msgspec.json.encode(record)):
            raise StateConflictError("Another run hands in batches for this target.")
        self.all.append(record)

    async def save(self, record: BatchRecord) -> None:
        await self._target.put(_record_name(record), msgspec.json.encode(record))


class LockContent(msgspec.Struct):
    owner: str
    host: str
    pid: int
    alive_at: float


class DriverLock:
    """Keeps a second driver out. The lock of a process that died on this machine is taken over at once, that of
    another machine after 90 s without a sign of life."""

    def __init__(self, target: BulkLocation, clock: Clock) -> None:
        self._target = target
        self._clock = clock
        self._own = LockContent(secrets.token_hex(8), socket.gethostname(), os.getpid(), 0.0)

    async def take(self) -> None:
        """Raises StateConflictError while another driver is alive."""
        held = await self._held()
        if held is not None:
            if not self._is_dead(held):
                raise StateConflictError(
                    f"Another run of `quire bulk --ai batch` works on this target (process {held.pid} on {held.host})."
                )
            await self._target.delete(_LOCK)
        self._own.alive_at = self._clock.now()
        if not await self._target.create(_LOCK, msgspec.json.encode(self._own)):
            raise StateConflictError("Another run of `quire bulk --ai batch` has just begun on this target.")

    async def renew(self, *, at_once: bool = False) -> None:
        """Gives a sign of life, a few times a minute. Raises StateConflictError if another driver has the lock."""
        if not at_once and self._clock.now() - self._own.alive_at < _LOCK_RENEWED_S:
            return
        held = await self._held()
        if held is None or held.owner != self._own.owner:
            raise StateConflictError("Another run has taken over the batches of this target.")
        self._own.alive_at = self._clock.now()
        await self._target.put(_LOCK, msgspec.json.encode(self._own))

    async def release(self) -> None:
        held = await self._held()
        if held is not None and held.owner == self._own.owner:
            await self._target.delete(_LOCK)

    async def _held(self) -> LockContent | None:
        try:
            return msgspec.json.decode(await self._target.get(_LOCK), type=LockContent)
        except (MissingError, msgspec.DecodeError):
            return None

    def _is_dead(self, held: LockContent) -> bool:
        if held.host == self._own.host and not _is_running(held.pid):
            return True
        return abs(self._clock.now() - held.alive_at) > _LOCK_KEPT_S


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _record_name(record: BatchRecord) -> str:
    return f"{_FOLDER}/batch-{record.number:06}.json"


def _decoded(name: str, content: bytes) -> BatchRecord:
    try:
        return msgspec.json.decode(content, type=BatchRecord)
    except msgspec.DecodeError as error:
        raise ObjectsError(f"{name} is damaged. Restore it from a backup.", retryable=False) from error
