"""What the tests ask children to do. A module of its own, so that children can import it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from quire.errors import DamagedError, PasswordWrongError


def echo(value: Any) -> Any:
    return value


def pid() -> int:
    return os.getpid()


def parent_pid() -> int:
    return os.getppid()


def segfault() -> None:
    ctypes.string_at(0)


def leave(code: int) -> NoReturn:
    os._exit(code)


def spin(mark: str = "") -> NoReturn:
    """Never return to Python's signal handling: sleep inside one native call."""
    if mark:
        Path(mark).write_text(str(os.getpid()))
    while True:
        ctypes.CDLL(None).pause()


def wait_for(path: str) -> int:
    while not Path(path).exists():
        time.sleep(0.005)
    return os.getpid()


def burn() -> NoReturn:
    while True:
        pass


def work_a_little(for_s: float) -> float:
    """Runs for so long by the wall clock and uses a fraction of the CPU, as on a host with many other processes."""
    began = time.monotonic()
    while time.monotonic() - began < for_s:
        until = time.monotonic() + 0.015
        while time.monotonic() < until:
            pass
        time.sleep(0.15)
    return time.monotonic() - began


def kill_parent() -> NoReturn:
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        time.sleep(1)


def fail_with_secret() -> NoReturn:
    raise ValueError("the text of a confidential document")


def wrong_password() -> NoReturn:
    raise PasswordWrongError("The password does not open this document.", retry_after_s=3)


def unpicklable() -> Any:
    return lambda: None


def exit_quietly() -> NoReturn:
    sys.exit(0)


def allocate(size: int) -> int:
    return len(bytearray(size))


def allocate_natively_until_abort() -> NoReturn:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    while block := libc.malloc(8_000_000):
        libc.memset(block, 1, 8_000_000)
    libc.abort()
    raise AssertionError


def allocate_with_new(size: int) -> None:
    """What C++ code does: `new` throws, nobody catches, the process aborts with a last word."""
    new = ctypes.CDLL("libstdc++.so.6")._Znwm
    new.argtypes = [ctypes.c_size_t]
    new(size)


def die_while_answering(delay_s: float) -> bytes:
    """A large answer from a child that ends before, while or after it sends it."""

    def end() -> NoReturn:
        time.sleep(delay_s)
        os._exit(9)

    threading.Thread(target=end, daemon=True).start()
    return bytes(60_000_000)


def abort() -> None:
    ctypes.CDLL(None).abort()


def allocate_in_mupdf() -> None:
    import pymupdf

    pymupdf.Pixmap(pymupdf.csRGB, (0, 0, 10_000, 10_000))  # type: ignore[no-untyped-call]


def shout(text: str) -> None:
    os.write(1, text.encode())
    os.write(2, text.encode())


def environment() -> dict[str, str]:
    return dict(os.environ)


def loaded_modules() -> set[str]:
    return set(sys.modules)


def open_files() -> list[str]:
    names = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that listed them
            names.append(str(fd.readlink()))
    return names


def private_kib() -> tuple[int, int]:
    """The memory of this child that it shares with nobody, and all it has resident."""
    fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    private = sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty"))
    return private, int(fields["Rss"].split()[0])


def sigint_is_ignored() -> bool:
    os.kill(os.getpid(), signal.SIGINT)
    return True


def _task_socket() -> int:
    """The descriptor that answers go through, as code that has taken over a parser would find it."""
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            if str(Path(f"/proc/self/fd/{fd}").readlink()).startswith("socket:"):
                return fd
    raise AssertionError("there is no socket")


def _send(content: bytes, claimed: int | None = None) -> None:
    os.write(_task_socket(), struct.pack("<Q", len(content) if claimed is None else claimed) + content)


def answer_with_a_pickle() -> int:
    """Sends what an attacker would: a result whose unpickling runs code."""

    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return exec, ("import pathlib; pathlib.Path('/tmp/quire-was-here').touch()",)

    _send(b"\x01" + pickle.dumps(Bomb()))
    return 1


def answer_with_noise() -> int:
    _send(b"\x77" + os.urandom(100))
    return 1


def claim_a_huge_answer() -> int:
    _send(b"\x01", claimed=1 << 60)
    return 1


def attack(name: str, secret: str) -> str:
    """What code that has taken over a parser would try; answers `done` or why it was refused."""
    try:
        found = _ATTACKS[name](secret)
    except OSError as error:
        return f"refused: {error.strerror}"
    return f"done: {found!r}"


def _start(program: str) -> str:
    return subprocess.run([program, "-c", "exit"], capture_output=True, text=True, check=True).stdout


