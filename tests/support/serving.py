"""`quire serve` as a real process, and a client that knows only HTTP."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.environment import clean_environment
from tests.support.quire_processes import start_quire
from tests.support.waiting import DEADLINE_S, UNHURRIED, eventually


class Server:
    """One `quire` process with its own data directory: `quire serve` on a free port, or these arguments.

    Its readers are warm, and no children of it; a test that looks at its children asks for cold ones.
    """

    def __init__(self, folder: Path, *arguments: str, warm_readers: bool = True, **settings: str) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.log_path = folder / "server.log"
        self._out = folder / "address"
        environment = clean_environment(
            **{
                **UNHURRIED,
                "DATA_DIR": str(self.data_dir),
                "PORT": "0",
                "LOG_LEVEL": "debug",
                **settings,
            }
        )
        with self._out.open("wb") as out, self.log_path.open("ab") as log:
            self.process = start_quire(
                *(arguments or ("serve",)),
                env=environment,
                warm_readers=warm_readers,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )
        self.url = ""

    def wait_ready(self) -> Server:
        """Returns once the process has printed its address. Raises AssertionError with its log if it has ended."""
        deadline = time.monotonic() + DEADLINE_S
        while not (printed := self._out.read_text()).endswith("\n"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not start:\n{self.log}")
            time.sleep(0.02)
        self.url = printed.split()[-1]
        return self

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit code."""
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

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """Requests to one service. `upload` and `over` are for /convert and /jobs; `ask` is for everything."""

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
        path: str = "/convert",
        wait: float = 0,
        name: str = "report.pdf",
        headers: dict[str, str] | None = None,
        **more_fields: str,
    ) -> Answer:
        form = aiohttp.FormData()
        for field, value in {**(fields or {}), **more_fields}.items():
            form.add_field(field, value)
        form.add_field("file", data, filename=name)
        return await self.post(path + (f"?wait={wait}" if wait else ""), data=form, headers=headers)

    async def over(self, job_id: str, within_s: float = DEADLINE_S) -> dict[str, Any]:
        """The job's record once the job has ended."""

        async def ended() -> dict[str, Any] | None:
            job: dict[str, Any] = (await self.get(f"/jobs/{job_id}")).json
            # A job that follows another is there a moment after that one has ended.
            return job if job.get("status") in ("completed", "failed", "cancelled") else None

        return await eventually(ended, f"the end of job {job_id}", within_s)


@asynccontextmanager
async def client_of(server: Server, key: str = "") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    # aiohttp would open no more than 100 connections.
    timeout, connector = aiohttp.ClientTimeout(total=DEADLINE_S), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
        yield Client(server.url, session)
