"""Hosts as network namespaces of one machine: each has its own address, and its cable can be pulled.

Everything is inside a network and mount namespace of this run's own, so nothing of the machine is changed, and
nothing is left behind when the run ends. Needs root or a kernel that gives users namespaces.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

_NET = "10.77.0"
GATEWAY = f"{_NET}.1"
_ENDED_S = 20.0


def enter_own_namespaces() -> str | None:
    """Starts this program again in namespaces of its own; returns why that is not possible."""
    if os.environ.get("FLEET_NAMESPACES"):
        return None
    flags = ["-n", "-m"] if os.geteuid() == 0 else ["-r", "-n", "-m"]
    probe = "mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up && ip netns add probe"
    tried = subprocess.run(
        ["unshare", *flags, "sh", "-c", probe], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"network namespaces can't be made here: {tried.stderr.strip().splitlines()[-1:]}"
    os.environ["FLEET_NAMESPACES"] = "1"
    os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True)


def make_network() -> None:
    """The switch that all hosts are connected to; this process is reachable as GATEWAY."""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    Path("/run/netns").mkdir()
    _ip("link", "set", "lo", "up")
    _ip("link", "add", "switch", "type", "bridge")
    _ip("addr", "add", f"{GATEWAY}/24", "dev", "switch")
    _ip("link", "set", "switch", "up")


class Host:
    """A host with its own address. Its processes are started by name, and again after a restart."""

    _numbers = itertools.count(2)

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        number = next(self._numbers)
        self.address = f"{_NET}.{number}"
        self.folder = folder / name
        self.folder.mkdir()
        self._cable = f"cable{number}"
        self._commands: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        _ip("netns", "add", name)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", self._cable, "master", "switch", "up")
        _ip("-n", name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")

    def run(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        """Starts a process on this host; `restart` starts it again."""
        self._commands[name] = (command, environment)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                ["ip", "netns", "exec", self.name, *command],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def processes(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for one in self._processes.values():
            with suppress(psutil.NoSuchProcess):
                top = psutil.Process(one.pid)
                found += [top, *top.children(recursive=True)]
        return found

    def kill(self) -> None:
        """The host dies: every process at once, and nothing is said to its peers."""
        self.cut()
        self.send(signal.SIGKILL)
        for one in self._processes.values():
            one.wait(_ENDED_S)

    def stop(self) -> list[int]:
        """SIGTERM to its programs; returns their exit codes."""
        for one in self._processes.values():
            one.terminate()
        return [one.wait(60) for one in self._processes.values()]

    def start(self) -> None:
        """The host is back, with the programs that it had."""
        self.reconnect()
        for name, (command, environment) in list(self._commands.items()):
            self.run(name, command, environment)

    def send(self, sign: signal.Signals) -> None:
        for one in self.processes():
            with suppress(psutil.NoSuchProcess):
                one.send_signal(sign)

    def cut(self) -> None:
        _ip("link", "set", self._cable, "down")

    def reconnect(self) -> None:
        _ip("link", "set", self._cable, "up")


class Balancer:
    """A TCP proxy in front of several serves: each connection goes to the next one that answers."""

    def __init__(self, targets: list[tuple[str, int]]) -> None:
        self._targets = itertools.cycle(targets)
        self._count = len(targets)
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), name="balancer", daemon=True).start()
        started.wait(30)

    @property
    def url(self) -> str:
        return f"http://{GATEWAY}:{self._port}"

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, GATEWAY, 0))
        self._port = int(server.sockets[0].getsockname()[1])
        started.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(self._count):
            host, port = next(self._targets)
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    target = await asyncio.open_connection(host, port)
                await asyncio.wait(
                    {
                        asyncio.ensure_future(_pump(reader, target[1])),
                        asyncio.ensure_future(_pump(target[0], writer)),
                    },
                    return_when=asyncio.FIRST_COMPLETED,
                )
                target[1].close()
                break
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def wait_for_port(host: Host, port: int, seconds: float = 60.0) -> None:
    """Raises TimeoutError if nothing listens there in time."""
    import socket

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((host.address, port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"{host.name} does not listen on port {port}: see {host.folder}")
