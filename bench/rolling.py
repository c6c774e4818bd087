"""A rolling restart: two `quire serve` behind nginx are restarted one after the other while callers send requests.

Callers upload documents and wait for them, list jobs and send images to `/parse`. Every answer that is not a success
and every broken connection is counted. Needs nginx (`apt-get install nginx-light`); everything listens on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pymupdf

from batching_stage import backend
from measuring import PYTHON, ROOT, environment, scratch, table

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
CALLERS = 6
CONFIG = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log warn; worker_processes 1;
events {{ worker_connections 512; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    upstream quire {{ server 127.0.0.1:{a} max_fails=0; server 127.0.0.1:{b} max_fails=0; keepalive 64; }}
    server {{
        listen 127.0.0.1:{front};
        client_max_body_size 600m;
        location / {{
            proxy_pass http://quire; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_set_header Host $http_host; proxy_request_buffering off; proxy_buffering off;
            proxy_read_timeout 20m; proxy_send_timeout 20m;
        }}
    }}
}}
"""


class Fleet:
    """Valkey, a worker, two services and nginx."""

    def __init__(self, folder: Path, delay: str, backend_url: str) -> None:
        self.folder = folder
        self.ports = [_free_port() for _ in range(4)]
        self._settings = {
            "REDIS_URL": f"redis://127.0.0.1:{self.ports[3]}/0",
            "OBJECT_STORE": str(folder / "objects"),
            "SECRET_KEY": "00" * 32,
            "RATE_LIMIT_PER_CLIENT": "0",
            "READER_PROCESSES": "1",
            "SHUTDOWN_DELAY": delay,
            "BATCH_BACKEND_URL": backend_url,
        }

    def valkey(self) -> subprocess.Popen[bytes]:
        sys.path.insert(0, str(ROOT))
        from tests.support.coordination_servers import says, spawn_server

        home = self.folder / "valkey"
        home.mkdir()
        process = spawn_server(self.ports[3], home)
        while not says(self.ports[3], b"PONG", "PING"):
            time.sleep(0.05)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", "worker")

    def service(self, place: int) -> subprocess.Popen[bytes]:
        """Returns once it answers."""
        port = self.ports[place]
        process = self._start(f"serve-{place}", "serve", "--port", str(port), RUN_DISPATCHER="0")
        _wait_for(port, process)
        return process

    def nginx(self) -> subprocess.Popen[bytes]:
        a, b, front, _ = self.ports
        config = self.folder / "nginx.conf"
        config.write_text(CONFIG.format(folder=self.folder, a=a, b=b, front=front))
        process = subprocess.Popen(
            [NGINX, "-c", str(config), "-p", str(self.folder)], stderr=subprocess.DEVNULL
        )
        _wait_for(front, process)
        return process

    def _start(self, name: str, *args: str, **more: str) -> subprocess.Popen[bytes]:
        env = environment(self.folder / name, **{**self._settings, **more, "LOG_LEVEL": "warn"})
        (self.folder / name).mkdir(exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [PYTHON, "-m", "quire", *args], env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )


class Callers:
    """They send requests until they are told to end, and count the outcomes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.over = asyncio.Event()

    async def run(self) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(self._one(session, place) for place in range(CALLERS)))

    async def _one(self, session: aiohttp.ClientSession, place: int) -> None:
        kinds = (self._convert, self._jobs, self._parse)
        while not self.over.is_set():
            send = kinds[place % len(kinds)]
            try:
                status = await send(session)
            except aiohttp.ClientError as error:
                self._failed(send.__name__, type(error).__name__)
                continue
            if status >= 300:
                self._failed(send.__name__, str(status))
            else:
                self.outcomes[f"{send.__name__.lstrip('_')} {status}"] += 1
            await asyncio.sleep(0.02)

    def _failed(self, kind: str, why: str) -> None:
        self.outcomes["failed"] += 1
        self.failures.append(f"{kind.lstrip('_')}: {why}")

    async def _convert(self, session: aiohttp.ClientSession) -> int:
        form = aiohttp.FormData()
        form.add_field("file", _pdf(), filename="a.pdf")
        async with session.post(f"{self.url}/convert?wait=10", data=form) as answer:
            await answer.read()
            return answer.status

    async def _jobs(self, session: aiohttp.ClientSession) -> int:
        async with session.get(f"{self.url}/jobs?limit=5") as answer:
            await answer.read()
            return answer.status

    async def _parse(self, session: aiohttp.ClientSession) -> int:
        body = {"image_data": base64.b64encode(_png()).decode(), "filename": "a.png"}
        async with session.post(f"{self.url}/parse", json=body) as answer:
            await answer.read()
            return answer.status


async def measure(folder: Path, delay: str, rounds: int) -> None:
    with ExitStack() as stack:
        fleet = Fleet(folder, delay, stack.enter_context(backend()).url)
        stack.callback(_end, fleet.valkey())
        stack.callback(_end, fleet.worker())
        services = [fleet.service(place) for place in (0, 1)]
        stack.callback(lambda: [_end(one) for one in services])
        stack.callback(_end, fleet.nginx())
        callers = Callers(f"http://127.0.0.1:{fleet.ports[2]}")
        running = asyncio.create_task(callers.run(), name="callers")
        await asyncio.sleep(2)
        ends, began = [], time.monotonic()
        for place in (0, 1) * rounds:
            ends.append(await asyncio.to_thread(_end, services[place]))
            services[place] = await asyncio.to_thread(fleet.service, place)
            await asyncio.sleep(1)
        seconds = time.monotonic() - began
        callers.over.set()
        await running
    rows = [[name, str(count)] for name, count in sorted(callers.outcomes.items())]
    title = f"{2 * rounds} restarts in {seconds:.0f} s, SHUTDOWN_DELAY={delay}, exit codes {ends}"
    table(title, ["outcome", "requests"], rows)
    print("failed requests:", callers.outcomes["failed"], Counter(callers.failures) or "")


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Returns once the process accepts connections."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise SystemExit(f"{process.args} ended with {process.returncode}")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(60)


def _pdf() -> bytes:
    with pymupdf.open() as document:
        document.new_page().insert_text((72, 72), f"Page {secrets.token_hex(8)}")
        return bytes(document.tobytes())


def _png() -> bytes:
    return bytes(pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 64, 64), False).tobytes("png"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--delay", default="2s")
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    with scratch() as folder:
        asyncio.run(measure(folder, chosen.delay, chosen.rounds))


if __name__ == "__main__":
    main()
