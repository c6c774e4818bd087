"""Documents in, SIGKILL again and again, and then an exact account: every page there, once, in order."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path

from quire.clock import SystemClock
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.embedded_server import EmbeddedServer
from quire.coordination.streams import Queues
from quire.domain.job import UnitKind
from tests.support.environment import ROOT
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.programs import LossError, Service
from tests.support.waiting import DEADLINE_S, wait_until

SCAN = ROOT / "samples" / "scan.pdf"
_SETTINGS = {"READER_CHUNK_PAGES": "4", "WORKER_TTL": "3s"}


@dataclass
class Document:
    path: Path
    seed: int
    pages: int | None
    """None for a scan: its pages carry no marks."""
    job_id: str | None = None


@dataclass
class Account:
    """What happened, for people to read."""

    kills: int = 0
    documents: int = 0
    pages: int = 0
    cut_off: int = 0
    unfinished_at_kill: list[int] = field(default_factory=list)


class Storm:
    """A service that is killed `kills` times while documents keep coming. Raises LossError for any loss."""

    def __init__(
        self,
        folder: Path,
        *,
        kills: int,
        seed: int,
        most_pages: int = 400,
        longest_calm_s: float = 1.5,
        say: Callable[[str], None] = lambda _: None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._kills = kills
        self._chance = random.Random(seed)
        self._most_pages = most_pages
        self._longest_calm_s = longest_calm_s
        self._say = say
        self._settings = {**_SETTINGS, "DATA_DIR": str(folder / "data"), **(settings or {})}
        self._documents: list[Document] = []
        self._account = Account()
        self._service: Service | None = None

    def run(self) -> Account:
        try:
            for turn in range(1, self._kills + 1):
                self._make_documents()
                service = self._start()
                submitting = threading.Thread(target=self._submit, args=(service,))
                submitting.start()
                time.sleep(self._chance.uniform(0.0, self._longest_calm_s))
                self._strike(service, turn)
                submitting.join()
            service = self._start()
            self._submit(service)
            self._await_all(service)
            self._check_documents(service)
            asyncio.run(self._check_queues())
            if left := list((self._folder / "data/objects/.incoming").glob("*")):
                raise LossError(f"{len(left)} half-written files are left behind")
            if service.end() != 0:
                raise LossError("the service did not end well")
        finally:
            if self._service is not None:
                self._service.make_sure_it_is_gone()
        return self._account

    def _start(self) -> Service:
        self._service = Service(self._folder, **self._settings)
        return self._service.wait_ready()

    def _make_documents(self) -> None:
        """One or two more."""
        for _ in range(self._chance.randint(1, 2)):
            number = len(self._documents) + 1
            path = self._folder / f"{number}.pdf"
            if number % 5 == 3:
                path.write_bytes(SCAN.read_bytes())
                self._documents.append(Document(path, number, None))
            else:
                pages = self._chance.choice((5, 40, 150, self._most_pages))
                self._documents.append(Document(marked_pdf(path, pages, number), number, pages))

    def _submit(self, service: Service) -> None:
        """Hands in what is not accepted yet, until it is or the service goes."""
        for document in self._documents:
            if document.job_id is None:
                try:
                    document.job_id = service.submit(document.path, f"document-{document.seed}")
                except (OSError, HTTPException):
                    self._account.cut_off += 1
                    return

    def _strike(self, service: Service, turn: int) -> None:
        open_jobs = sum(not service.over(one.job_id) for one in self._documents if one.job_id)
        family = service.family()
        if self._chance.random() < 0.5:
            victims, whom = family[:1], "the service alone"
        else:
            victims, whom = self._chance.sample(family, len(family)), f"all {len(family)} processes"
        service.kill(victims)
        self._account.kills = turn
        self._account.unfinished_at_kill.append(open_jobs)
        self._say(f"kill {turn:3}: {whom}, {open_jobs} of {len(self._documents)} documents unfinished")

    def _await_all(self, service: Service) -> None:
        for document in self._documents:
            if document.job_id is None:
                raise LossError(f"{document.path.name} was never accepted")
            wait_until(partial(service.over, document.job_id), f"the end of job {document.job_id}")

    def _check_documents(self, service: Service) -> None:
        for document in self._documents:
            job = service.get(f"/jobs/{document.job_id}")
            if job["status"] != "completed" or job["pages_failed"]:
                raise LossError(f"{document.path.name} ended as {job}")
            markdown = service.get(f"/jobs/{document.job_id}/result")["result"]["markdown"]
            self._account.documents += 1
            self._account.pages += job["total_pages"]
            if document.pages is None:
                if job["total_pages"] != len(markdown.split("\n\n---\n\n")):
                    raise LossError(f"{document.path.name} has not all its pages")
                continue
            expected = [marker(document.seed, number) for number in range(1, document.pages + 1)]
            if (found := markers_in(markdown)) != expected:
                raise LossError(f"{document.path.name}: {difference(expected, found)}")

    async def _check_queues(self) -> None:
        url = EmbeddedServer.attach_url(self._folder / "data")
        if url is None:
            raise LossError("the coordination server is gone")
        connection = RedisConnection.open(url)
        try:
            await nothing_left(connection)
        finally:
            await connection.close()


def difference(expected: list[str], found: list[str]) -> str:
    missing = len(set(expected) - set(found))
    doubled = len(found) - len(set(found))
    return (
        f"{missing} pages missing, {doubled} doubled, {len(found)} of {len(expected)} there, in another order"
    )


async def nothing_left(connection: RedisConnection) -> None:
    """Raises LossError unless the queues and the list of running jobs become empty."""
    queues = Queues(connection, SystemClock())
    deadline = time.monotonic() + DEADLINE_S
    while True:
        depths = {kind.value: await queues.depth(kind) for kind in UnitKind}
        held = {kind.value: sum((await queues.consumers(kind)).values()) for kind in UnitKind}
        left = {name: depth for name, depth in depths.items() if any(depth.values())}
        active = await connection.command("ZCARD", keys.ACTIVE)
        if not left and not active and not any(held.values()):
            return
        if time.monotonic() > deadline:
            raise LossError(f"left behind: {left}, in hand {held}, {active} active jobs")
        await asyncio.sleep(0.1)
