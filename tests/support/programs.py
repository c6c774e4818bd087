"""Quire's own processes, as an operator would run them: started, watched, killed."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from tests.support.environment import clean_environment
from tests.support.quire_processes import start_quire
from tests.support.waiting import DEADLINE_S, wait_until

_BOUNDARY = "part-of-the-storm"


class LossError(AssertionError):
    """Something that must never happen did."""


class Program:
    """One `quire` process and everything below it. Its log goes to a file that later runs add to."""

    def __init__(self, folder: Path, name: str, *args: str, **settings: str) -> None:
        self.log_path = folder / f"{name}.log"
        self.out_path = folder / f"{name}.out"
        with self.out_path.open("wb") as out, self.log_path.open("ab") as log:
            self.process = start_quire(
                *args,
                env=clean_environment(**{"LOG_LEVEL": "info", "LOG_PRETTY": "false", **settings}),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )

    def family(self) -> list[psutil.Process]:
        """The process and all that came of it."""
        try:
            top = psutil.Process(self.process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self, victims: Iterable[psutil.Process]) -> None:
        """SIGKILL for these; then the whole family must end, also those that were not hit."""
        family = self.family()
        for one in victims:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait(DEADLINE_S)
        wait_until(lambda: not alive(family), f"the end of {[one.pid for one in family]}")

    def end(self) -> int:
        """SIGTERM; answers the exit code."""
        family = self.family()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_S)
        wait_until(lambda: not alive(family), "the end of all its processes")
        return code

    def make_sure_it_is_gone(self) -> None:
        if self.process.poll() is None:
            self.kill(self.family())


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    found = []
    for one in processes:
        try:
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except psutil.NoSuchProcess:
            continue
    return found


class Service(Program):
    """`quire serve` on a free port, and what a client asks of it."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, "serve", "serve", "--port", "0", **settings)
        self.url = ""

    def wait_ready(self) -> Service:
        def announced() -> bool:
            if self.process.poll() is not None:
                raise LossError(f"the service did not start:\n{self.log_path.read_text()[-2000:]}")
            return self.out_path.read_text().endswith("\n")

        wait_until(announced, "the service answers")
        self.url = self.out_path.read_text().split()[-1]
        return self

    def submit(self, document: Path, key: str) -> str:
        """The id of the accepted job. OSError if the service went away before it had accepted."""
        head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{document.name}"\r\n\r\n'
        body = head.encode() + document.read_bytes() + f"\r\n--{_BOUNDARY}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}", "Idempotency-Key": key}
        request = urllib.request.Request(f"{self.url}/convert", body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return str(json.load(answer)["job_id"])

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def over(self, job_id: str) -> bool:
        return self.get(f"/jobs/{job_id}")["status"] in ("completed", "failed", "cancelled")
