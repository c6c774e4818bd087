"""`quire` as a process of its own, started from a warm template where that makes no difference.

Importing Quire is most of what a start costs. A template (`tests.support.quire_template`) imports it once for a run and
forks; the process it forks is otherwise what `python -m quire` gives: its own environment, folder, streams, signals,
exit status and children. What the interpreter itself reads when it starts (PYTHON… variables, a locale that is not
UTF-8) needs a real start and gets one. The tests of packages, containers and the README always start for real.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support import reaper
from tests.support.environment import ROOT, RUN_VARIABLE, clean_environment
from tests.support.quire_template import PROCESS_ID, SIZE, STATUS
from tests.support.waiting import DEADLINE_S, wait_until

COMMAND = (sys.executable, "-m", "quire")

_KILLED = 9  # as a wait status: what is left to say when the template itself is gone


class QuireProcess(subprocess.Popen[Any]):
    """A Popen whose process is forked by the template. It is a child of the template, which reports how it ended."""

    def _execute_child(  # type: ignore[no-untyped-def]  # the seam of subprocess.Popen that starts the process
        self,
        args,
        _executable,
        _preexec_fn,
        _close_fds,
        _pass_fds,
        cwd,
        env,
        _info,
        _flags,
        _shell,
        *streams_and_more,
    ) -> None:
        input_read, input_write, output_read, output_write, error_read, error_write = streams_and_more[:6]
        self._status, status_write = os.pipe()
        given = (
            0 if input_read == -1 else input_read,
            1 if output_write == -1 else output_write,
            2 if error_write == -1 else error_write,
            status_write,
        )
        asked = {
            "arguments": [str(one) for one in args[len(COMMAND) :]],
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        try:
            self.pid = _TEMPLATE.fork(json.dumps(asked).encode(), given)
            self._child_created = True
        finally:
            os.close(status_write)
            for mine, theirs in (
                (input_write, input_read),
                (output_read, output_write),
                (error_read, error_write),
            ):
                if mine != -1 and theirs != -1:
                    os.close(theirs)
            if (devnull := getattr(self, "_devnull", None)) is not None:
                os.close(devnull)
            self._closed_child_pipe_fds = True

    def _internal_poll(self, *_args: object, **_more: object) -> int | None:
        """Also called by __del__ of a process that was never waited for."""
        if self.returncode is None and self._child_created and self._has_ended(0):
            self._take_status()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not self._has_ended(timeout):
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            self._take_status()
        return self.returncode

    def _has_ended(self, timeout: float | None) -> bool:
        status = select.poll()  # select() takes no descriptor over 1,023
        status.register(self._status, select.POLLIN)
        return bool(status.poll(None if timeout is None else timeout * 1000))

    def _take_status(self) -> None:
        written = os.read(self._status, STATUS.size)
        os.close(self._status)
        status, cpu_s = STATUS.unpack(written) if written else (_KILLED, 0.0)
        _TEMPLATE.cpu_s += cpu_s
        self.returncode = os.waitstatus_to_exitcode(status)


def start_quire(*arguments: str, env: dict[str, str], **options: Any) -> subprocess.Popen[Any]:
    """Starts `quire` with these arguments; the options are those of subprocess.Popen."""
    kind = QuireProcess if _forkable(env) else subprocess.Popen
    return kind([*COMMAND, *arguments], env=env, **options)


def run_quire(
    *arguments: str, env: dict[str, str], stdin: str | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs `quire` with these arguments to its end, and returns its exit code and what it printed."""
    with start_quire(
        *arguments,
        env=env,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout=DEADLINE_S)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _forkable(env: dict[str, str]) -> bool:
    """Whether the interpreter would start with these variables as the template has."""
    if not hasattr(os, "pidfd_open"):
        return False
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C.UTF-8"
    python = {name: value for name, value in env.items() if name.startswith("PYTHON")}
    same = not python or python == {"PYTHONPATH": os.environ.get("PYTHONPATH")}
    return same and locale.upper().endswith(("UTF-8", "UTF8"))


class _Template:
    """The template of the run, as this pytest process sees it; the first process that needs it starts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self.cpu_s = 0.0  # what the processes used that have ended

    def fork(self, asked: bytes, descriptors: tuple[int, ...]) -> int:
        """The process id of the new process."""
        with self._lock:
            if self._control is None:
                self._control = _connect_template()
            socket.send_fds(self._control, [SIZE.pack(len(asked))], descriptors)
            self._control.sendall(asked)
            answer = self._control.recv(PROCESS_ID.size, socket.MSG_WAITALL)
        assert len(answer) == PROCESS_ID.size, "the template process has ended"
        return int(PROCESS_ID.unpack(answer)[0])


def _connect_template() -> socket.socket:
    """It has the mark of the controller, so that it outlives the worker that started it."""
    mark = os.environ[RUN_VARIABLE]
    run = mark.rpartition("/")[0] if os.environ.get("PYTEST_XDIST_WORKER") else mark
    folder = reaper.folder_of(run)
    place = folder / "template"
    control = socket.socket(socket.AF_UNIX)
    with (folder / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            started = subprocess.Popen(
                [sys.executable, "-m", "tests.support.quire_template", str(place)],
                cwd=ROOT,
                env=clean_environment(**{RUN_VARIABLE: run}),
                stdin=subprocess.DEVNULL,
            )
            wait_until(lambda: place.exists() or started.poll() is not None, "the template process listens")
            assert started.poll() is None, "the template process has ended: its error is on standard error"
        wait_until(lambda: control.connect_ex(str(place)) == 0, "the template process answers")
    return control


_TEMPLATE = _Template()
