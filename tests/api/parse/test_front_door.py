"""The door: whatever comes in by it, in whatever pieces, is answered as by an ordinary HTTP server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import psutil
import pytest

from quire.api.parse.door_connection import read_head
from tests.api.parse.test_parse_callers import asked
from tests.batching.callers import as_json, as_raw, image, post_image, request_of
from tests.support.parse_fixtures import Services, Simulated
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S, until

SIZE = 20_000
LIVE = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Wire:
    """A connection on which anything can be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        self.writer.writelines(pieces)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(DEADLINE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return int(head[0].split()[1]), headers, body

    async def is_over(self) -> bool:
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.read(1) == b""


@asynccontextmanager
async def wire_to(server: Server) -> AsyncIterator[Wire]:
    parts = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


def whole(number: int, **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return b"".join(request_of(as_json(number, SIZE), "application/json", named))


def text_of(body: bytes) -> str:
    return str(json.loads(body)["results"][0]["text"])


async def test_answers_come_in_order_when_requests_of_all_kinds_share_a_connection(
    service: Server, simulated: Simulated
) -> None:
    simulated.script(fixed_ms=1, each_ms=1)
    async with wire_to(service) as wire:
        for turn in range(3):
            await wire.send(whole(turn))
            status, _, body = await wire.answer()
            assert (status, text_of(body)) == (200, image(turn, SIZE).digest)
        await wire.send(LIVE)
        assert (await wire.answer())[0] == 200
        await wire.send(whole(9))
        status, _, body = await wire.answer()
        assert (status, text_of(body)) == (200, image(9, SIZE).digest)


async def test_both_are_answered_when_the_next_request_is_sent_before_the_answer(
    service: Server, simulated: Simulated
) -> None:
    simulated.script(fixed_ms=100)
    async with wire_to(service) as wire:
        await wire.send(whole(1), whole(2), LIVE)
        assert text_of((await wire.answer())[2]) == image(1, SIZE).digest
        assert text_of((await wire.answer())[2]) == image(2, SIZE).digest
        assert (await wire.answer())[0] == 200


@pytest.mark.parametrize("cuts", [(3,), (11,), (60,), (200, 5_000), (5_000, 5_001, 15_000)])
async def test_request_is_read_when_it_comes_in_pieces(
    service: Server, simulated: Simulated, cuts: tuple[int, ...]
) -> None:
    simulated.script(fixed_ms=1, each_ms=1)
    text, at = whole(3), 0
    async with wire_to(service) as wire:
        for cut in (*cuts, len(text)):
            await wire.send(text[at:cut])
            await asyncio.sleep(0.02)  # so that they are not one piece on the way
            at = cut
        status, _, body = await wire.answer()
    assert (status, text_of(body)) == (200, image(3, SIZE).digest)


async def test_request_is_answered_when_its_sender_pauses_half_way(
    service: Server, simulated: Simulated
) -> None:
    simulated.script(fixed_ms=1, each_ms=1)
    text = whole(4)
    async with wire_to(service) as slow:
        await slow.send(text[:9_000])
        # Longer than the door waits: the connection is handed to the complete server with what was read.
        await asyncio.sleep(2.8)
        assert text_of((await post_image(service.url, 5, SIZE)).body) == image(5, SIZE).digest
        await slow.send(text[9_000:])
        status, _, body = await slow.answer()
    assert (status, text_of(body)) == (200, image(4, SIZE).digest)


async def test_body_without_a_length_is_read_when_it_comes_in_chunks(
    service: Server, simulated: Simulated
) -> None:
    simulated.script(fixed_ms=1, each_ms=1)
    body = b"".join(as_raw(6, SIZE))
    opening = (
        b"POST /parse HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/jpeg\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    async with wire_to(service) as wire:
        await wire.send(opening, b"%x\r\n" % len(body), body, b"\r\n0\r\n\r\n")
        status, _, answer = await wire.answer()
    assert (status, text_of(answer)) == (200, image(6, SIZE).digest)


async def test_sender_is_told_to_go_on_when_it_asks_first(service: Server, simulated: Simulated) -> None:
    simulated.script(fixed_ms=1, each_ms=1)
    head, _, body = whole(7, Expect="100-continue").partition(b"\r\n\r\n")
    async with wire_to(service) as wire:
        await wire.send(head, b"\r\n\r\n")
        assert (await wire.answer())[0] == 100
        await wire.send(body)
        status, _, answer = await wire.answer()
    assert (status, text_of(answer)) == (200, image(7, SIZE).digest)


async def test_answer_has_the_usual_headers_when_it_is_given_at_the_door(
    service: Server, simulated: Simulated
) -> None:
    simulated.script(fixed_ms=1, each_ms=1)
    async with wire_to(service) as wire:
        await wire.send(whole(8, X_Request_ID="mine-1", Connection="close"))
        status, headers, _ = await wire.answer()
        assert await wire.is_over()
    assert status == 200
    assert headers["x-request-id"] == "mine-1"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["connection"] == "close"
    assert "date" in headers


async def test_request_is_refused_when_its_length_is_given_twice(
    service: Server, simulated: Simulated
) -> None:
    async with wire_to(service) as wire:
        await wire.send(*request_of([b"12345"], "image/jpeg", {"Content-Length": "5"}))
        assert (await wire.answer())[0] == 400
        assert await wire.is_over()


async def test_stranger_is_refused_when_it_comes_by_another_name(
    service: Server, simulated: Simulated
) -> None:
    async with wire_to(service) as wire:
        await wire.send(whole(1))  # a welcome one, remembered by its host
        assert (await wire.answer())[0] == 200
        await wire.send(whole(1).replace(b"Host: 127.0.0.1", b"Host: evil.example"))
        assert (await wire.answer())[0] == 401
        await wire.send(whole(1, Origin="http://evil.example"))
        assert (await wire.answer())[0] == 401


async def test_probe_is_answered_when_hundreds_wait(services: Services, simulated: Simulated) -> None:
    simulated.script(hold=True)
    service = services.start()
    callers = [asyncio.ensure_future(post_image(service.url, number, SIZE)) for number in range(600)]

    async def hundreds_wait() -> bool:
        return bool((await asked(service.url, "/queue/status"))["queue_depth"] >= 300)

    await until(hundreds_wait)
    async with wire_to(service) as wire:
        await wire.send(LIVE)
        assert (await wire.answer())[0] == 200
        assert not any(one.done() for one in callers)
    for one in callers:
        one.cancel()
    await asyncio.gather(*callers, return_exceptions=True)


async def test_nothing_stays_when_senders_break_off_or_lie_about_the_length(
    services: Services, simulated: Simulated
) -> None:
    service = services.start()
    simulated.script(fixed_ms=1, each_ms=1)
    await post_image(service.url, 0, SIZE)
    process = psutil.Process(service.process.pid)
    before = process.num_fds()

    async def ill(number: int) -> None:
        text = whole(number)
        async with wire_to(service) as wire:
            match number % 4:
                case 0:  # breaks off in the head
                    await wire.send(text[:50])
                case 1:  # breaks off in the body
                    await wire.send(text[:9_000])
                case 2:  # sends more than it said
                    await wire.send(text, b"and more\r\n\r\n")
                    assert (await wire.answer())[0] == 200
                    assert (await wire.answer())[0] == 400
                case _:  # leaves while it waits
                    await wire.send(text)

    await asyncio.gather(*(ill(number) for number in range(200)))
    await until(lambda: process.num_fds() <= before + 20)  # some to Redis may have been added
    await until(lambda: not list(service.data_dir.glob("objects/parse/bodies/*")))
    assert service.incoming() == []
    assert text_of((await post_image(service.url, 5, SIZE)).body) == image(5, SIZE).digest


HEAD = b"POST /parse HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n%b\r\n12345"


def test_head_is_taken_when_it_is_a_plain_one() -> None:
    head = read_head(HEAD.replace(b"/parse", b"/parse?priority=high") % b"X-A: b\r\n", 5)
    assert head is not None
    assert (head.query, head.body_bytes, head.keep_alive) == (b"priority=high", 5, True)
    assert dict(head.headers)[b"x-a"] == b"b"


@pytest.mark.parametrize(
    "data",
    [
        HEAD % b"Transfer-Encoding: chunked\r\n",
        HEAD % b"Content-Length: 5\r\n",
        HEAD % b"Expect: 100-continue\r\n",
        HEAD % b"Upgrade: websocket\r\nConnection: upgrade\r\n",
        HEAD % b"Bad Header\r\n",
        HEAD.replace(b"Length: 5", b"Length: +5") % b"",
        HEAD.replace(b"Length: 5", b"Length: 6000000") % b"",
        HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") % b"",
        HEAD.replace(b"/parse", b"/parse/1") % b"",
        HEAD.replace(b"POST", b"GET") % b"",
        (HEAD % b"")[:-10],
        HEAD % b"" + b"more than it says",
    ],
)
def test_head_is_left_to_the_complete_server_when_anything_is_unusual(data: bytes) -> None:
    assert read_head(data, 1 << 20) is None
