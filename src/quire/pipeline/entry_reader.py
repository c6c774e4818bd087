"""How one worker gets queue entries: it waits for signals of all its queues on one connection, then reads.

No error ends a reader: a read that fails is repeated after a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress

from quire.coordination.streams import QUEUES, Hint, PriorityShares, Queues
from quire.domain.job import UnitKind
from quire.errors import CoordinationError
from quire.pipeline.unreceived_entries import UnreceivedEntries, entry_name

_LOG = logging.getLogger(__name__)
_SERVER_AWAY_S = 0.2
_REFUSED_S = 5.0
_NOT_NOW_S = 0.5
_READS_BY_SHARES = 50
"""So many reads are by shares after entries of several priorities were seen; a look without shares follows."""


class EntryReader:
    """Reads for one consumer until `stopping` is set. `run` must run beside the calls of `next`.

    While `may_read` returns false, entries and signals are left to other workers.
    """

    def __init__(
        self,
        queues: Queues,
        consumer: str,
        kinds: Collection[UnitKind],
        unreceived: UnreceivedEntries,
        stopping: asyncio.Event,
        *,
        may_read: Callable[[], bool] = lambda: True,
    ) -> None:
        self._queues = queues
        self._consumer = consumer
        self._kinds = tuple(kinds)
        self._unreceived = unreceived
        self._stopping = stopping
        self._may_read = may_read
        self._signals = queues.signals(consumer)
        self._shares = {kind: PriorityShares() for kind in kinds if QUEUES[kind].prioritised}
        self._by_shares = dict.fromkeys(kinds, 0)
        """How many of the next reads of each queue are by shares: a script, of which most need nothing."""
        self._in_hand: set[str] = set()
        self._more = set(kinds)
        """Queues that may have more entries: the last read was full or failed. The next read is at once, by shares."""
        self._offered: dict[UnitKind, list[Hint]] = {}

    async def run(self) -> None:
        """Listens for signals until cancelled."""
        await self._signals.run()

    async def leave(self) -> None:
        """Passes on signals and units that this worker may have received and not used. Raises CoordinationError."""
        for hints in self._offered.values():
            await self._queues.put(hints)
        await self._signals.send(self._kinds)

    def offer(self, hint: Hint) -> bool:
        """Gives the worker a unit that has no entry, if it waits for one of this kind; False if it does not."""
        if self._stopping.is_set() or not self._may_read() or not self._signals.wake(hint.kind):
            return False
        self._offered.setdefault(hint.kind, []).append(hint)
        return True

    def done(self, hint: Hint) -> None:
        """The worker no longer has this entry."""
        self._in_hand.discard(entry_name(hint))

    async def next(self, kind: UnitKind, room: int) -> list[Hint]:
        """New entries, at most `room`; none when the worker stops or may not read, or the server is out of reach."""
        if not self._may_read():
            self._more.add(kind)  # other workers have got its signals meanwhile
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _NOT_NOW_S)
            return []
        read = asyncio.create_task(self._read(kind, room), name=f"read-{kind.value}")
        stop = asyncio.create_task(self._stopping.wait(), name="stop")
        try:
            await asyncio.wait({read, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not read.done():
                read.cancel()
            found = await read
        except asyncio.CancelledError:
            if self._stopping.is_set():
                return []
            raise
        except CoordinationError as error:
            _LOG.warning("queue read failed", extra={"queue": kind.value, "code": error.code})
            await self._pause(kind, _SERVER_AWAY_S)
            return []
        except Exception as error:
            _LOG.error("queue can't be read", exc_info=error, extra={"queue": kind.value})
            await self._pause(kind, _REFUSED_S)
            return []
        finally:
            stop.cancel()
            read.cancel()
        self._in_hand.update(map(entry_name, found))
        return found

    async def _pause(self, kind: UnitKind, pause_s: float) -> None:
        self._unreceived.read_failed(kind)
        self._more.add(kind)  # the signal for it may be used up
        await asyncio.sleep(pause_s)

    async def _read(self, kind: UnitKind, room: int) -> list[Hint]:
        found = await self._read_rest(kind, room) if kind in self._more else []
        if not found:
            # Before the wait: no signal comes for entries that were delivered while the connection was lost.
            found = await self._unreceived.find(kind, room, self._in_hand)
        if not found:
            self._more.discard(kind)
            await self._signals.wait(kind)
            if offered := self._offered.pop(kind, None):
                return offered
            if not self._may_read():
                await self._signals.send([kind])
                return []
            found = await self._read_mixed(kind, room)
            if len(found) >= room:
                await self._signals.send([kind])  # another worker may have room for more
        if len(found) >= room:
            self._more.add(kind)
        else:
            self._more.discard(kind)
        return found

    async def _read_rest(self, kind: UnitKind, room: int) -> list[Hint]:
        """New entries without waiting for a signal."""
        if not self._by_shares[kind]:
            return await self._read_mixed(kind, room)
        self._by_shares[kind] -= 1
        return await self._queues.read_shares(kind, self._consumer, self._shares[kind].next(room))

    async def _read_mixed(self, kind: UnitKind, room: int) -> list[Hint]:
        """New entries, the highest priority first. If there were several, the next reads are by shares."""
        found, is_mixed = await self._queues.read_mixed(kind, self._consumer, room)
        if is_mixed:
            self._by_shares[kind] = _READS_BY_SHARES
        return found
