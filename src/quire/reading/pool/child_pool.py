"""A pool of child processes that may crash, hang or balloon without harm to the other children.

Tasks start in the quick lane. A task that runs long is demoted: its child gets a lower CPU priority and a slot of the
slow lane, and its quick slot is free for others. If the slow lane is full and others wait, the child is killed and the
task starts again in the slow lane. So quick work never waits behind slow pages.

Each child has its own socket and at most one task, so a child killed at any moment, even half-way through an
answer, takes nothing with it but that task. (Pools that share one pipe and its lock between children stop
altogether when a child dies with the lock in hand; that is why this one is not built on such a library.)
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from quire.errors import PageCrashedError, PageMemoryError, PageTimeoutError, QuireError
from quire.reading.pool.cage import CAGE_HALVES, CageState
from quire.reading.pool.child_folders import RefusedFileError
from quire.reading.pool.child_process import Child, ChildDiedError, ChildOptions, Death, ForkServer
from quire.reading.pool.child_results import MalformedAnswerError, decode_error, decode_result
from quire.reading.pool.child_task import ChildTask, OnSpent
from quire.reading.pool.fair_slots import FairSlots, ReaderShare, UsageLedger, current_share
from quire.reading.pool.forkserver import ChildAnswer
from quire.reading.pool.idle_timer import IdleTimer
from quire.reading.pool.server_process import ServerProcess
from quire.reading.pool.task_clock import TaskClock

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

_ATTEMPTS = 3  # how often a task is started when the machinery, not the task, breaks
_LAST_WORDS = (b"bad_alloc", b"memory allocation of", b"out of memory", b"Cannot allocate memory")
_NEAR_LIMIT = 0.85
_REASONS = {PageTimeoutError: "timeout", PageMemoryError: "memory", PageCrashedError: "crash"}
_CLASS_NAME = re.compile(r"\w{1,100}")
_QUICK_S = 0.5  # a task that runs or sleeps for longer is demoted; waiting for a core does not count
_LOOK_EVERY_S = 0.25
_ADDED_BYTES = 1 << 30  # how much larger than its document a result may be, where memory has no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions(ChildOptions):
    processes: int
    max_tasks: int = 0  # a child is replaced after this many tasks; 0 means never
    slow_processes: int | None = (
        None  # further children for tasks that run long; None: as many as `processes`
    )
    idle_timeout_s: float = 0  # a pool without tasks ends its processes after this time; 0 means never


class _LostError(Exception):
    """The machinery broke under a task that may have nothing to do with it."""

    def __init__(self, server: ForkServer | None) -> None:
        super().__init__()
        self.server = server


class _OverdueError(Exception):
    """The task has used its time."""


class _PreemptedError(Exception):
    """The task ran long while others waited for its slot; it has to start again in the slow lane."""


class _Hold:
    """The slot that a running task occupies. A demoted task exchanges its quick slot for a slow one."""

    def __init__(self, slots: FairSlots, share: ReaderShare) -> None:
        self._slots = slots
        self._share = share

    def move(self, slots: FairSlots) -> None:
        """To a slot of the other lane, which was acquired before."""
        self._slots.release(self._share)
        self._slots = slots

    def release(self) -> None:
        self._slots.release(self._share)


class ChildPool:
    """Runs module-level functions in killable children. Belongs to one event loop."""

    def __init__(self, options: PoolOptions, started: ServerProcess | None = None) -> None:
        """`started` becomes the first fork server; it must fit the options. Its starter ends it if it is not needed."""
        self._options = options
        self._started = started
        slow = options.processes if options.slow_processes is None else options.slow_processes
        self.ledger = UsageLedger(time.monotonic)
        self._quick = FairSlots(options.processes, 1 if slow else 0, self.ledger)
        self._slow = FairSlots(slow, (slow + 1) // 2, self.ledger)
        self._has_slow_lane = slow > 0
        self._idle: list[Child] = []
        self._births: set[asyncio.Task[Child]] = set()
        self._unclaimed: list[asyncio.Task[Child]] = []  # births that no task is waiting for
        self._server: ForkServer | None = None
        self._former: list[ForkServer] = []
        self._timer = IdleTimer(options.idle_timeout_s, self._end_processes, lambda: bool(self._births))
        self._reaping: asyncio.Task[None] | None = None
        self._closed = False
        self._cage_was_reported = False
        self._counts = {"started": 0, "timeout": 0, "memory": 0, "crash": 0}

    def counts(self) -> Mapping[str, int]:
        """Children started, and tasks that failed with their child, by reason: for metrics."""
        return self._counts

    async def run(
        self,
        fn: Callable[..., T],
        /,
        *args: Any,
        timeout_s: float,
        slow: bool = False,
        on_spent: OnSpent = bool,
    ) -> T:
        """The result of `fn(*args)`, computed in a child.

        If the first parameter of `fn` is called `path`, it is the document: a caged child finds this file and no other.
        A parameter `target` is the path of an existing file that gets what `fn` writes, unless it fails.
        The time counts from the moment a child takes the task, and is CPU time of the child; `on_spent` is told it.
        `slow` work, like OCR, starts in the slow lane. Cancelling kills the child. Raises the QuireError that `fn`
        raised, PageTimeoutError, PageMemoryError, or PageCrashedError for anything else.
        """
        task = ChildTask(fn, args, timeout_s, current_share(), on_spent)
        slow = self._has_slow_lane and (slow or self.ledger.is_slow(task.share))
        self._timer.task_begins()
        try:
            result: T = await self._complete(task, slow)
            return result
        except (PageTimeoutError, PageMemoryError, PageCrashedError) as error:
            self._counts[_REASONS[type(error)]] += 1
            raise
        finally:
            self._timer.task_ends()

    async def cage(self) -> CageState:
        """Which halves of the cage hold in this pool's children."""
        share = current_share()
        await self._quick.acquire(share)
        try:
            child = await self._take()
            self._idle.append(child)
            return child.cage
        finally:
            self._quick.release(share)

    def warm(self) -> None:
        """Start the fork server and all children in the background. Must be called within the event loop."""
        for _ in range(self._options.processes - len(self._idle) - len(self._births)):
            self._offer(self._birth())

    async def close(self) -> None:
        """End every process of the pool; tasks still running fail with PageCrashedError."""
        self._closed = True
        self._timer.cancel()
        for birth in tuple(self._births):
            birth.cancel()
        self._drop(self._server)
        if self._reaping is not None:
            await self._reaping
        await self._reap()

    async def _complete(self, task: ChildTask, slow: bool) -> Any:
        for _attempt in range(_ATTEMPTS):
            try:
                try:
                    return await self._in_lane(task, slow)
                except _PreemptedError:
                    slow = True
                    return await self._in_lane(task, slow)
            except _LostError as lost:
                self._drop(lost.server)
        raise PageCrashedError("The reader processes could not be kept running.", retryable=True)

    async def _in_lane(self, task: ChildTask, slow: bool) -> Any:
        slots = self._slow if slow else self._quick
        await slots.acquire(task.share)
        hold = _Hold(slots, task.share)
        try:
            child = await self._take(demoted=slow)
            if slow:
                child.demote()
            return await self._attempt(task, child, hold)
        finally:
            hold.release()

    async def _attempt(self, task: ChildTask, child: Child, hold: _Hold) -> Any:
        """The result of one child. Raises what `run` raises, _LostError and _PreemptedError.

        A child may live on for a moment after its fork server, while its folder is removed: it then says that there
        is no such document. What it answers from that moment on is not believed.
        """
        try:
            payload = await task.payload(child.folder)
            reply = await self._reply(task, payload, child, hold)
            if not child.server.alive:
                raise _LostError(child.server)
            if child.folder is not None and reply[0] == ChildAnswer.RESULT:
                await task.deliver(child.folder, self._options.memory_bytes or _ADDED_BYTES)
        except _OverdueError:
            child.kill()
            raise PageTimeoutError(_timeout_text(task.timeout_s)) from None
        except ChildDiedError:
            try:
                cause = await self._post_mortem(child)
            finally:
                child.close()
            raise cause from None
        except MalformedAnswerError:
            child.kill()
            raise PageCrashedError(_MALFORMED_TEXT) from None
        except (RefusedFileError, OSError) as error:
            child.kill()
            raise _file_failure(child, error) from error
        except BaseException:  # cancelled, preempted or lost: no caller waits for what the child is doing
            child.kill()
            raise
        is_clean = child.folder is None or child.folder.hide()
        try:
            result = _unpack(task.function, reply)
        except MalformedAnswerError:
            child.kill()  # it no longer runs our code
            raise PageCrashedError(_MALFORMED_TEXT) from None
        except QuireError:
            self._give_back(child, reply, is_clean)
            raise
        self._give_back(child, reply, is_clean)
        return result

    async def _reply(self, task: ChildTask, payload: bytes, child: Child, hold: _Hold) -> bytes:
        """The answer of the child. Raises _OverdueError when the task's time is over, and _PreemptedError."""
        clock = TaskClock(child.pid, task.timeout_s)
        asking = asyncio.ensure_future(child.ask(payload))
        pause_s, has_answer = min(_QUICK_S, task.timeout_s), False
        try:
            while True:
                await asyncio.wait({asking}, timeout=pause_s)
                if asking.done():
                    reply = asking.result()
                    has_answer = True
                    return reply
                clock.sample()
                if clock.is_over():
                    raise _OverdueError
                if clock.used_s >= _QUICK_S:
                    self._demote(task, child, hold)
                pause_s = min(_LOOK_EVERY_S, max(0.01, task.timeout_s - clock.wall_s))
        finally:
            asking.cancel()
            is_known = clock.wall_s >= _QUICK_S and child.alive
            spent_s = clock.spent_s if is_known else clock.wall_s
            self.ledger.charge(task.share, spent_s, wasted=not has_answer)
            task.on_spent(spent_s)
            self.ledger.set_slow(task.share, clock.used_s >= _QUICK_S)

    def _demote(self, task: ChildTask, child: Child, hold: _Hold) -> None:
        """Takes the quick slot from a task that runs long. Raises _PreemptedError if there is no other slot for it."""
        if child.is_demoted or not self._has_slow_lane:
            return
        if self._slow.try_acquire(task.share):
            child.demote()
            hold.move(self._slow)
        elif self._quick.has_waiters:
            raise _PreemptedError

    async def _post_mortem(self, child: Child) -> Exception:
        death = await child.death()
        if death is None:
            return _LostError(child.server)
        if not child.has_begun():  # it was killed while idle, and the pool had not noticed yet
            return _LostError(None)
        if _was_memory(death, child.last_words(), self._options.memory_bytes):
            return PageMemoryError(_MEMORY_TEXT)
        ending = f"signal {-death.code}" if death.code < 0 else f"code {death.code}"
        return PageCrashedError(f"The reader process ended unexpectedly ({ending}).")

    async def _take(self, *, demoted: bool = False) -> Child:
        while (child := self._idle_child(demoted)) is not None:
            if child.alive:
                return child
            child.close()
        birth = self._unclaimed.pop(0) if self._unclaimed else self._birth()
        try:
            return await asyncio.shield(birth)
        except asyncio.CancelledError:
            self._offer(birth)  # the caller left; the child is as good for the next one
            raise

    def _idle_child(self, demoted: bool) -> Child | None:
        """A demoted child can't get its priority back, so each lane has its own."""
        for at in range(len(self._idle) - 1, -1, -1):
            if self._idle[at].is_demoted == demoted:
                return self._idle.pop(at)
        return None

    def _birth(self) -> asyncio.Task[Child]:
        birth = asyncio.create_task(self._bear(), name="child-pool-birth")
        self._births.add(birth)
        birth.add_done_callback(self._births.discard)
        return birth

    async def _bear(self) -> Child:
        if self._closed:
            raise PageCrashedError("The reader processes are being shut down.", retryable=True)
        server = self._server
        try:
            if server is None or not server.alive:
                self._drop(server)
                started, self._started = self._started, None
                server = self._server = ForkServer(self._options, started)
            child = await server.fork()
        except (OSError, ChildDiedError) as error:
            raise _LostError(server) from error
        self._counts["started"] += 1
        self._report_cage(child.cage)
        return child

    def _report_cage(self, state: CageState) -> None:
        """Logs once what this kernel can't do."""
        missing = CAGE_HALVES & ~state
        if self._options.cage is None or not missing or self._cage_was_reported:
            return
        self._cage_was_reported = True
        _LOG.warning(
            "reader processes are not fully confined: this kernel lacks a part of the cage; see `quire doctor`",
            extra={"missing": missing.name},
        )

    def _offer(self, birth: asyncio.Task[Child]) -> None:
        self._unclaimed.append(birth)
        birth.add_done_callback(self._adopt)

    def _adopt(self, birth: asyncio.Task[Child]) -> None:
        if birth not in self._unclaimed:
            return
        self._unclaimed.remove(birth)
        if birth.cancelled() or birth.exception() is not None:
            return  # the next caller that needs a child starts again and reports what is wrong
        child = birth.result()
        if self._closed:
            child.kill()
        else:
            self._idle.append(child)

    def _give_back(self, child: Child, reply: bytes, is_clean: bool) -> None:
        worn_out = not is_clean or 0 < self._options.max_tasks <= child.tasks
        alike = sum(one.is_demoted == child.is_demoted for one in self._idle)
        if self._closed or worn_out or reply[0] == ChildAnswer.MEMORY or alike >= self._options.processes:
            child.kill()
        else:
            self._idle.append(child)

    def _end_processes(self) -> None:
        """The next task starts a new server."""
        self._drop(self._server)
        self._reaping = asyncio.create_task(self._reap(), name="child-pool-reaping")

    async def _reap(self) -> None:
        """Returns when the processes of all former servers are gone."""
        while self._former:
            await self._former.pop().ended()

    def _drop(self, server: ForkServer | None) -> None:
        """Let go of a server; one that has already been replaced changes nothing."""
        if server is None or server is not self._server:
            return
        self._server = None
        self._former.append(server)
        for child in self._idle:
            child.close()
        self._idle.clear()
        server.close()


