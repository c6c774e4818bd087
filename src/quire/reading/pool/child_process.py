"""Children of one fork server, as their parent sees them: a task socket, a file for last words, a folder if caged."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from quire.reading.pool.cage import CageOptions, CageState
from quire.reading.pool.child_folders import ChildFolder, ChildFolders
from quire.reading.pool.child_results import MAX_ANSWER_BYTES, MalformedAnswerError
from quire.reading.pool.forkserver import BEGUN, EXITED, FORK, FORKED, KILL, NOTICE, REQUEST, ChildLimits
from quire.reading.pool.server_process import LENGTH, PARSERS, ServerProcess
from quire.reading.pool.task_clock import TaskClock

_DEATH_TIMEOUT_S = 5.0
_NOTICE_TIMEOUT_S = 60.0  # for one message of a server that may have to wait for a core
_BIRTH_S = 60.0  # CPU time, or a standstill: a fork server imports the parsers, perhaps from a cold disk
_LOOK_EVERY_S = 1.0
_DEMOTED_BY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOptions:
    memory_bytes: int  # what one task may allocate; 0 means no limit
    preload: tuple[str, ...] = PARSERS  # imported once, before children are forked
    # All that children see of the environment: no key or password is there for a hostile document to find.
    environment: Mapping[str, str] = field(default_factory=dict)
    keep_stderr: bool = False  # for debugging: let native libraries write to the terminal
    cage: CageOptions | None = None  # without one, children are confined by memory and time alone


class ChildDiedError(Exception):
    """The child ended in the middle of a task."""


@dataclass(frozen=True, slots=True)
class Death:
    code: int  # the exit code, or minus the signal's number
    grown_kib: int  # how far its resident memory grew beyond a new child's


class Child:
    """One child: its task socket, and the file that takes its standard error."""

    def __init__(
        self, server: ForkServer, stream: socket.socket, stderr_fd: int, folder: ChildFolder | None
    ) -> None:
        self.tasks = 0
        self.folder = folder
        self.server = server
        self._stream = stream
        self._stderr_fd = stderr_fd
        self._loop = asyncio.get_running_loop()
        self.pid = 0
        self.baseline_kib = 0
        self.cage = CageState.NONE
        self.is_demoted = False
        self.exited: asyncio.Future[Death | None] = self._loop.create_future()

    @property
    def alive(self) -> bool:
        return not self.exited.done() and self.server.alive

    def demote(self) -> None:
        """Lowers the CPU priority of the child, for good: only an administrator may raise it again."""
        if not self.is_demoted and self.pid:
            self.is_demoted = True
            with contextlib.suppress(OSError):
                own = os.getpriority(os.PRIO_PROCESS, 0)
                os.setpriority(os.PRIO_PROCESS, self.pid, min(19, own + _DEMOTED_BY))

    async def ask(self, payload: bytes) -> bytes:
        self.tasks += 1
        os.ftruncate(self._stderr_fd, 0)  # noise is kept for one task only, so it can't pile up
        try:
            await self._loop.sock_sendall(self._stream, LENGTH.pack(len(payload)) + payload)
        except OSError as error:
            raise ChildDiedError from error
        return await self.hear()

    async def hear(self) -> bytes:
        """The next answer. Raises MalformedAnswerError for one that is too large, before any of it is read."""
        (size,) = LENGTH.unpack(await self._receive(LENGTH.size))
        if not 0 < size <= MAX_ANSWER_BYTES:
            raise MalformedAnswerError
        return await self._receive(size)

    async def _receive(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            try:
                count = await self._loop.sock_recv_into(self._stream, view)
            except OSError as error:
                raise ChildDiedError from error
            if count == 0:
                raise ChildDiedError
            view = view[count:]
        return bytes(buffer)

    async def death(self) -> Death | None:
        """How the child ended; None if that can't be known because the fork server is gone."""
        try:
            async with asyncio.timeout(_NOTICE_TIMEOUT_S):
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
            if self.folder is not None:
                self.folder.remove()

    def __del__(self) -> None:
        self.close()


class ForkServer:
    """The parent's end of one fork server process."""

    def __init__(self, options: ChildOptions, started: ServerProcess | None = None) -> None:
        """Takes over the process that was started, or starts one. Raises OSError if it has ended."""
        self._loop = asyncio.get_running_loop()
        self._unnamed: list[tuple[Child, asyncio.Future[None]]] = []
        self._children: dict[int, Child] = {}
        self._received = b""
        self._process = started or ServerProcess(
            options.preload, options.environment, keep_stderr=options.keep_stderr
        )
        self._control = self._process.control
        try:
            self._process.tell(asdict(ChildLimits(options.memory_bytes, options.keep_stderr, options.cage)))
            self._folders = ChildFolders(Path(options.cage.temporary)) if options.cage else None
        except OSError:
            self._process.kill()
            raise
        self.alive = True
        self._control.setblocking(False)
        self._loop.add_reader(self._control.fileno(), self._on_notice)

    async def fork(self) -> Child:
        """A child that is ready for a task, however long the server waits for a core to import the parsers.

        Raises ChildDiedError if it has ended, used far more CPU time than that takes, or makes no progress.
        """
        clock = TaskClock(self._process.pid, _BIRTH_S, with_programs=False)
        forking = asyncio.ensure_future(self._fork())
        try:
            while not (await asyncio.wait({forking}, timeout=_LOOK_EVERY_S))[0]:
                clock.sample()
                if clock.is_over():
                    raise ChildDiedError
            return forking.result()
        finally:
            forking.cancel()

    async def _fork(self) -> Child:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stderr_fd = _unnamed_file()
        folder = self._folders.make() if self._folders else None
        child = Child(self, ours, stderr_fd, folder)
        named: asyncio.Future[None] = self._loop.create_future()
        self._unnamed.append((child, named))
        with theirs, _opened(folder) as folder_fds:
            fds = [theirs.fileno(), stderr_fd, *folder_fds]
            socket.send_fds(self._control, [REQUEST.pack(FORK, 0)], fds)
        try:
            await asyncio.shield(named)
            child.cage = CageState((await child.hear())[-1])
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
            named.set_exception(ChildDiedError())
            named.exception()  # a caller that has left must not cause a warning
        for child in self._children.values():
            child.exited.set_result(None)
        self._unnamed.clear()
        self._children.clear()
        if self._folders:
            self._folders.close()

    async def ended(self) -> None:
        """Return when the server's process is gone."""
        await asyncio.to_thread(self._process.wait, _DEATH_TIMEOUT_S)
        if self._folders:
            self._folders.close()

    def _on_notice(self) -> None:
        try:
            received = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self.close()
            self._process.has_ended()  # takes its status, if it is there
            return
        self._received += received
        while len(self._received) >= NOTICE.size:
            kind, pid, code, peak_kib = NOTICE.unpack_from(self._received)
            self._received = self._received[NOTICE.size :]
            if kind == FORKED:
                self._on_forked(pid)
            elif kind == EXITED and (child := self._children.pop(pid, None)) is not None:
                child.exited.set_result(Death(code, peak_kib - child.baseline_kib))

    def _on_forked(self, pid: int) -> None:
        child, named = self._unnamed.pop(0)  # the server answers in the order it was asked
        if pid < 0:
            named.set_exception(ChildDiedError())
            named.exception()
            return
        child.pid = pid
        child.baseline_kib = _resident_kib(pid)
        self._children[pid] = child
        named.set_result(None)


@contextlib.contextmanager
def _opened(folder: ChildFolder | None) -> Iterator[list[int]]:
    if folder is None:
        yield []
        return
    fd = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield [fd]
    finally:
        os.close(fd)


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
