"""Callers that hold connections: slow, endless, too many, or with wrong keys. Others are served meanwhile."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import uvicorn
from uvicorn.server import ServerState

from quire.api.http.connection_limits import ConnectionLimits, ConnectionTable, Seat, address_group
from quire.api.http.guarded_protocol import GuardedProtocol
from quire.api.http.key_throttle import KeyThrottle
from quire.api.http.turn_queue import TurnQueue
from quire.settings import load
from tests.support.clocks import MovableClock
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S, until

LIVE = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BUSY = (
    b"POST /convert HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\nContent-Length: 999\r\n\r\nab"
)
KEYED = b"GET /jobs HTTP/1.1\r\nHost: h\r\nX-API-Key: %b\r\n\r\n"
HALF_HEADS = [b"GET /health/live HTTP/1.1\r\nHost: a", b"POST /parse HTTP/1.1\r\nHost: a", b"\r\n", b""]


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> int:
        """The status of the next response; 0 if the connection was closed without one."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return 0
            length = next(
                (
                    int(line[15:])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ),
                0,
            )
            self.body = await self.reader.readexactly(length)
        return int(head.split()[1])


@asynccontextmanager
async def wire_to(server: Server, address: str = "127.0.0.1") -> AsyncIterator[Wire]:
    parts = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, local_addr=(address, 0))
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


async def status_of(server: Server, request: bytes, address: str = "127.0.0.1") -> int:
    async with wire_to(server, address) as wire:
        with suppress(ConnectionError):  # it may have been refused already
            await wire.send(request)
        return await wire.status()


@pytest.fixture(scope="module")
def small(start_server: Callable[..., Server]) -> Server:
    """Twenty connections at most, and little patience."""
    return start_server(
        RUN_DISPATCHER="0", READER_PROCESSES="1", MAX_CONNECTIONS="20", HEADER_TIMEOUT="400ms"
    ).wait_ready()


@pytest.fixture(scope="module")
def keyed(start_server: Callable[..., Server]) -> Server:
    return start_server(
        RUN_DISPATCHER="0",
        READER_PROCESSES="1",
        API_KEYS="alpha:key-of-alpha,beta:key-of-beta",
        MAX_CONNECTIONS_PER_ADDRESS="5",
        WRONG_KEYS_PER_MINUTE="3",
    ).wait_ready()


@pytest.mark.parametrize("sent", HALF_HEADS)
async def test_connection_is_closed_when_its_head_does_not_come(small: Server, sent: bytes) -> None:
    async with wire_to(small) as wire:
        await wire.send(sent)
        assert await wire.status() in (0, 408)


async def test_connection_is_closed_when_its_second_head_does_not_come(small: Server) -> None:
    async with wire_to(small) as wire:
        await wire.send(LIVE)
        assert await wire.status() == 200
        await wire.send(b"GET /hea")
        assert await wire.status() in (0, 408)


