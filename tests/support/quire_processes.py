"""`quire` as a process of its own, started from a warm template where that makes no difference.

Importing Quire is most of what a start costs. A template (`tests.support.quire_template`) imports it once for a run and
forks; the process it forks is otherwise what `python -m quire` gives: its own environment, folder, streams, signals,
exit status and children. What the interpreter itself reads when it starts (PYTHON… variables, a locale that is not
UTF-8) needs a real start and gets one. The tests of packages, containers and the README always start for real.

A Quire that runs inside a test has its fork server of readers from a template as well (`use_warm_readers`): the imports
of the parsers are most of what such a test would cost.
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quire.reading.pool import server_process
from quire.reading.pool.child_process import ChildOptions
from tests.support import reaper
from tests.support.environment import ROOT, RUN_VARIABLE, clean_environment
from tests.support.quire_template import PROCESS_ID, QUIRE, READERS, SIZE, STATUS
from tests.support.waiting import DEADLINE_S, wait_until

COMMAND = (sys.executable, "-m", "quire")

_KILLED = 9  # as a wait status: what is left to say when the template itself is gone


class ForkedProcess(subprocess.Popen[Any]):
    """A Popen whose process is forked by a template. It is a child of the template, which reports how it ended."""

    _template: _Template
    _readers = ""

    def _execute_child(  # type: ignore[no-untyped-def]  # the seam of subprocess.Popen that starts the process
        self,
        args,
        _executable,
        _preexec_fn,
        _close_fds,
        pass_fds,
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
            *pass_fds,
            status_write,
        )
        asked = {
            "arguments": [str(one) for one in args[len(COMMAND) :]],
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "readers": self._readers,
        }
        try:
            self.pid = self._template.fork(json.dumps(asked).encode(), given)
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
        self._template.cpu_s += cpu_s
        self.returncode = os.waitstatus_to_exitcode(status)


class QuireProcess(ForkedProcess):
    """A `quire` process. Its fork server is its child."""

    _template: _Template


class WarmReadersProcess(QuireProcess):
    """A `quire` process whose fork server is a child of the readers' template, and ends when the process has ended."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._readers = _READER_TEMPLATE.place()
        super().__init__(*args, **options)


class ReaderProcess(ForkedProcess):
    """A fork server of readers, which has the control socket as its one further descriptor."""


def start_quire(
    *arguments: str, env: dict[str, str], warm_readers: bool = False, **options: Any
) -> subprocess.Popen[Any]:
    """Starts `quire` with these arguments; the options are those of subprocess.Popen.

    Warm readers are for tests that do not look at the processes below this one.
    """
    forked = WarmReadersProcess if warm_readers else QuireProcess
    kind = forked if _forkable(env) else subprocess.Popen
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
        warm_readers=True,
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
    """One template of the run, as this pytest process sees it; the first process that needs it starts it."""

    def __init__(self, kind: str, **environment: str) -> None:
        self._kind = kind
        self._environment = environment
        self._place = ""
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self.cpu_s = 0.0  # what the processes used that have ended

    def fork(self, asked: bytes, descriptors: tuple[int, ...]) -> int:
        """The process id of the new process."""
        with self._lock:
            control = self._connected()
            socket.send_fds(control, [SIZE.pack(len(asked))], descriptors)
            control.sendall(asked)
            answer = control.recv(PROCESS_ID.size, socket.MSG_WAITALL)
        assert len(answer) == PROCESS_ID.size, "the template process has ended"
        return int(PROCESS_ID.unpack(answer)[0])

    def place(self) -> str:
        """The socket of the template, which runs."""
        with self._lock:
            self._connected()
        return self._place

    def run_elsewhere(self, place: str) -> None:
        """The template with this socket is this one; it was started by another process."""
        self._place = place

    def _connected(self) -> socket.socket:
        if self._control is None:
            self._place = self._place or _start_template(self._kind, self._environment)
            self._control = socket.socket(socket.AF_UNIX)
            self._control.connect(self._place)
        return self._control


def _start_template(kind: str, environment: Mapping[str, str]) -> str:
    """The socket of the run's template. It has the mark of the controller, so that it outlives the worker."""
    mark = os.environ[RUN_VARIABLE]
    run = mark.rpartition("/")[0] if os.environ.get("PYTEST_XDIST_WORKER") else mark
    folder = reaper.folder_of(run)
    place = folder / f"{kind}-template"
    with (folder / f"{kind}-template.lock").open("w") as lock, socket.socket(socket.AF_UNIX) as probe:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            started = subprocess.Popen(
                [sys.executable, "-m", "tests.support.quire_template", kind, str(place)],
                cwd=ROOT,
                env=clean_environment(**{RUN_VARIABLE: run, **environment}),
                stdin=subprocess.DEVNULL,
            )
            wait_until(lambda: place.exists() or started.poll() is not None, "the template process listens")
            assert started.poll() is None, "the template process has ended: its error is on standard error"
        wait_until(lambda: probe.connect_ex(str(place)) == 0, "the template process answers")
    return str(place)


_TEMPLATE = QuireProcess._template = _Template(QUIRE)
_READER_VARIABLES = {"PYTHONUTF8": "1", "ORT_DISABLE_TELEMETRY": "1"}
_READER_TEMPLATE = ReaderProcess._template = _Template(READERS, **_READER_VARIABLES)


class _ReaderStarts:
    """Stands for the module `subprocess` where fork servers are started."""

    DEVNULL = subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired

    @staticmethod
    def Popen(command: list[str], **options: Any) -> subprocess.Popen[Any]:  # noqa: N802 - the name it has there
        """Forks from the template, unless the test has readers of its own or gives them variables."""
        asked = json.loads(command[-1])
        usual = tuple(asked["preload"]) == ChildOptions(memory_bytes=0).preload
        plain = options["env"].keys() == {"TMPDIR", *_READER_VARIABLES}
        kind = ReaderProcess if usual and plain and hasattr(os, "pidfd_open") else subprocess.Popen
        return kind(command, **options)


def use_warm_readers(place: str = "") -> None:
    """From now on, fork servers that this process starts are forked from a template that has imported the parsers.

    The template is the one with this socket, or that of the test run.
    """
    _READER_TEMPLATE.run_elsewhere(place)
    server_process.subprocess = _ReaderStarts  # type: ignore[assignment]


def use_real_readers() -> None:
    """From now on, fork servers are started as they are outside of tests."""
    server_process.subprocess = subprocess
