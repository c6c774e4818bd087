"""Coordination servers that fail over: one that restarts, sentinels with a replica, a cluster with a replica.

All are processes of the embedded Valkey's program on loopback ports. With `tls` they are reached over TLS, and by a
user with a password.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from quire.coordination.embedded_server import _binary
from tests.support.coordination_servers import ask, free_port, says, spawn_server
from tests.support.tls_doors import Certificate, TlsDoor
from tests.support.waiting import DEADLINE_S, wait_until

NAME = "fleet"
_USER, _LOGIN = ("--user", "app", "on", ">at@home", "~*", "&*", "+@all"), "app:at%40home@"


@dataclass(frozen=True, slots=True)
class FailingServers:
    """The servers of one URL. `fail` kills the primary with SIGKILL, whose writes are on its disk, and on its
    replica where there is one; `come_back` starts the killed process again."""

    url: str
    fail: Callable[[], None]
    come_back: Callable[[], None]
    ca_file: Path | None = None


class _Process:
    """A server that keeps its data over a restart. Clients and other servers know it by the port `door`."""

    def __init__(self, home: Path, *options: str, tls: Certificate | None = None) -> None:
        self.port = free_port()
        self.tls_door = TlsDoor(self.port, tls) if tls else None
        self.door = self.tls_door.port if self.tls_door else self.port
        self._home = home / str(self.port)
        self._home.mkdir()
        self._options = (*options, *(_USER if tls else ()))
        self.start()

    def start(self) -> None:
        kept = ("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
        self._process = spawn_server(self.port, self._home, *kept, *self._options)
        wait_until(lambda: says(self.port, b"PONG", "PING"))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def end(self) -> None:
        self.kill()
        if self.tls_door is not None:
            self.tls_door.close()


def _url(tls: Certificate | None, kind: str, rest: str) -> str:
    return f"rediss{kind}://{_LOGIN}{rest}" if tls else f"redis{kind}://{rest}"


@contextmanager
def restarting(*, tls: bool = False) -> Iterator[FailingServers]:
    """One server."""
    with _folder() as home, ExitStack() as stack:
        certificate = Certificate.make(home) if tls else None
        server = _Process(home, tls=certificate)
        stack.callback(server.end)
        url = _url(certificate, "", f"127.0.0.1:{server.door}/0")
        yield FailingServers(url, server.kill, server.start, certificate.file if certificate else None)


@contextmanager
def watched_by_sentinels(sentinels: int = 1, *, tls: bool = False) -> Iterator[FailingServers]:
    """A primary, its replica, and sentinels that promote the replica when the primary is away for half a second."""
    with _folder() as home, ExitStack() as stack:
        certificate = Certificate.make(home) if tls else None
        primary = _Process(home, tls=certificate)
        stack.callback(primary.end)
        replica = _Process(home, tls=certificate)
        stack.callback(replica.end)
        ask(replica.port, "CONFIG", "SET", "replica-announce-ip", "127.0.0.1")
        ask(replica.port, "CONFIG", "SET", "replica-announce-port", str(replica.door))
        ask(replica.port, "REPLICAOF", "127.0.0.1", str(primary.door))
        wait_until(lambda: says(replica.port, b"master_link_status:up", "INFO", "replication"))
        ports = [_sentinel(home, primary.door, sentinels // 2 + 1, stack) for _ in range(sentinels)]
        for port in ports:
            wait_until(lambda port=port: says(port, b"slaves=1", "INFO", "sentinel"))
        doors = [TlsDoor(port, certificate) for port in ports] if certificate else []
        for door in doors:
            stack.callback(door.close)
        hosts = ",".join(f"127.0.0.1:{port}" for port in ([one.port for one in doors] or ports))
        yield FailingServers(
            _url(certificate, "+sentinel", f"{hosts}/{NAME}/0"),
            lambda: _kill_replicated(primary, replica),
            primary.start,
            certificate.file if certificate else None,
        )


@contextmanager
def replicated_cluster(*, tls: bool = False) -> Iterator[FailingServers]:
    """Three primaries that share the slots, and a replica of the one that fails."""
    with _folder() as home, ExitStack() as stack:
        certificate = Certificate.make(home) if tls else None
        nodes = []
        for _ in range(4):
            bus = str(free_port())
            options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", bus)
            node = _Process(home, *options, tls=certificate)
            stack.callback(node.end)
            ask(node.port, "CONFIG", "SET", "cluster-announce-port", str(node.door))
            if nodes:
                ask(nodes[0].port, "CLUSTER", "MEET", "127.0.0.1", str(node.door), bus)
            nodes.append(node)
        primaries, replica = nodes[:3], nodes[3]
        for index, node in enumerate(primaries):
            first, last = 16384 * index // 3, 16384 * (index + 1) // 3 - 1
            ask(node.port, "CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        for node in nodes:
            wait_until(lambda node=node: says(node.port, b"cluster_known_nodes:4", "CLUSTER", "INFO"))
            wait_until(lambda node=node: says(node.port, b"cluster_state:ok", "CLUSTER", "INFO"))
        name = ask(primaries[0].port, "CLUSTER", "MYID").splitlines()[1].decode()
        wait_until(lambda: says(replica.port, b"+OK", "CLUSTER", "REPLICATE", name))
        wait_until(lambda: says(replica.port, b"master_link_status:up", "INFO", "replication"))
        hosts = ",".join(f"127.0.0.1:{node.door}" for node in primaries)
        yield FailingServers(
            _url(certificate, "+cluster", hosts),
            lambda: _kill_replicated(primaries[0], replica),
            primaries[0].start,
            certificate.file if certificate else None,
        )


def _kill_replicated(primary: _Process, replica: _Process) -> None:
    # `WAIT` counts only writes of the connection that sends it, so the servers' own counts are compared.
    wait_until(lambda: _offset(primary) == _offset(replica), "the replica has all writes of its primary")
    primary.kill()


def _offset(server: _Process) -> bytes:
    """How much of the primary's writes this server has."""
    answer = ask(server.port, "INFO", "replication")
    name = b"slave_repl_offset:" if b"role:slave" in answer else b"master_repl_offset:"
    return answer.partition(name)[2].partition(b"\r\n")[0]


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _sentinel(home: Path, watched: int, quorum: int, stack: ExitStack) -> int:
    port = free_port()
    config = home / f"sentinel-{port}.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {home}\nset-proc-title no\n"
        f"sentinel monitor {NAME} 127.0.0.1 {watched} {quorum}\n"
        f"sentinel down-after-milliseconds {NAME} 500\nsentinel failover-timeout {NAME} 5000\n"
    )
    command = [str(_binary()), str(config), "--sentinel"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait, DEADLINE_S)
    stack.callback(process.kill)
    wait_until(lambda: says(port, b"PONG", "PING"))
    return port
