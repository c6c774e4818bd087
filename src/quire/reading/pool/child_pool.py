"""A pool of child processes that may crash, hang or balloon without harm to the other children.

Each child has its own socket and at most one task, so a child killed at any moment, even half-way through an
answer, takes nothing with it but that task. (Pools that share one pipe and its lock between children stop
altogether when a child dies with the lock in hand; that is why this one is not built on such a library.)
"""

from __future__ import annotations

import asyncio
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from quire.errors import PageCrashedError, PageMemoryError, PageTimeoutError, QuireError
from quire.reading.pool.cage import CageState
from quire.reading.pool.child_process import Child, ChildDiedError, ChildOptions, Death, ForkServer
from quire.reading.pool.child_results import MalformedAnswerError, decode_error, decode_result
from quire.reading.pool.forkserver import ChildAnswer

T = TypeVar("T")

_BIRTH_TIMEOUT_S = 60.0  # a fork server that imports the parsers on a cold, busy disk
_ATTEMPTS = 3  # how often a task is started when the machinery, not the task, breaks
_LAST_WORDS = (b"bad_alloc", b"memory allocation of", b"out of memory", b"Cannot allocate memory")
_NEAR_LIMIT = 0.85
_CLASS_NAME = re.compile(r"\w{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions(ChildOptions):
    processes: int
    max_tasks: int = 0  # a child is replaced after this many tasks; 0 means never


class _LostError(Exception):
    """The machinery broke under a task that may have nothing to do with it."""

    def __init__(self, server: ForkServer | None) -> None:
        super().__init__()
        self.server = server


class ChildPool:
    """Runs module-level functions in killable children. Belongs to one event loop."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._free = asyncio.Semaphore(options.processes)
        self._idle: list[Child] = []
        self._births: set[asyncio.Task[Child]] = set()
        self._unclaimed: list[asyncio.Task[Child]] = []  # births that no task is waiting for
        self._server: ForkServer | None = None
        self._former: list[ForkServer] = []
        self._closed = False

    async def run(self, fn: Callable[..., T], /, *args: Any, timeout_s: float) -> T:
        """The result of `fn(*args)`, computed in a child.

        The deadline counts from the moment a child takes the task. Cancelling kills the child. Raises the
        QuireError that `fn` raised, PageTimeoutError, PageMemoryError, or PageCrashedError for anything else.
        """
        payload = pickle.dumps((fn, args), pickle.HIGHEST_PROTOCOL)
        async with self._free:
            for _attempt in range(_ATTEMPTS):
                try:
                    result: T = await self._attempt(fn, payload, timeout_s)
                    return result
                except _LostError as lost:
                    self._drop(lost.server)
            raise PageCrashedError("The reader processes could not be kept running.", retryable=True)

    async def cage(self) -> CageState:
        """Which halves of the cage hold in this pool's children."""
        async with self._free:
            child = await self._take()
            self._idle.append(child)
            return child.cage

    def warm(self) -> None:
        """Start the fork server and all children in the background. Must be called within the event loop."""
        for _ in range(self._options.processes - len(self._idle) - len(self._births)):
            self._offer(self._birth())

    async def close(self) -> None:
        """End every process of the pool; tasks still running fail with PageCrashedError."""
        self._closed = True
        for birth in tuple(self._births):
            birth.cancel()
        self._drop(self._server)
        while self._former:
            await self._former.pop().ended()

    async def _attempt(self, fn: Callable[..., T], payload: bytes, timeout_s: float) -> T:
        child = await self._take()
        try:
            async with asyncio.timeout(timeout_s):
                reply = await child.ask(payload)
        except TimeoutError:
            child.kill()
            raise PageTimeoutError(
                f"Reading took longer than the {timeout_s:g} seconds it may take."
            ) from None
        except ChildDiedError:
            raise await self._post_mortem(child) from None
        except MalformedAnswerError:
            child.kill()
            raise PageCrashedError(_MALFORMED_TEXT) from None
        except BaseException:  # cancelled: no caller waits for what the child is doing
            child.kill()
            raise
        try:
            result: T = _unpack(fn, reply)
        except MalformedAnswerError:
            child.kill()  # it no longer runs our code
            raise PageCrashedError(_MALFORMED_TEXT) from None
        except QuireError:
            self._give_back(child, reply)
            raise
        self._give_back(child, reply)
        return result

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

    async def _take(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            child.close()
        birth = self._unclaimed.pop(0) if self._unclaimed else self._birth()
        try:
            return await asyncio.shield(birth)
        except asyncio.CancelledError:
            self._offer(birth)  # the caller left; the child is as good for the next one
            raise

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
                server = self._server = ForkServer(self._options)
            async with asyncio.timeout(_BIRTH_TIMEOUT_S):
                return await server.fork()
        except (TimeoutError, OSError, ChildDiedError) as error:
            raise _LostError(server) from error

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

    def _give_back(self, child: Child, reply: bytes) -> None:
        worn_out = 0 < self._options.max_tasks <= child.tasks
        if self._closed or worn_out or reply[0] == ChildAnswer.MEMORY:
            child.kill()
        else:
            self._idle.append(child)

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
