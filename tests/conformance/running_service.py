"""`quire serve` as a real process, and a client that knows only HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.environment import clean_environment
from tests.support.waiting import DEADLINE_S, eventually


class RunningService:
    """One `quire` process with its own data directory; `quire serve` on a free port without other arguments."""

    def __init__(self, folder: Path, settings: dict[str, str], *arguments: str) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.log_path = folder / "service.log"
        self._out = folder / "service.out"
        with self._out.open("wb") as out, self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "quire", *(arguments or ("serve", "--port", "0"))],
                env=clean_environment(**{"DATA_DIR": str(self.data_dir), "LOG_PRETTY": "false", **settings}),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )
        self.url = ""

    def wait_ready(self) -> RunningService:
        """Returns once the process has printed its address. Raises AssertionError with its log if it ended before."""
        deadline = time.monotonic() + DEADLINE_S
        while not (said := self._out.read_text()).endswith("\n"):
            assert self.process.poll() is None, f"the service did not start:\n{self.log}"
            assert time.monotonic() < deadline, f"the service does not answer:\n{self.log}"
            time.sleep(0.02)
        self.url = said.split()[-1]
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


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class HttpClient:
    """Requests to one service. `upload` and `finished` are for /convert and /jobs; `ask` is for everything."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    async def ask(self, method: str, path: str, **options: Any) -> HttpAnswer:
        async with self.session.request(method, self.url + path, **options) as response:
            return HttpAnswer(response.status, response.headers, await response.read())

    async def get(self, path: str, **options: Any) -> HttpAnswer:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, **options: Any) -> HttpAnswer:
        return await self.ask("POST", path, **options)

    async def upload(
        self, data: bytes, *, name: str = "report.pdf", path: str = "/convert", **fields: str
    ) -> HttpAnswer:
        form = aiohttp.FormData()
        for field, value in fields.items():
            form.add_field(field, value)
        form.add_field("file", data, filename=name)
        return await self.post(path, data=form)

    async def finished(self, job_id: str) -> dict[str, Any]:
        """The job's record once the job has ended."""

        async def ended() -> dict[str, Any] | None:
            job: dict[str, Any] = (await self.get(f"/jobs/{job_id}")).json
            return job if job["status"] in ("completed", "failed", "cancelled") else None

        return await eventually(ended, f"the end of job {job_id}")
