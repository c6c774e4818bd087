"""Real servers for the tests: the embedded Valkey, and a cluster of three nodes made of the same program."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from quire.coordination.embedded_server import _binary
from tests.support.waiting import DEADLINE_S, wait_until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(port: int, *args: str) -> bytes:
    """One command over a bare socket."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as stream:
        parts = [f"*{len(args)}\r\n"] + [f"${len(arg)}\r\n{arg}\r\n" for arg in args]
        stream.sendall("".join(parts).encode())
        return stream.recv(65536)


def says(port: int, wanted: bytes, *args: str) -> bool:
    """Whether the server answers this command with these bytes; false as well while it is not there."""
    try:
        return wanted in ask(port, *args)
    except OSError:
        return False


@contextmanager
def plain_server() -> Iterator[tuple[str, int]]:
    """A server on a loopback port, as an operator's own would be; yields its URL and port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        process = spawn_server(port, Path(folder))
        try:
            wait_until(lambda: says(port, b"PONG", "PING"))
            yield f"redis://127.0.0.1:{port}/0", port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_S)


@contextmanager
def unix_server() -> Iterator[Path]:
    """A server on a unix socket, which costs half of what a loopback port does; yields its path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.sock"
        process = spawn_server(0, Path(folder), "--unixsocket", str(path))
        try:
            wait_until(lambda: _listens(path))
            yield path
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_S)


def _listens(path: Path) -> bool:
    """Its file is there a moment before anybody can connect."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        return line.connect_ex(str(path)) == 0


class Restartable:
    """A server that keeps its data over a restart, and can be killed."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._process = spawn_server(self.port, self._home, "--appendonly", "yes", "--appendfsync", "always")
        wait_until(lambda: says(self.port, b"PONG", "PING"))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(DEADLINE_S)


@contextmanager
def cluster() -> Iterator[str]:
    """Three masters that share the slots."""
    ports = [free_port() for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for port in ports:
            home = Path(folder) / str(port)
            home.mkdir()
            options = (
                "--cluster-enabled",
                "yes",
                "--cluster-node-timeout",
                "5000",
                "--cluster-port",
                str(free_port()),
            )
            processes.append(spawn_server(port, home, *options))
        try:
            for port in ports:
                wait_until(lambda port=port: says(port, b"PONG", "PING"))
            for index, port in enumerate(ports):
                first, last = 16384 * index // 3, 16384 * (index + 1) // 3 - 1
                ask(port, "CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
            for port, process_options in zip(ports[1:], processes[1:], strict=True):
                bus = process_options.args[process_options.args.index("--cluster-port") + 1]
                ask(ports[0], "CLUSTER", "MEET", "127.0.0.1", str(port), bus)
            for port in ports:
                wait_until(lambda port=port: says(port, b"cluster_state:ok", "CLUSTER", "INFO"))
            yield f"redis+cluster://127.0.0.1:{ports[0]}"
        finally:
            for process in processes:
                process.kill()
                process.wait(DEADLINE_S)


def spawn_server(
    port: int, home: Path, *more: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """`environment` is added to that of this process."""
    command = [str(_binary()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home)]
    command += ["--save", "", "--appendonly", "no", "--daemonize", "no", *more]
    # A title would be written over the environment, where the reaper looks for its mark.
    command += ["--set-proc-title", "no"]
    given = {**os.environ, **(environment or {})}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=given)
