"""Ends every process of a test run when its pytest process is gone, however that ended.

Each pytest process (the controller and every xdist worker) has a mark in its environment, its parent's mark plus a
part of its own, and one reaper beside it. Whatever a test starts inherits the mark. When the pytest process has
ended, also by SIGKILL, its reaper ends every process whose mark begins with that of the run, also servers that became
daemons or run as another user, and removes the folder of the run.

A process whose environment was made from nothing has no mark: tests build environments with `clean_environment`, and
Quire's own children end with their parent. The reaper reads /proc, so on other systems than Linux there is none.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

POLITE_S = 3.0
"""How long processes may take to end by themselves before they are killed."""

_PAUSE_S = 0.05
_LONGEST_S = 60.0


def begin(variable: str) -> str:
    """Marks this process and starts its reaper; returns the mark."""
    mark = f"{os.environ.get(variable, '')}/{os.urandom(6).hex()}"
    # The reaper itself has no mark, and none of its parent's: an outer run must not end it before its work is done.
    bare = {name: value for name, value in os.environ.items() if name != variable}
    os.environ[variable] = mark
    if sys.platform == "linux":
        subprocess.Popen(
            [sys.executable, "-S", "-E", __file__, str(os.getpid()), variable, mark],
            env=bare,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for pytest; the reaper comes after it
        )
    return mark


def folder_of(mark: str) -> Path:
    """A folder that goes with the run. Other users may enter it: PostgreSQL does not run as root."""
    folder = Path("/tmp") / f"quire-tests-{mark.strip('/').replace('/', '-')}"
    folder.mkdir(mode=0o755, exist_ok=True)
    return folder


def marked(variable: str, mark: str) -> list[int]:
    """The processes that have this mark, or one that begins with it; zombies have none."""
    wanted = f"{variable}={mark}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if any(
                    one.startswith(wanted) for one in Path(entry.path, "environ").read_bytes().split(b"\0")
                ):
                    found.append(int(entry.name))
    return found


def _end_all(variable: str, mark: str) -> None:
    started = time.monotonic()
    asked: set[int] = set()
    while (left := marked(variable, mark)) and time.monotonic() - started < _LONGEST_S:
        late = time.monotonic() - started > POLITE_S
        for pid in left:
            if late or pid not in asked:
                asked.add(pid)
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL if late else _polite_signal(pid))
        time.sleep(_PAUSE_S)


def _polite_signal(pid: int) -> signal.Signals:
    """SIGQUIT for PostgreSQL, which on SIGTERM waits for its clients and writes out hundreds of databases."""
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    return signal.SIGQUIT if name == "postgres" else signal.SIGTERM


def _wait_for_end(pid: int) -> None:
    with contextlib.suppress(OSError):  # it is gone already
        watched = os.pidfd_open(pid)
        if os.getppid() == pid:  # otherwise the number belongs to another process by now
            select.select([watched], [], [])


def main(pid: int, variable: str, mark: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _wait_for_end(pid)
    _end_all(variable, mark)
    shutil.rmtree(folder_of(mark), ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
