"""The far side of the child pool: a warm process that forks children, and the loop a child runs.

The parent (`quire.reading.pool.child_process`) starts one fork server. It imports the native parsers once and then only
forks, so that a child is ready in milliseconds and shares the parsers' memory with its siblings. Messages on
the control socket have a fixed size, but for the first one; a task socket carries frames of `LENGTH` followed by
that many bytes.

    parent → server   first a frame with the limits of children as JSON; then
                      FORK with descriptors (task socket, standard error, the child's folder if caged), KILL pid
    server → parent   FORKED pid, EXITED pid status peak_kib
    parent → child    pickle of (function, arguments)
    child → file      BEGUN when it takes a task into hand, then whatever native code prints
    child → parent    one byte of `ChildAnswer`, then MessagePack, never a pickle; first READY with CageState

Nothing survives the parent: the server leaves when its control socket closes, and the kernel kills the
children with the server. Everything here runs in processes that parse hostile input, so it imports little.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pickle
import resource
import selectors
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from quire.errors import QuireError
from quire.reading.pool.cage import CageOptions, CageState, enter
from quire.reading.pool.child_folders import TEMPORARY
from quire.reading.pool.child_results import encode_error, encode_result
from quire.reading.pool.server_process import LENGTH

REQUEST = struct.Struct("<ci")
NOTICE = struct.Struct("<ciiq")
FORK, KILL = b"F", b"K"
FORKED, EXITED = b"f", b"x"
BEGUN = b"\x01"

_PR_SET_PDEATHSIG = 1
_COLLECTED_EVERY = (10_000, 3, 3)
"""New objects before the garbage collector looks at them. Pages leave no cycles, so that it looks in vain; that all
generations are looked at after some 100,000 objects, as usual, bounds the memory of documents that do.
"""


class ChildAnswer(IntEnum):
    READY = 0
    RESULT = 1
    ERROR = 2  # a QuireError: its class, text and retry policy
    MEMORY = 3  # the memory limit was met
    CRASHED = 4  # any other exception: the name of its class, never its text


@dataclass(frozen=True, slots=True)
class ChildLimits:
    memory_bytes: int  # above what a warm child already uses
    keep_stderr: bool
    cage: CageOptions | None = None


def serve(control_fd: int, parent_pid: int, preload: Sequence[str]) -> NoReturn:
    """Run the fork server on `control_fd` until the other end closes."""
    die_with_parent(parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in preload:
        # A parser that can't be imported here fails in the task that needs it, where it can be reported.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # The collector would touch, and so unshare, every warm page in every child. Imports leave little to collect.
    gc.freeze()
    control = socket.socket(fileno=control_fd)
    if (limits := _told_limits(control)) is not None:
        _Server(control, limits).run()
    os._exit(0)


def _told_limits(control: socket.socket) -> ChildLimits | None:
    """The limits that the parent sends; None if it has left."""
    try:
        told = receive_frame(control)
    except OSError:
        return None
    if told is None:
        return None
    limits = json.loads(told)
    asked = limits.pop("cage")
    cage = CageOptions(**asked) if asked else None
    if cage is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = cage.temporary
    return ChildLimits(**limits, cage=cage)


class _Server:
    def __init__(self, control: socket.socket, limits: ChildLimits) -> None:
        self._control = control
        self._limits = limits
        self._children: set[int] = set()
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._wake_r, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._wake_r in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_r, 4096)
                    self._reap()
                if self._control in ready and not self._obey(selector):
                    return

    def _obey(self, selector: selectors.BaseSelector) -> bool:
        """Carry out one request; False when the parent is gone."""
        try:
            message, fds, _flags, _address = socket.recv_fds(self._control, REQUEST.size, 3)
            while 0 < len(message) < REQUEST.size:
                message += self._control.recv(REQUEST.size - len(message)) or b"\0" * REQUEST.size
        except OSError:
            return False
        if len(message) != REQUEST.size:
            return False
        kind, pid = REQUEST.unpack(message)
        if kind == FORK and len(fds) == (3 if self._limits.cage else 2):
            self._fork(fds, selector)
        elif kind == KILL and pid in self._children:
            # Only this process reaps, so a pid in the set can't belong to another process.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True

    def _fork(self, fds: Sequence[int], selector: selectors.BaseSelector) -> None:
        server_pid = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            pid = -1  # out of processes: the parent sees the task socket close, and this notice
        if pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                selector.close()
                self._control.close()
                os.close(self._wake_r)
                os.close(self._wake_w)
                run_child(socket.socket(fileno=fds[0]), fds[1], server_pid, self._limits, fds[2:])
            finally:
                os._exit(1)
        for fd in fds:
            os.close(fd)
        if pid > 0:
            self._children.add(pid)
        self._tell(FORKED, pid, 0, 0)

    def _reap(self) -> None:
        while self._children:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._children.discard(pid)
            self._tell(EXITED, pid, os.waitstatus_to_exitcode(status), _peak_kib(usage.ru_maxrss))

    def _tell(self, kind: bytes, pid: int, code: int, peak_kib: int) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(NOTICE.pack(kind, pid, code, peak_kib))


def run_child(
    tasks: socket.socket, stderr_fd: int, server_pid: int, limits: ChildLimits, folder_fd: Sequence[int]
) -> None:
    """Answer tasks until the parent closes the socket."""
    die_with_parent(server_pid)
    if not limits.keep_stderr:
        os.dup2(stderr_fd, 2)
    _limit_memory(limits.memory_bytes)
    gc.set_threshold(*_COLLECTED_EVERY)
    state = CageState.NONE
    if limits.cage and folder_fd and sys.platform == "linux":
        state = enter(limits.cage, _own_folder(folder_fd[0]))
    send_frame(tasks, bytes([ChildAnswer.READY, state]))
    while (payload := receive_frame(tasks)) is not None:
        os.write(stderr_fd, BEGUN)
        send_frame(tasks, answer(payload))


def _own_folder(fd: int) -> Path:
    """The folder of this child, whose part for temporary files becomes the working folder."""
    folder = Path(f"/proc/self/fd/{fd}").readlink()
    os.close(fd)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / TEMPORARY)
    os.chdir(folder / TEMPORARY)
    return folder


def answer(payload: bytes) -> bytes:
    """Run the pickled call and describe how it ended; the texts of foreign exceptions stay here."""
    try:
        function, arguments = pickle.loads(payload)  # noqa: S301 - written by our own parent
        del payload
        return bytes([ChildAnswer.RESULT]) + encode_result(function(*arguments))
    except QuireError as error:
        return bytes([ChildAnswer.ERROR]) + encode_error(error)
    except MemoryError:
        return bytes([ChildAnswer.MEMORY])
    except BaseException as error:  # sys.exit() in a parser must not end the child without an answer
        kind = ChildAnswer.MEMORY if _is_memory(error) else ChildAnswer.CRASHED
        return bytes([kind]) + type(error).__name__.encode()


def _is_memory(error: BaseException) -> bool:
    """MuPDF has no class for a failed allocation; it says so, always in these words, in a generic one."""
    return any(
        "malloc" in str(one) and "failed" in str(one) for one in (error, error.__cause__, error.__context__)
    )


def send_frame(stream: socket.socket, content: bytes) -> None:
    stream.sendall(LENGTH.pack(len(content)))
    stream.sendall(content)


def receive_frame(stream: socket.socket) -> bytes | None:
    """The next frame, or None when the other end has closed."""
    header = _receive(stream, LENGTH.size)
    return None if header is None else _receive(stream, LENGTH.unpack(header)[0])


def _receive(stream: socket.socket, size: int) -> bytes | None:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = stream.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return bytes(buffer)


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it ended before prctl took effect
        os._exit(0)


def _limit_memory(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the document
    if sys.platform == "linux" and memory_bytes > 0:
        allowed = data_bytes() + memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def data_bytes() -> int:
    """The private writable memory of this process, the quantity that RLIMIT_DATA limits (Linux)."""
    pages = int(Path("/proc/self/statm").read_bytes().split()[5])
    return pages * resource.getpagesize()


def _peak_kib(ru_maxrss: int) -> int:
    return ru_maxrss // 1024 if sys.platform == "darwin" else ru_maxrss
