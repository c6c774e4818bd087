"""What goes wrong between a client and a service: cut wires, busy and stopping services, answers of another server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from quire.client import (
    AsyncQuire,
    BusyError,
    ConflictError,
    Quire,
    Retrying,
    TookTooLongError,
    UnreachableError,
    UnreadableError,
    UsageError,
)
from quire.client.conversions import EventReader
from quire.client.records import Event
from tests.client.conftest import KEY, QUICK, Wire
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S

Pdf = Callable[..., bytes]


async def test_nothing_is_doubled_when_answers_are_lost_on_the_way_back(
    wire: Wire, aquire: AsyncQuire, make_pdf: Pdf
) -> None:
    async with AsyncQuire(wire.url, KEY, retrying=QUICK) as cut:
        before = [job.job_id async for job in aquire.jobs()]
        wire.cuts = 3
        forced = await cut.convert(make_pdf("Sent four times"), force=True, wait=False)
        assert (wire.cuts, wire.connections >= 4) == (0, True)
        wire.cuts = 2
        plain = await cut.convert(make_pdf("Sent thrice"))
        assert "Sent thrice" in str(plain)
        after = [job.job_id async for job in aquire.jobs()]
        assert set(after) - set(before) == {forced.job_id, plain.job_id}
        await cut.wait(forced.job_id)
        wire.cuts = 2
        assert (await cut.retry(f"{forced.job_id}-p1")).retried is True
        assert (await cut.wait(forced.job_id)).status == "completed"
        # One retry only: the document's first run and this one.
        assert (await aquire.page(forced.job_id, 1)).attempts <= 2


async def test_events_go_on_where_they_were_when_the_connection_breaks(
    wire: Wire, aquire: AsyncQuire, make_pdf: Pdf
) -> None:
    pdf = make_pdf(*(f"Page {number}" for number in range(60)))
    async with AsyncQuire(wire.url, KEY, retrying=QUICK) as cut:
        told: list[int] = []

        def heard(page: object) -> None:
            told.append(page.number)  # type: ignore[attr-defined]
            if len(told) == 1:
                wire.cuts = 2  # from here on, twice

        done = await cut.convert(pdf, on_page=heard, force=True)
    assert sorted(told) == list(range(1, 61))
    assert done.markdown == (await aquire.result(done.job_id)).markdown


async def test_file_is_there_whole_or_not_at_all_when_a_download_breaks(
    wire: Wire, aquire: AsyncQuire, make_pdf: Pdf, tmp_path: Path
) -> None:
    big = make_pdf("Big") + b"\n%" + b"x" * (8 << 20)
    done = await aquire.convert(big)
    target = tmp_path / "big.pdf"
    async with AsyncQuire(wire.url, KEY, retrying=QUICK) as cut:
        wire.cuts, wire.cut_after = 1, 1 << 20
        with pytest.raises(UnreachableError, match="broke off"):
            await cut.original(done.job_id, target)
        assert not target.exists()
        wire.cuts = 0
        await cut.original(done.job_id, target)
    assert target.read_bytes() == big


async def test_attempts_end_when_nobody_ever_answers() -> None:
    async with AsyncQuire("http://127.0.0.1:9", retrying=Retrying(3, 0.001)) as unreachable:
        with pytest.raises(UnreachableError, match="quire serve") as caught:
            await unreachable.health()
    assert caught.value.retryable is True


@asynccontextmanager
async def answering(*answers: web.Response) -> AsyncIterator[tuple[str, list[web.BaseRequest]]]:
    """A server that is not Quire: gives these answers, then the last one for ever."""
    asked: list[web.BaseRequest] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request)
        found = answers[min(len(asked), len(answers)) - 1]
        return web.Response(status=found.status, headers=found.headers, body=found.body)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


def refusing(status: int, code: str, *, retryable: bool = True, **headers: str) -> web.Response:
    body = {"error": "No.", "code": code, "retryable": retryable, "request_id": "r1"}
    return web.Response(
        status=status,
        text=json.dumps(body),
        content_type="application/json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


async def test_call_is_repeated_when_the_service_says_later_but_not_for_ever() -> None:
    good = web.Response(text='{"status": "ok"}', content_type="application/json")
    async with answering(refusing(503, "busy"), refusing(429, "rate_limited"), good) as (url, asked):
        async with AsyncQuire(url, retrying=QUICK) as client:
            assert (await client.health())["status"] == "ok"
        assert len(asked) == 3
    async with answering(refusing(503, "busy", Retry_After="3600")) as (url, asked):
        async with AsyncQuire(url, retrying=QUICK) as client:
            with pytest.raises(BusyError) as caught:
                await client.health()
        assert caught.value.retry_after_s == 3600  # too long to wait: the caller decides
        assert len(asked) == 1
    async with answering(refusing(503, "busy")) as (url, asked):
        async with AsyncQuire(url, retrying=Retrying(3, 0.001)) as client:
            with pytest.raises(BusyError):
                await client.health()
        assert len(asked) == 3
    async with answering(refusing(503, "circuit_open", retryable=False)) as (url, asked):
        async with AsyncQuire(url, retrying=QUICK) as client:
            with pytest.raises(BusyError):
                await client.health()
        assert len(asked) == 1


async def test_same_key_is_sent_with_every_attempt_of_a_call_and_another_with_the_next() -> None:
    accepted = web.Response(
        status=202,
        text='{"job_id": "j", "status": "queued", "deduplicated": false}',
        content_type="application/json",
    )
    busy = refusing(503, "busy")
    async with answering(busy, busy, accepted) as (url, asked), AsyncQuire(url, retrying=QUICK) as client:
        await client.convert("https://example.org/a.pdf", wait=False)
        await client.convert("https://example.org/a.pdf", wait=False)
    keys = [request.headers["Idempotency-Key"] for request in asked]
    assert len(keys) == 4
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]


async def test_key_stays_here_when_the_answer_is_a_redirect_or_not_of_quire() -> None:
    for answer in (
        web.Response(status=302, headers={"Location": "http://127.0.0.1:9/"}),
        web.Response(status=404, text="<html>nginx</html>"),
        web.Response(text="<html>Welcome</html>"),
        web.Response(text='["a list"]', content_type="application/json"),
    ):
        async with answering(answer) as (url, asked), AsyncQuire(url, "secret", retrying=QUICK) as client:
            with pytest.raises(UnreadableError) as caught:
                await client.job("j")
            assert "secret" not in str(caught.value)
            assert len(asked) == 1
    async with answering(web.Response(status=502, text="Bad gateway")) as (url, asked):
        async with AsyncQuire(url, retrying=Retrying(2, 0.001)) as client:
            with pytest.raises(UnreachableError):
                await client.job("j")
        assert len(asked) == 2


async def test_real_service_says_when_to_come_back_when_it_is_full(tmp_path: Path, make_pdf: Pdf) -> None:
    server = Server(tmp_path, RUN_DISPATCHER="0", QUEUE_MAX_DOCUMENTS="1", READER_PROCESSES="1").wait_ready()
    try:
        async with AsyncQuire(server.url, retrying=Retrying(1)) as client:
            first = await client.convert(make_pdf("One"), wait=False)
            with pytest.raises(BusyError) as caught:
                await client.convert(make_pdf("Two"), wait=False)
            assert caught.value.retry_after_s == 5
            with pytest.raises(ConflictError):
                await client.retry(first.job_id)
            assert (await client.cancel(first.job_id)).status == "cancelled"
    finally:
        server.stop()


async def test_waiting_ends_and_the_work_goes_on_when_the_callers_time_is_up(
    tmp_path: Path, make_pdf: Pdf
) -> None:
    server = Server(tmp_path, RUN_DISPATCHER="0", READER_PROCESSES="1").wait_ready()
    try:
        async with AsyncQuire(server.url) as client:
            with pytest.raises(TookTooLongError) as caught:
                await client.convert(make_pdf("One"), wait_s=0.2)
            assert (await client.job(caught.value.job_id)).status == "queued"
            added = await client.documents.upload(make_pdf("Two"))
            with pytest.raises(TookTooLongError, match=added.document_id):
                await client.documents.wait(added.document_id, wait_s=0.2)
            assert (await client.documents.get(added.document_id)).status == "pending"
    finally:
        server.stop()


def test_events_are_put_together_when_they_come_in_any_pieces() -> None:
    text = 'retry: 2000\n\nid: 1-0\nevent: status\ndata: {"status":\ndata:  "ü"}\n\n: still here\n\n'
    raw = f"{text}event: pages\r\ndata: {{}}\r\n\r\n".encode()
    expected = [Event("1-0", "status", {"status": "ü"}), Event("", "pages", {})]
    for size in (1, 2, 3, 7, len(raw)):
        reader = EventReader()
        found = [event for at in range(0, len(raw), size) for event in reader.feed(raw[at : at + size])]
        assert found == expected, size
    with pytest.raises(UnreadableError):
        EventReader().feed(b"data: {not json}\n\n")
    with pytest.raises(UnreadableError):
        EventReader().feed(b"x" * (9 << 20))


async def test_a_waiting_call_ends_when_another_thread_closes_the_client() -> None:
    asked, over = asyncio.Event(), asyncio.Event()

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await over.wait()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        client = Quire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", retrying=QUICK)
        waiting = asyncio.create_task(asyncio.to_thread(client.health))
        try:
            async with asyncio.timeout(DEADLINE_S):
                await asked.wait()
                await asyncio.to_thread(client.close)
                with pytest.raises(UsageError, match="closed"):
                    await waiting
        finally:
            over.set()


def test_environment_is_used_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIRE_URL", "http://[::1]:9")
    client = AsyncQuire.from_environment()
    assert client._transport.shown == "http://[::1]:9"
    for address, key in (
        ("ftp://host", ""),
        ("http://user:pw@host", ""),
        ("http://host", "two\nlines"),
        ("host", ""),
    ):
        with pytest.raises(UsageError):
            AsyncQuire(address, key)
