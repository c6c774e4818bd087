"""The whole corpus fed to a running service, and its health looked at all the while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.corpus import Hostile
from tests.support.serving import Answer, Client

_PAUSE_S = 0.05
_AT_ONCE = 4


_BOUNDARY = "quire-hostile-boundary"
_FORM = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}


def _form(data: bytes, filename: str) -> bytes:
    """A form as no honest client would write it: the name goes in as it is."""
    name = filename.replace("\r\n", "%0D%0A").replace('"', "%22").encode()
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="'
    return (
        f'{head}force"\r\n\r\ntrue\r\n{head}file"; filename="'.encode()
        + name
        + b'"\r\n\r\n'
        + data
        + f"\r\n--{_BOUNDARY}--\r\n".encode()
    )


@dataclass
class Health:
    """What `/health` answered, and how long each answer took."""

    statuses: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    async def watch(self, client: Client) -> None:
        while True:
            began = time.monotonic()
            answer = await client.get("/health")
            self.seconds.append(time.monotonic() - began)
            self.statuses.append(answer.status)
            await asyncio.sleep(_PAUSE_S)


@dataclass(frozen=True)
class Fed:
    case: Hostile
    answer: Answer
    job: dict[str, Any] | None


def prepare(cases: list[Hostile], folder: Path) -> list[tuple[Hostile, Path]]:
    """Makes every file beforehand: whoever makes files can't look at a clock."""
    made = []
    for place, case in enumerate(cases):
        path = folder / f"hostile-{place}"
        path.write_bytes(case.make())
        made.append((case, path))
    return made


async def feed(client: Client, made: list[tuple[Hostile, Path]], timeout_s: float) -> list[Fed]:
    """Uploads every file, a few at a time, and waits for what becomes of each."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(case: Hostile, path: Path) -> Fed:
        async with room:
            body = _form(await asyncio.to_thread(path.read_bytes), case.filename)
            answer = await client.post("/convert", data=body, headers=_FORM)
            job = await client.over(answer.json["job_id"], timeout_s) if answer.status == 202 else None
            return Fed(case, answer, job)

    return list(await asyncio.gather(*(one(case, path) for case, path in made)))


@asynccontextmanager
async def watched(client: Client) -> AsyncIterator[Health]:
    """Looks at the service's health as long as the block runs."""
    health = Health()
    watching = asyncio.create_task(health.watch(client))
    try:
        yield health
    finally:
        watching.cancel()
        await asyncio.wait({watching})