@pytest.mark.parametrize("path", [b"POST /parse", b"GET /health/live"])
async def test_head_is_refused_and_not_kept_when_it_never_ends(small: Server, path: bytes) -> None:
    before = psutil.Process(small.process.pid).memory_info().rss
    async with wire_to(small) as wire:
        await wire.send(path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        reading = asyncio.create_task(wire.status())
        piece = b"x" * 262_144
        try:
            for _ in range(400):  # a hundred megabytes, if they are taken
                await wire.send(piece)
        except ConnectionError:
            pass
        assert await reading in (0, 431)
    assert psutil.Process(small.process.pid).memory_info().rss < before + 64_000_000
    assert await status_of(small, LIVE) == 200


async def test_head_is_refused_in_the_shape_of_all_errors_when_it_is_a_little_too_large(
    small: Server,
) -> None:
    async with wire_to(small) as wire:
        lines = b"".join(b"X-%d: %s\r\n" % (number, b"v" * 1000) for number in range(80))
        await wire.send(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n" + lines + b"\r\n")
        assert await wire.status() == 431
        assert json.loads(wire.body)["code"] == "head_too_large"
        assert set(json.loads(wire.body)) == {"error", "code", "retryable", "request_id"}


async def test_new_callers_are_served_when_all_places_are_held_by_half_heads(small: Server) -> None:
    async with AsyncExitStack() as stack:
        for number in range(60):
            wire = await stack.enter_async_context(wire_to(small))
            await wire.send(HALF_HEADS[number % 2])
        assert await status_of(small, LIVE) == 200


async def test_new_callers_get_503_at_once_when_all_connections_have_a_request(small: Server) -> None:
    async with AsyncExitStack() as stack:

        async def is_full() -> bool:
            """One more than before; some may have been turned away while those of other tests were still closing."""
            wire = await stack.enter_async_context(wire_to(small))
            with suppress(ConnectionError):
                await wire.send(BUSY)
            return await status_of(small, LIVE) == 503

        await until(is_full)

    async def is_served() -> bool:
        return await status_of(small, LIVE) == 200

    await until(is_served)


async def test_one_address_is_bounded_when_it_shows_no_key(keyed: Server) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(5):
            wire = await stack.enter_async_context(wire_to(keyed, "127.0.0.7"))
            await wire.send(b"GET /he")

        async def is_refused() -> bool:
            return await status_of(keyed, LIVE, "127.0.0.7") == 429

        await until(is_refused)
        assert await status_of(keyed, LIVE, "127.0.0.8") == 200


async def test_one_address_is_not_bounded_when_its_connections_have_a_key(keyed: Server) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(12):
            wire = await stack.enter_async_context(wire_to(keyed, "127.0.0.9"))
            await wire.send(KEYED % b"key-of-alpha")
            assert await wire.status() == 200


async def test_wrong_keys_are_refused_unread_when_there_were_too_many(keyed: Server) -> None:
    home = "127.0.0.10"
    assert await status_of(keyed, KEYED % b"key-of-alpha", home) == 200
    for number in range(3):
        assert await status_of(keyed, KEYED % b"guess-%d" % number, home) == 401
    assert await status_of(keyed, KEYED % b"guess-4", home) == 429
    assert (
        await status_of(keyed, KEYED % b"key-of-beta", home) == 429
    )  # a right guess is refused like the others
    assert await status_of(keyed, KEYED % b"key-of-alpha", home) == 200  # it was right from there before
    assert await status_of(keyed, KEYED % b"key-of-beta", "127.0.0.11") == 200


async def test_origin_is_refused_with_400_when_it_is_malformed(small: Server) -> None:
    request = b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://[\r\n\r\n"
    assert await status_of(small, request) == 400


async def _reads_all(_scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(("rate", "status"), [(1_000_000, 408), (10, 200)])
async def test_body_is_refused_when_it_comes_too_slowly(rate: int, status: int) -> None:
    limits = ConnectionLimits(10, 0, 60, rate, body_window_s=0.3)
    table = ConnectionTable(limits, lambda: 0.0)
    config = uvicorn.Config(_reads_all, lifespan="off", log_config=None)
    config.load()
    seats: list[Seat] = []

    def protocol() -> GuardedProtocol:
        seat = table.enter("127.0.0.1")
        assert isinstance(seat, Seat)
        seats.append(seat)
        return GuardedProtocol(
            *(b"", seat, limits, TurnQueue(25)), config=config, server_state=ServerState(), app_state={}
        )

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        wire = Wire(reader, writer)
        await wire.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4000\r\n\r\n")
        for _ in range(40):
            if not reader._buffer:  # type: ignore[attr-defined]
                await wire.send(b"x" * 100)
                await asyncio.sleep(0.03)
        assert await wire.status() == status
        writer.transport.abort()
        await until(lambda: table.enter("x") is not None and not table.waiting)


def limits_of(descriptors: int, **given: str) -> ConnectionLimits:
    return ConnectionLimits.of(load({"API_KEYS": "a:key-of-alpha", **given}), descriptors)


def test_descriptors_are_kept_for_the_service_when_few_are_allowed() -> None:
    assert limits_of(1_024).max_connections == 768
    assert limits_of(1_024, MAX_CONNECTIONS="5000").max_connections == 768
    assert limits_of(1_024).max_per_address == 192
    assert limits_of(1 << 20).max_connections == 16_384
    assert limits_of(1 << 20, MAX_CONNECTIONS="70000").max_connections == 70_000
    assert ConnectionLimits.of(load({}), 1_024).max_per_address == 0


def test_proxy_is_not_bounded_when_it_is_trusted() -> None:
    table = ConnectionTable(
        ConnectionLimits(100, 1, 1, 1, (ipaddress.IPv4Network("10.0.0.0/8"),)), lambda: 0.0
    )
    assert all(isinstance(table.enter("10.1.2.3"), Seat) for _ in range(9))
    assert [isinstance(table.enter("11.1.2.3"), Seat) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_network_counts_as_one_address_when_one_caller_has_all_of_it(address: str, group: str) -> None:
    assert address_group(address) == group


def test_address_may_try_again_when_a_minute_is_over() -> None:
    clock = MovableClock()
    throttle = KeyThrottle(2, clock)
    for _ in range(2):
        throttle.was_wrong("a")
    assert 0 < throttle.wait_s("a", b"k") <= 60
    assert throttle.wait_s("b", b"k") == 0
    clock.time += 61
    assert throttle.wait_s("a", b"k") == 0


def test_loopback_has_several_addresses() -> None:
    """The tests above need them; on other systems than Linux they would have to be made first."""
    with socket.socket() as one:
        one.bind(("127.0.0.9", 0))
