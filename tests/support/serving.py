"""The real server in a process of its own, and a client that speaks to it. Run as a module, it is that process."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.environment import ROOT, clean_environment
from tests.support.waiting import DEADLINE_S


class Server:
    """`serve` on a free port with its own data directory; its log goes to a file."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.data_dir = folder / "data"
        self.log_path = folder / "server.log"
        self._out = folder / "address"
        environment = clean_environment(
            **{"DATA_DIR": str(self.data_dir), "PORT": "0", "LOG_LEVEL": "debug", **settings}
        )
        with self._out.open("wb") as out, self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.serving"],
                env=environment,
                cwd=ROOT,
                stdout=out,
                stderr=log,
            )
        self.url = ""

    def wait_ready(self) -> Server:
        deadline = time.monotonic() + DEADLINE_S
        while not (address := self._out.read_text()).endswith("\n"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not start:\n{self.log_path.read_text()}")
            time.sleep(0.02)
        self.url = address.strip()
        return self

    def stop(self) -> int:
        """Asks politely; answers the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def incoming(self) -> list[str]:
        """Files that are being written, or were left half-written."""
        return sorted(path.name for path in (self.data_dir / "objects" / ".incoming").glob("*"))

    def originals(self) -> list[str]:
        return sorted(str(path) for path in (self.data_dir / "objects").glob("jobs/*/original-*"))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        async with self.session.request(method, self.url + path, **options) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, **options: Any) -> Answer:
        return await self.ask("POST", path, **options)

    async def upload(
        self,
        data: bytes,
        fields: dict[str, str] | None = None,
        *,
        wait: float = 0,
        name: str = "report.pdf",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        form = aiohttp.FormData()
        for field, value in (fields or {}).items():
            form.add_field(field, value)
        form.add_field("file", data, filename=name)
        return await self.post("/convert" + (f"?wait={wait}" if wait else ""), data=form, headers=headers)

    async def over(self, job_id: str, timeout_s: float = DEADLINE_S) -> dict[str, Any]:
        """The job once it has ended."""
        deadline = time.monotonic() + timeout_s
        while True:
            job: dict[str, Any] = (await self.get(f"/jobs/{job_id}")).json
            if job["status"] in ("completed", "failed", "cancelled"):
                return job
            assert time.monotonic() < deadline, f"the job is still {job}"
            await asyncio.sleep(0.03)


@asynccontextmanager
async def client_of(server: Server, key: str = "") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Client(server.url, session)


def _say(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


def main() -> int:
    gc.disable()  # this and uvloop as in `quire serve`
    from uvloop import new_event_loop

    from quire.api.server import serve
    from quire.errors import QuireError
    from quire.settings import load
    from quire.telemetry.logs import configure

    try:
        settings = load(os.environ)
        configure(settings.logging)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve(settings, on_ready=_say))
    except QuireError as error:
        sys.stderr.write(f"{error.public}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
