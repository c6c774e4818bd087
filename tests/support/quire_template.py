"""A process that has imported Quire or its readers and only forks, so that a test's process starts without its imports.

`tests.support.quire_processes` starts at most one template of each kind for a test run. Each pytest process connects to
its socket:

    test → template   the length of a JSON object, the object {arguments, cwd, environment, readers}, and descriptors:
                      standard input, output and error of the new process, for a fork server of readers its control
                      socket, and a pipe for how the process ends
    template → test   the process id of the new process
    template → pipe   its wait status and the CPU seconds it used, once it has ended

The forked process does what `python -m quire` does: it runs the package's `__main__` and ends as an interpreter ends.
Or it is a fork server of readers, as `quire.reading.pool.server_process` starts one. The reaper ends the template with
the run.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

from quire.reading.pool.child_process import ChildOptions

QUIRE, READERS = "quire", "readers"
"""The kinds of templates."""

SIZE = struct.Struct("<I")
PROCESS_ID = struct.Struct("<i")
STATUS = struct.Struct("<id")
MOST_DESCRIPTORS = 5

_PRELOADED = (
    "aiosqlite",
    "alembic.autogenerate.api",
    "alembic.command",
    "alembic.config",
    "alembic.runtime.migration",
    "anthropic",
    "anyio._backends._asyncio",
    "numpy",
    "openai",
    "prometheus_client.openmetrics.exposition",
    "quire.__main__",
    "quire.api.server",
    "quire.batching.local_backend",
    "quire.batching.remote_backend",
    "quire.bootstrap",
    "quire.catalog.catalog",
    "quire.embedding.local_embedder",
    "quire.objects.directory_store",
    "quire.pipeline.vault.place_backlog",
    "quire.pipeline.vault.shared_catalog",
    "quire.pipeline.vault.vault_stages",
    "quire.pipeline.vault.vault_sweeper",
    "quire.providers.anthropic_provider",
    "quire.providers.openai_provider",
    "quire.reading.ocr.picture_elements",
    "quire.telemetry.process_meters",
    "quire.web",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "sqlalchemy.ext.asyncio",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
"""What most processes import sooner or later: the catalog alone costs each of them a second of CPU time."""


_READERS = ("quire.reading.pool.forkserver", *ChildOptions(memory_bytes=0).preload)


@dataclass(frozen=True)
class Start:
    """One process to be."""

    arguments: list[str]
    cwd: str
    environment: dict[str, str]
    readers: (
        str  # the socket of the readers' template; empty: its fork servers are started as outside of tests
    )
    descriptors: list[int]


class Template:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._tests: set[socket.socket] = set()
        self._watched: dict[int, tuple[int, int]] = {}  # process descriptor → process id, status pipe
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def run(self) -> Start:
        """Returns in each forked process, with what to run there."""
        while True:
            for key, _events in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif not isinstance(key.fileobj, socket.socket):
                    self._report_end(key.fd)
                elif (start := self._receive(key.fileobj)) is None:
                    self._drop(key.fileobj)
                elif self._fork(start, key.fileobj):
                    return start

    def _accept(self) -> None:
        tests, _address = self._listener.accept()
        self._tests.add(tests)
        self._selector.register(tests, selectors.EVENT_READ)

    def _drop(self, tests: socket.socket) -> None:
        self._selector.unregister(tests)
        self._tests.discard(tests)
        tests.close()

    def _receive(self, tests: socket.socket) -> Start | None:
        """None if these tests have ended, or the process that asks was killed while it did."""
        descriptors: list[int] = []
        try:
            head, descriptors, _flags, _address = socket.recv_fds(tests, SIZE.size, MOST_DESCRIPTORS)
            if head:
                with tests.makefile("rb") as stream:
                    return Start(**json.loads(stream.read(*SIZE.unpack(head))), descriptors=descriptors)
        except (ConnectionError, ValueError, struct.error):
            for descriptor in descriptors:
                os.close(descriptor)
        return None

    def _fork(self, start: Start, tests: socket.socket) -> bool:
        """True in the new process."""
        *streams, status = start.descriptors
        pid = os.fork()
        if pid == 0:
            self._close()
            os.close(status)
            return True
        for descriptor in streams:
            os.close(descriptor)
        process = os.pidfd_open(pid)
        self._watched[process] = (pid, status)
        self._selector.register(process, selectors.EVENT_READ)
        with contextlib.suppress(
            ConnectionError
        ):  # a process that was killed meanwhile: the template serves all others
            tests.sendall(PROCESS_ID.pack(pid))
        return False

    def _report_end(self, process: int) -> None:
        pid, pipe = self._watched.pop(process)
        self._selector.unregister(process)
        os.close(process)
        _pid, status, usage = os.wait4(pid, 0)
        with contextlib.suppress(BrokenPipeError):
            os.write(pipe, STATUS.pack(status, usage.ru_utime + usage.ru_stime))
        os.close(pipe)

    def _close(self) -> None:
        self._selector.close()
        self._listener.close()
        for tests in self._tests:
            tests.close()
        for process, (_pid, pipe) in self._watched.items():
            os.close(process)
            os.close(pipe)


def _become(start: Start) -> None:
    """Gives this process what an exec would have given it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(start.descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(start.cwd)
    os.environ.clear()
    os.environ.update(start.environment)
    time.tzset()
    tempfile.tempdir = None
    sys.stdin = open(0, encoding="utf-8", errors=sys.stdin.errors, closefd=False)  # noqa: SIM115
    # Standard error is line-buffered, also when it is no terminal.
    sys.stdout = open(1, "w", encoding="utf-8", errors=sys.stdout.errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors=sys.stderr.errors, closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    sys.path[0] = start.cwd
    sys.argv[1:] = start.arguments


def _serve_readers(start: Start) -> None:
    """Does what `server_process` has a new interpreter do. The parent is the template, so it dies with that."""
    from quire.reading.pool.forkserver import serve

    os.setsid()
    asked = json.loads(start.arguments[-1])
    sys.path[:] = asked["sys_path"]
    serve(start.descriptors[3], os.getppid(), asked["preload"])


def _run_quire(start: Start) -> None:
    if start.readers:
        importlib.import_module("tests.support.quire_processes").use_warm_readers(start.readers)
    try:
        runpy.run_module("quire", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, int):
            _exit(end.code)
        raise


def _exit(code: int) -> None:
    """Ends as an interpreter ends, but does not take thousands of modules apart that the template has imported."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # the interpreter says so, with a code of its own
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _modules_of_quire() -> list[str]:
    commands = importlib.import_module("quire.cli")
    names = [f"quire.cli.{module.name}" for module in pkgutil.iter_modules(commands.__path__)]
    return ["tests.support.quire_processes", *_PRELOADED, *names]


def main(kind: str, place: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest and the processes under test
    for name in _modules_of_quire() if kind == QUIRE else _READERS:
        importlib.import_module(name)
    sys.modules.pop("quire.__main__", None)
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page that is shared
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    start = Template(listener).run()
    _become(start)
    (_run_quire if kind == QUIRE else _serve_readers)(start)


if __name__ == "__main__":
    main(*sys.argv[1:])
