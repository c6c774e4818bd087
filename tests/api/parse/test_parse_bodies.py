"""What is refused, before anything is stored, and what is not."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from io import BytesIO
from typing import Any

import aiohttp
import pytest
from PIL import Image

from tests.batching.callers import as_raw, image, post, request_of
from tests.support.parse_fixtures import Simulated
from tests.support.serving import Server, client_of
from tests.support.waiting import eventually, until

JPEG_SIZE = 20_000


def made(kind: str, size: tuple[int, int] = (60, 40)) -> bytes:
    out = BytesIO()
    Image.new("RGB", size, "white").save(out, kind)
    return out.getvalue()


def bomb() -> bytes:
    """A PNG that says it is 30,000 pixels square."""
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + header + b"\x00" * 4


def stored(service: Server) -> list[str]:
    return sorted(path.name for path in service.data_dir.glob("objects/parse/bodies/*"))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'{"filename": "x.jpg"}', 400),
        (b'{"image_data": ""}', 400),
        (b'{"image_data": 7}', 400),
        (b'{"image_data": "not base64!"}', 400),
        (b'{"image_data": "QUJD" , "image_data": "QUJD"}', 400),
        (b'{"image_data": "QUJD"}', 400),
        (b'{"image_data": "QUJD", "filename": 7}', 400),
        (b'{"image_data": "QUJD", "colour": 7}', 400),
        (b'{"image_data": "' + b"A" * 6000 + b'!"}', 400),
        (b'{"filename": "' + b"A" * 6000 + b'", "image_data": "QUJD"}', 400),
        (b'{"image_data": "' + base64.b64encode(b"%PDF-1.7 " * 900) + b'"}', 400),
        (b'{"image_data": "' + base64.b64encode(bomb()) + b'"}', 413),
        (b'{"image_data": "' + b"QUJD" * 1_200_000 + b'"}', 413),
    ],
    ids=lambda given: str(given)[:40] if isinstance(given, bytes) else str(given),
)
async def test_json_is_refused_when_it_holds_no_image(
    service: Server, simulated: Simulated, body: bytes, status: int
) -> None:
    reply = await post(service.url, request_of([body], "application/json"))
    assert reply.status == status
    assert {"error", "code", "retryable", "request_id", "status"} <= set(reply.json)
    assert reply.json["status"] == "failed"
    assert stored(service) == []


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
async def test_image_is_read_when_its_format_can_be_converted(
    service: Server, simulated: Simulated, kind: str
) -> None:
    data = made(kind)
    reply = await post(service.url, request_of([data], "application/octet-stream"))
    assert reply.status == 200
    assert await asyncio.to_thread(lambda: sum(simulated.stats()["computed"].values())) == 1
    await until(lambda: stored(service) == [])


async def test_image_is_the_same_when_it_comes_raw_or_in_a_form(
    service: Server, simulated: Simulated
) -> None:
    raw = await post(service.url, request_of(as_raw(1, JPEG_SIZE), "image/jpeg"))
    async with client_of(service) as client:
        form = aiohttp.FormData()
        form.add_field("file", image(2, JPEG_SIZE).data, filename="mine.jpg")
        form.add_field("priority", "high")
        sent = await client.post("/parse", data=form)
    assert raw.json["results"][0]["text"] == image(1, JPEG_SIZE).digest
    assert sent.json["results"][0]["text"] == image(2, JPEG_SIZE).digest
    assert sent.json["filename"] == "mine.jpg"


async def test_body_over_the_bound_is_refused_when_its_length_is_announced_or_not(
    service: Server, simulated: Simulated
) -> None:
    large = as_raw(3, 3_500_000)
    announced = await post(service.url, request_of(large, "image/jpeg"))
    assert announced.status == 413

    async def pieces():  # type: ignore[no-untyped-def]
        for piece in large:
            yield piece

    async with client_of(service) as client:
        chunked = await client.post("/parse", data=pieces(), headers={"Content-Type": "image/jpeg"})
    assert chunked.status == 413
    await until(lambda: stored(service) == [], "no body is left, nor that of the test before")


async def test_nothing_stays_when_the_sender_stops_half_way(service: Server, simulated: Simulated) -> None:
    parts = service.url.removeprefix("http://").split(":")
    for kind in ("application/json", "image/jpeg", "multipart/form-data; boundary=x"):
        _, writer = await asyncio.open_connection(parts[0], int(parts[1]))
        opening = f"POST /parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 99999\r\n\r\n"
        writer.write(opening.encode() + b'{"image_data": "QUJDQUJD')
        await writer.drain()
        writer.transport.abort()
    reply = await post(service.url, request_of(as_raw(4, JPEG_SIZE), "image/jpeg"))
    assert reply.status == 200
    await until(lambda: stored(service) == [])
    assert service.incoming() == []


async def test_another_media_type_is_refused_when_it_is_no_image(
    service: Server, simulated: Simulated
) -> None:
    reply = await post(service.url, request_of([b"hello"], "text/plain"))
    assert reply.status == 415
    assert json.loads(reply.body)["code"] == "unsupported_media_type"


async def test_figures_are_there_when_prometheus_asks(service: Server, simulated: Simulated) -> None:
    assert (await post(service.url, request_of(as_raw(5, JPEG_SIZE), "image/jpeg"))).status == 200
    async with client_of(service) as client:
        text = (await client.get("/metrics")).body.decode()

        async def health_with_a_batch() -> Any:  # what health has checked is good for a second
            found = (await client.get("/health")).json
            return found if found["last_batch_sent"] else None

        health = await eventually(health_with_a_batch)
    for name in (
        "queue_depth_current",
        "batch_formation_rate",
        "modal_request_duration_seconds_count",
        "modal_success_rate",
        "request_latency_seconds_bucket",
        "active_connections",
    ):
        assert name in text
    assert health["modal_reachable"] is True