_MALFORMED_TEXT = "The reader process sent an answer that is none of ours."


def _file_failure(child: Child, error: Exception) -> Exception:
    """Why a file could not be passed to or from the child."""
    if not child.server.alive:
        return _LostError(child.server)
    if isinstance(error, OSError):
        text = f"A file could not be passed to or from a reader process: {error.strerror}."
        return PageCrashedError(text, retryable=True)
    return PageCrashedError(str(error))


def _timeout_text(timeout_s: float) -> str:
    return f"Time ran out: reading needed more than the {timeout_s:g} seconds of CPU time that it may take."


_MEMORY_TEXT = "Reading needed more memory than one page may use."


def _was_memory(death: Death, last_words: bytes, memory_bytes: int) -> bool:
    """Whether an abort was a failed allocation: native code either says so, or had filled its allowance."""
    if death.code >= 0 or memory_bytes <= 0:
        return False
    return death.grown_kib * 1024 > memory_bytes * _NEAR_LIMIT or any(
        mark in last_words for mark in _LAST_WORDS
    )


def _unpack(function: Callable[..., Any], reply: bytes) -> Any:
    """Raises the error that the reply describes, or MalformedAnswerError."""
    kind, content = reply[0], memoryview(reply)[1:]
    if kind == ChildAnswer.RESULT:
        return decode_result(function, content)
    if kind == ChildAnswer.ERROR:
        raise decode_error(content)
    if kind == ChildAnswer.MEMORY:
        raise PageMemoryError(_MEMORY_TEXT)
    if kind == ChildAnswer.CRASHED and _CLASS_NAME.fullmatch(
        name := bytes(content[:100]).decode(errors="replace")
    ):
        raise PageCrashedError(f"The reader failed with {name}.")
    raise MalformedAnswerError
