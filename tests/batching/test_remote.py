"""The batch as it is written to the backend: every image whole, whatever its size, and known to be sent when it is."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator

import pytest

from quire.batching.backend_protocol import SendPermit, SentImage
from quire.batching.parse_errors import BackendDownError, BackendFailedError
from quire.batching.remote_backend import BackendAddress, RemoteBackend
from tests.support.parse_fixtures import Simulated
from tests.support.waiting import DEADLINE_S


@pytest.fixture
async def remote(simulated: Simulated) -> AsyncIterator[RemoteBackend]:
    made = RemoteBackend(BackendAddress.of(simulated.url), 60.0, 4)
    yield made
    await made.close()


def images(*sizes: int) -> list[SentImage]:
    return [SentImage(f"{n:016x}", 'p"ä\n.jpg', os.urandom(size)) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "sizes", [(1,), (1, 2, 3, 4), (3 << 18, 1, (3 << 18) - 1, (3 << 18) + 1), (5_000_003,), (90_000,) * 32]
)
async def test_every_image_arrives_as_it_is_when_sizes_differ(
    sizes: tuple[int, ...], remote: RemoteBackend, simulated: Simulated
) -> None:
    simulated.script(fixed_ms=1, each_ms=0)
    sent = images(*sizes)
    calls: list[None] = []
    answer = await remote.parse(sent, SendPermit.immediate(lambda: calls.append(None)))
    assert len(calls) == 1
    texts = {one: found.elements for one, found in answer.images.items()}
    assert texts.keys() == {one.request_id for one in sent}
    for one in sent:
        assert hashlib.sha256(one.data).hexdigest().encode() in texts[one.request_id]


async def test_images_are_known_to_be_sent_when_the_backend_has_not_answered_yet(
    remote: RemoteBackend, simulated: Simulated
) -> None:
    simulated.script(hold=True)
    sent = asyncio.Event()
    parsing = asyncio.create_task(remote.parse(images(10, 3_000_000), SendPermit.immediate(sent.set)))
    async with asyncio.timeout(DEADLINE_S):
        await sent.wait()
        assert not parsing.done()
        simulated.script()
        assert len((await parsing).images) == 2


async def test_images_are_not_sent_when_the_backend_is_away(simulated: Simulated) -> None:
    remote = RemoteBackend(BackendAddress.of("http://127.0.0.1:9"), 5.0, 4)
    calls: list[None] = []
    with pytest.raises((BackendDownError, BackendFailedError)):
        await remote.parse(images(10), SendPermit.immediate(lambda: calls.append(None)))
    await remote.close()
    assert calls == []


@pytest.mark.parametrize(
    ("url", "path", "batch_url", "health_url", "has_health"),
    [
        ("http://gpu:9000", "/parse-batch", "http://gpu:9000/parse-batch", "http://gpu:9000/health", True),
        ("http://gpu/v1/", "/parse-batch", "http://gpu/v1/parse-batch", "http://gpu/v1/health", True),
        (
            "http://gpu/v1/parse-batch",
            "/parse-batch",
            "http://gpu/v1/parse-batch",
            "http://gpu/v1/health",
            True,
        ),
        ("http://gpu", "/v2/run", "http://gpu/v2/run", "http://gpu/health", True),
        (
            "https://me--app-parse-batch.modal.run",
            "/parse-batch",
            "https://me--app-parse-batch.modal.run",
            "https://me--app-parse-batch.modal.run/health",
            False,
        ),
        ("http://gpu/run?key=1", "-", "http://gpu/run?key=1", "http://gpu/health", False),
    ],
)
def test_url_is_used_as_it_is_when_it_names_the_endpoint(
    url: str, path: str, batch_url: str, health_url: str, has_health: bool
) -> None:
    assert BackendAddress.of(url, path) == BackendAddress(batch_url, health_url, has_health)
