"""Slots for reader processes, shared fairly: by team, then by document of the team, then in order of arrival.

A slot goes to the waiting team that has the fewest tasks running; among equals, to the one that has used the least time
lately. A team without a running task may use one of the extra slots, so it does not wait behind tasks that run long.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

_HALF_LIFE_S = 60.0
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class ReaderShare:
    """Whose work a task is."""

    team: str = ""
    document: str = ""


_CURRENT: ContextVar[ReaderShare] = ContextVar("quire_reader_share", default=ReaderShare())  # noqa: B039 - it is frozen


def current_share() -> ReaderShare:
    return _CURRENT.get()


@contextmanager
def sharing(team: str, document: str) -> Iterator[None]:
    """Tasks that are started within the block count for this team and document."""
    token = _CURRENT.set(ReaderShare(team, document))
    try:
        yield
    finally:
        _CURRENT.reset(token)


@dataclass(slots=True)
class _Account:
    used_s: float = 0.0
    at: float = 0.0
    wasted_s: float = 0.0
    is_slow: bool = False


class UsageLedger:
    """Reader time of teams and documents, which is forgotten by half each minute, and what documents have wasted.

    It is kept in the memory of one process: another worker, or this one after a restart, starts from zero.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._teams: OrderedDict[str, _Account] = OrderedDict()
        self._documents: OrderedDict[ReaderShare, _Account] = OrderedDict()

    def charge(self, share: ReaderShare, seconds: float, *, wasted: bool = False) -> None:
        """Adds the time of a task. `wasted` time gave no result."""
        for account in (self._team(share), self._document(share)):
            account.used_s = self._left(account) + seconds
            account.at = self._now()
        if wasted and share.document:
            self._document(share).wasted_s += seconds

    def used_s(self, share: ReaderShare) -> tuple[float, float]:
        """Returns what the team and the document have used lately."""
        team, document = self._teams.get(share.team), self._documents.get(share)
        return (self._left(team) if team else 0.0, self._left(document) if document else 0.0)

    def wasted_s(self, share: ReaderShare) -> float:
        found = self._documents.get(share)
        return found.wasted_s if found else 0.0

    def is_slow(self, share: ReaderShare) -> bool:
        """Whether the last task of this document took long. Always false for work without a document."""
        found = self._documents.get(share)
        return found is not None and found.is_slow

    def set_slow(self, share: ReaderShare, is_slow: bool) -> None:
        if share.document and (is_slow or share in self._documents):
            self._document(share).is_slow = is_slow

    def _left(self, account: _Account) -> float:
        return float(account.used_s * 0.5 ** ((self._now() - account.at) / _HALF_LIFE_S))

    def _team(self, share: ReaderShare) -> _Account:
        return _account(self._teams, share.team)

    def _document(self, share: ReaderShare) -> _Account:
        return _account(self._documents, share)


def _account(
    known: OrderedDict[str, _Account] | OrderedDict[ReaderShare, _Account], name: str | ReaderShare
) -> _Account:
    found = known.setdefault(name, _Account())  # type: ignore[arg-type]
    known.move_to_end(name)  # type: ignore[arg-type]
    if len(known) > _MOST_KNOWN:
        known.popitem(last=False)
    return found


@dataclass(slots=True, eq=False)
class _Waiter:
    share: ReaderShare
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class FairSlots:
    """`count` slots for all, and `extra` ones for teams that hold none. Belongs to one event loop."""

    def __init__(self, count: int, extra: int, ledger: UsageLedger) -> None:
        self._count = count
        self._extra = extra
        self._ledger = ledger
        self._teams: Counter[str] = Counter()
        self._documents: Counter[ReaderShare] = Counter()
        self._held = 0
        self._waiters: list[_Waiter] = []

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiters)

    async def acquire(self, share: ReaderShare) -> None:
        if self.try_acquire(share):
            return
        waiter = _Waiter(share)
        self._waiters.append(waiter)
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.release(share)
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def try_acquire(self, share: ReaderShare) -> bool:
        """Takes a slot if one is free for this team now."""
        if not self._is_free_for(share):
            return False
        self._hold(share)
        return True

    def release(self, share: ReaderShare) -> None:
        self._held -= 1
        self._teams[share.team] -= 1
        self._documents[share] -= 1
        self._teams += Counter()  # drops those at zero
        self._documents += Counter()
        self._grant()

    def _grant(self) -> None:
        # A waiter may have been cancelled without having noticed yet.
        self._waiters = [one for one in self._waiters if not one.granted.done()]
        while self._waiters:
            allowed = [one for one in self._waiters if self._is_free_for(one.share)]
            if not allowed:
                return
            chosen = min(allowed, key=self._rank)  # the first of equals: the longest-waiting one
            self._waiters.remove(chosen)
            self._hold(chosen.share)
            chosen.granted.set_result(None)

    def _rank(self, waiter: _Waiter) -> tuple[int, float, int, float]:
        share = waiter.share
        team_s, document_s = self._ledger.used_s(share)
        return (self._teams[share.team], team_s, self._documents[share], document_s)

    def _is_free_for(self, share: ReaderShare) -> bool:
        if self._held < self._count:
            return True
        return self._held < self._count + self._extra and share.team not in self._teams

    def _hold(self, share: ReaderShare) -> None:
        self._held += 1
        self._teams[share.team] += 1
        self._documents[share] += 1
