"""A pool of child processes that may crash, hang or balloon without harm to anybody else.

Each child has its own socket and at most one task, so a child killed at any moment, even half-way through an
answer, takes nothing with it but that task. (Pools that share one pipe and its lock between children stop
altogether when a child dies with the lock in hand; that is why this one is not built on such a library.)
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from quire.errors import PageCrashedError, PageMemoryError, PageTimeoutError, QuireError
from quire.reading.forkserver import (
    BEGUN,
    EXITED,
    FORK,
    FORKED,
    KILL,
    LENGTH,
    NOTICE,
    REQUEST,
    Answer,
)

T = TypeVar("T")

_BIRTH_TIMEOUT_S = 60.0  # a fork server that imports the parsers on a cold, busy disk
_DEATH_TIMEOUT_S = 5.0
_ATTEMPTS = 3  # how often a task is started when the machinery, not the task, breaks
_LAST_WORDS = (b"bad_alloc", b"memory allocation of", b"out of memory", b"Cannot allocate memory")
_NEAR_LIMIT = 0.85
_START = (
    "import json, sys; a = json.loads(sys.argv[1]); sys.path[:] = a['sys_path'];"
    "from quire.reading.forkserver import ChildLimits, serve;"
    "serve(a['control'], a['parent'], a['preload'], ChildLimits(a['memory_bytes'], a['keep_stderr']))"
)


@dataclass(frozen=True, slots=True)
class PoolOptions:
    processes: int
    memory_bytes: int  # what one task may allocate; 0 means no limit
    max_tasks: int = 0  # a child is replaced after this many tasks; 0 means never
    preload: tuple[str, ...] = ("quire.reading.warm",)  # imported once, before children are forked
    # All that children see of the environment: no key or password is there for a hostile document to find.
    environment: Mapping[str, str] = field(default_factory=dict)
    keep_stderr: bool = False  # for debugging: let native libraries write to the terminal


class _LostError(Exception):
    """The machinery broke under a task that may have nothing to do with it."""

    def __init__(self, server: _ForkServer | None) -> None:
        super().__init__()
        self.server = server


class _ChildDiedError(Exception):
    """The child ended in the middle of a task."""


class ChildPool:
    """Runs module-level functions in killable children. Belongs to one event loop."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._free = asyncio.Semaphore(options.processes)
        self._idle: list[_Child] = []
        self._births: set[asyncio.Task[_Child]] = set()
        self._unclaimed: list[asyncio.Task[_Child]] = []  # births that no task is waiting for
        self._server: _ForkServer | None = None
        self._former: list[_ForkServer] = []
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
                    reply = await self._attempt(payload, timeout_s)
                    break
                except _LostError as lost:
                    self._drop(lost.server)
            else:
                raise PageCrashedError("The reader processes could not be kept running.", retryable=True)
        result: T = _unpack(reply)
        return result

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

    async def _attempt(self, payload: bytes, timeout_s: float) -> bytes:
        child = await self._take()
        try:
            async with asyncio.timeout(timeout_s):
                reply = await child.ask(payload)
        except TimeoutError:
            child.kill()
            raise PageTimeoutError(
                f"Reading took longer than the {timeout_s:g} seconds it may take."
            ) from None
        except _ChildDiedError:
            raise await self._post_mortem(child) from None
        except BaseException:  # cancelled: whatever the child is doing, nobody waits for it
            child.kill()
            raise
        self._give_back(child, reply)
        return reply

    async def _post_mortem(self, child: _Child) -> Exception:
        death = await child.death()
        if death is None:
            return _LostError(child.server)
        if not child.has_begun():  # it was killed while idle, and nobody had noticed yet
            return _LostError(None)
        if _was_memory(death, child.last_words(), self._options.memory_bytes):
            return PageMemoryError(_MEMORY_TEXT)
        ending = f"signal {-death.code}" if death.code < 0 else f"code {death.code}"
        return PageCrashedError(f"The reader process ended unexpectedly ({ending}).")

    async def _take(self) -> _Child:
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

    def _birth(self) -> asyncio.Task[_Child]:
        birth = asyncio.create_task(self._bear(), name="child-pool-birth")
        self._births.add(birth)
        birth.add_done_callback(self._births.discard)
        return birth

    async def _bear(self) -> _Child:
        if self._closed:
            raise PageCrashedError("The reader processes are being shut down.", retryable=True)
        server = self._server
        try:
            if server is None or not server.alive:
                self._drop(server)
                server = self._server = _ForkServer(self._options)
            async with asyncio.timeout(_BIRTH_TIMEOUT_S):
                return await server.fork()
        except (TimeoutError, OSError, _ChildDiedError) as error:
            raise _LostError(server) from error

    def _offer(self, birth: asyncio.Task[_Child]) -> None:
        self._unclaimed.append(birth)
        birth.add_done_callback(self._adopt)

    def _adopt(self, birth: asyncio.Task[_Child]) -> None:
        if birth not in self._unclaimed:
            return
        self._unclaimed.remove(birth)
        if birth.cancelled() or birth.exception() is not None:
            return  # whoever needs a child next starts again and reports what is wrong
        child = birth.result()
        if self._closed:
            child.kill()
        else:
            self._idle.append(child)

    def _give_back(self, child: _Child, reply: bytes) -> None:
        worn_out = 0 < self._options.max_tasks <= child.tasks
        if self._closed or worn_out or reply[0] == Answer.MEMORY:
            child.kill()
        else:
            self._idle.append(child)

    def _drop(self, server: _ForkServer | None) -> None:
        """Let go of a server; one that has already been replaced changes nothing."""
        if server is None or server is not self._server:
            return
        self._server = None
        self._former.append(server)
        for child in self._idle:
            child.close()
        self._idle.clear()
        server.close()