def _ptrace(_secret: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, os.getppid(), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return 0


def _unshare(_secret: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return 0


def _raise_limit(_secret: str) -> int:
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError as error:  # what Python makes of EPERM
        raise PermissionError(1, str(error)) from error
    return resource.getrlimit(resource.RLIMIT_DATA)[1]


@dataclass(frozen=True)
class View:
    """What code of an attacker finds and can do in the folder of its document."""

    name: str
    own: str
    files: list[str]
    other: str
    overwritten: str
    moved: str


def look_around(path: str, other: str) -> View:
    own = Path(path)

    def outcome(call: Callable[[], object]) -> str:
        try:
            return f"done: {call()!r}"
        except OSError as error:
            return f"refused: {error.strerror}"

    return View(
        own.name,
        own.read_text(),
        [one.name for one in own.parent.iterdir()],
        outcome(lambda: Path(other).read_bytes()),
        outcome(lambda: own.open("r+").close()),
        outcome(lambda: os.link(own, Path.cwd() / "moved")),
    )


def files_at_hand() -> list[str]:
    """Every file in the folder of this child."""
    return [
        str(one) for folder in ("document", "temporary") for one in (Path.cwd().parent / folder).rglob("*")
    ]


def write_result(kind: str, text: str, target: str) -> str:
    """Leaves a result of the given kind; answers where it was written."""
    own = Path(target)
    if kind == "link":
        own.symlink_to(text)
    elif kind == "pipe":
        os.mkfifo(own)
    elif kind == "folder":
        own.mkdir()
    elif kind == "huge":
        with own.open("wb") as file:
            file.truncate(1 << 40)
    elif kind != "nothing":
        own.write_text(text)
    return target


def read_after_server(path: str, server: int, within_s: float) -> str:
    """Reads the document. A child of this fork server outlives it, and reads when its folder is gone.

    The kernel ends a child only after it has closed the sockets of its parent; on a busy host that takes a while.
    """
    if os.getppid() == server:
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # the kernel must not end it with the server
        Path("outlives").touch()
        deadline = time.monotonic() + within_s
        while Path(path).exists() and time.monotonic() < deadline:
            time.sleep(0.005)
    try:
        return Path(path).read_text()
    except FileNotFoundError:
        raise DamagedError("The document can't be opened.") from None


def fill_folder(depth: int) -> int:
    """Leaves folders that are too deep for recursion, and one that its owner may not open, in the temporary folder."""
    began = Path.cwd()
    for _ in range(depth):
        Path("deeper").mkdir()
        os.chdir("deeper")
    Path("closed").mkdir(0)
    Path("file").write_text("x")
    os.chdir(began)
    return os.getpid()


def make_cycles(count: int) -> tuple[int, int]:
    """How often new objects were looked at by the garbage collector meanwhile, and how many objects are left."""
    before, looks = len(gc.get_objects()), gc.get_stats()[0]["collections"]
    for _ in range(count):
        one: list[Any] = []
        one.append(one)
    return gc.get_stats()[0]["collections"] - looks, len(gc.get_objects()) - before


_ATTACKS: dict[str, Callable[[str], Any]] = {
    "read_a_secret": lambda secret: Path(secret).read_text(),
    "list_a_folder": lambda secret: [str(one) for one in Path(secret).parent.iterdir()],
    "read_the_parents_environment": lambda _: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "write_a_file": lambda secret: Path(f"{secret}.new").write_text("x"),
    "delete_a_file": lambda secret: Path(secret).unlink(),
    "open_a_socket": lambda _: socket.socket(socket.AF_INET).fileno(),
    "open_a_unix_socket": lambda _: socket.socket(socket.AF_UNIX).fileno(),
    "start_a_shell": lambda _: _start("/bin/sh"),
    "start_python": lambda _: _start(sys.executable),
    "signal_the_parent": lambda _: os.kill(os.getppid(), 0),
    "attach_to_the_parent": _ptrace,
    "read_the_parents_memory": lambda _: Path(f"/proc/{os.getppid()}/mem").open("rb").close(),
    "make_a_namespace": _unshare,
    "overwrite_our_code": lambda _: Path(__file__).open("a").close(),
    "change_a_mode": lambda secret: Path(secret).chmod(0o777),
    "change_a_time": lambda secret: os.utime(secret, (0, 0)),
    "write_beside_the_temporary_folder": lambda _: (Path.cwd().parent / "x").write_text("x"),
    "raise_a_limit": _raise_limit,
    "list_the_folders_of_readers": lambda _: [one.name for one in Path.cwd().parent.parent.iterdir()],
}