@dataclass(frozen=True, slots=True)
class _Death:
    code: int  # the exit code, or minus the signal's number
    grown_kib: int  # how far its resident memory grew beyond a new child's


_MEMORY_TEXT = "Reading needed more memory than one page may use."


def _was_memory(death: _Death, last_words: bytes, memory_bytes: int) -> bool:
    """Whether an abort was a failed allocation: native code either says so, or had filled its allowance."""
    if death.code >= 0 or memory_bytes <= 0:
        return False
    return death.grown_kib * 1024 > memory_bytes * _NEAR_LIMIT or any(
        mark in last_words for mark in _LAST_WORDS
    )


def _unpack(reply: bytes) -> Any:
    kind, content = reply[0], memoryview(reply)[1:]
    if kind == Answer.RESULT:
        return pickle.loads(content)  # noqa: S301 - written by our own child
    if kind == Answer.ERROR:
        error = pickle.loads(content)  # noqa: S301 - written by our own child
        if isinstance(error, QuireError):
            raise error
    if kind == Answer.MEMORY:
        raise PageMemoryError(_MEMORY_TEXT)
    raise PageCrashedError(f"The reader failed with {bytes(content).decode(errors='replace')}.")


class _Child:
    """One child: its task socket, and the file that takes its standard error."""

    def __init__(self, server: _ForkServer, stream: socket.socket, stderr_fd: int) -> None:
        self.tasks = 0
        self.server = server
        self._stream = stream
        self._stderr_fd = stderr_fd
        self._loop = asyncio.get_running_loop()
        self.pid = 0
        self.baseline_kib = 0
        self.exited: asyncio.Future[_Death | None] = self._loop.create_future()

    @property
    def alive(self) -> bool:
        return not self.exited.done() and self.server.alive

    async def ask(self, payload: bytes) -> bytes:
        self.tasks += 1
        os.ftruncate(self._stderr_fd, 0)  # noise is kept for one task only, so it can't pile up
        try:
            await self._loop.sock_sendall(self._stream, LENGTH.pack(len(payload)) + payload)
        except OSError as error:
            raise _ChildDiedError from error
        return await self.hear()

    async def hear(self) -> bytes:
        (size,) = LENGTH.unpack(await self._receive(LENGTH.size))
        return await self._receive(size)

    async def _receive(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            try:
                count = await self._loop.sock_recv_into(self._stream, view)
            except OSError as error:
                raise _ChildDiedError from error
            if count == 0:
                raise _ChildDiedError
            view = view[count:]
        return bytes(buffer)

    async def death(self) -> _Death | None:
        """How the child ended; None if that can't be known because the fork server is gone."""
        try:
            async with asyncio.timeout(_DEATH_TIMEOUT_S):
                return await asyncio.shield(self.exited)
        except TimeoutError:
            return None
        finally:
            self._stream.close()

    def has_begun(self) -> bool:
        """Whether the child had taken its task into hand."""
        return self._stderr_fd >= 0 and os.pread(self._stderr_fd, 1, 0) == BEGUN

    def last_words(self) -> bytes:
        if self._stderr_fd < 0:
            return b""
        return os.pread(self._stderr_fd, 65536, max(0, os.fstat(self._stderr_fd).st_size - 65536))

    def kill(self) -> None:
        self.server.kill(self.pid)
        self.close()

    def close(self) -> None:
        self._stream.close()
        if self._stderr_fd >= 0:
            os.close(self._stderr_fd)
            self._stderr_fd = -1

    def __del__(self) -> None:
        self.close()


class _ForkServer:
    """The parent's end of one fork server process."""

    def __init__(self, options: PoolOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self._control, theirs = socket.socketpair()
        self._unnamed: list[tuple[_Child, asyncio.Future[None]]] = []
        self._children: dict[int, _Child] = {}
        self._received = b""
        self.alive = True
        start = {
            "sys_path": sys.path,
            "control": theirs.fileno(),
            "parent": os.getpid(),
            "preload": list(options.preload),
            "memory_bytes": options.memory_bytes,
            "keep_stderr": options.keep_stderr,
        }
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own text
                [sys.executable, "-P", "-c", _START, json.dumps(start)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if options.keep_stderr else subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={
                    "TMPDIR": tempfile.gettempdir(),
                    "PYTHONUTF8": "1",
                    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime reports to its maker unless it is told not to
                    **options.environment,
                },
                start_new_session=True,  # Ctrl-C in a terminal is for the parent alone
            )
        self._control.setblocking(False)
        self._loop.add_reader(self._control.fileno(), self._on_notice)

    async def fork(self) -> _Child:
        """A child that is ready for a task."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stderr_fd = _unnamed_file()
        child = _Child(self, ours, stderr_fd)
        named: asyncio.Future[None] = self._loop.create_future()
        self._unnamed.append((child, named))
        with theirs:
            socket.send_fds(self._control, [REQUEST.pack(FORK, 0)], [theirs.fileno(), stderr_fd])
        try:
            await asyncio.shield(named)
            await child.hear()
        except BaseException:
            if child.pid:
                child.kill()
            raise
        return child

    def kill(self, pid: int) -> None:
        if self.alive and pid in self._children:
            with contextlib.suppress(OSError):
                self._control.send(REQUEST.pack(KILL, pid))

    def close(self) -> None:
        """Let go of the server; it ends, and its children with it."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        for _child, named in self._unnamed:
            named.set_exception(_ChildDiedError())
            named.exception()  # a caller that has left must not cause a warning
        for child in self._children.values():
            child.exited.set_result(None)
        self._unnamed.clear()
        self._children.clear()

    async def ended(self) -> None:
        """Return when the server's process is gone."""
        try:
            await asyncio.to_thread(self._process.wait, _DEATH_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # it is stuck in an import
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _on_notice(self) -> None:
        try:
            received = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self.close()
            self._process.poll()
            return
        self._received += received
        while len(self._received) >= NOTICE.size:
            kind, pid, code, peak_kib = NOTICE.unpack_from(self._received)
            self._received = self._received[NOTICE.size :]
            if kind == FORKED:
                self._on_forked(pid)
            elif kind == EXITED and (child := self._children.pop(pid, None)) is not None:
                child.exited.set_result(_Death(code, peak_kib - child.baseline_kib))

    def _on_forked(self, pid: int) -> None:
        child, named = self._unnamed.pop(0)  # the server answers in the order it was asked
        if pid < 0:
            named.set_exception(_ChildDiedError())
            named.exception()
            return
        child.pid = pid
        child.baseline_kib = _resident_kib(pid)
        self._children[pid] = child
        named.set_result(None)


def _unnamed_file() -> int:
    if sys.platform == "linux":
        fd = os.memfd_create("quire-child-stderr", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_RDWR | os.O_APPEND)
    return fd


def _resident_kib(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:  # noqa: PTH123 - on the path of every fork
            return int(statm.read().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)
    except (OSError, ValueError, IndexError):
        return 0
