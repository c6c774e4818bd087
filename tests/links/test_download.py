"""Downloads and callbacks against real servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from dataclasses import replace

import pytest
from aiohttp import web

from quire.errors import DownloadError, LinkRefusedError, ObjectsError, TooLargeError
from quire.links import Downloaded, LinkPolicy, download, post_json, sign, verify
from tests.support.link_servers import LENIENT, Received, answering, saying, serving

STRICT = replace(LENIENT, allow_private=False)


async def fetch(url: str, policy: LinkPolicy = LENIENT) -> tuple[bytes, Downloaded]:
    got = Received()
    done = await download(url, got, policy)
    return bytes(got), done


async def test_document_arrives_whole_when_the_server_is_decent() -> None:
    document = bytes(range(256)) * 3000
    seen: list[tuple[int, int | None]] = []

    async def handler(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        disposition = "attachment; filename=\"x.pdf\"; filename*=UTF-8''..%2Fgr%C3%B6%C3%9Fe.pdf"
        return web.Response(
            body=document, content_type="application/pdf", headers={"Content-Disposition": disposition}
        )

    async def progress(received: int, total: int | None) -> None:
        seen.append((received, total))

    got = Received()
    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}/docs/a.pdf?sig=1"
        done = await download(url, got, LENIENT, progress)
    assert bytes(got) == document
    assert done == Downloaded(url, "application/pdf", "größe.pdf", len(document))
    assert seen[-1] == (len(document), len(document))


async def test_name_comes_from_the_link_when_the_server_gives_none() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=b"x")

    async with serving(handler) as port:
        _, done = await fetch(f"http://127.0.0.1:{port}/a/My%20report%2E.pdf")
        _, nameless = await fetch(f"http://127.0.0.1:{port}/")
    assert done.filename == "My report.pdf"
    assert nameless.filename == "document"


async def test_credentials_and_cookies_stay_here_when_the_link_has_them() -> None:
    headers_seen = []

    async def handler(request: web.Request) -> web.StreamResponse:
        headers_seen.append({name.lower() for name in request.headers})
        if request.path == "/start":
            answer = web.Response(status=302, headers={"Location": "/end"})
            answer.set_cookie("track", "me")
            return answer
        return web.Response(body=b"end")

    async with serving(handler) as port:
        body, done = await fetch(f"http://user:pass@127.0.0.1:{port}/start")
    assert body == b"end"
    assert done.final_url == f"http://127.0.0.1:{port}/end"
    assert all({"authorization", "cookie", "referer"}.isdisjoint(seen) for seen in headers_seen)


async def test_environment_proxy_is_ignored_when_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=b"direct")

    async with serving(handler) as port:
        assert (await fetch(f"http://127.0.0.1:{port}/"))[0] == b"direct"


async def test_no_request_is_made_when_any_address_of_the_host_is_private() -> None:
    hits = []

    async def handler(request: web.Request) -> web.Response:
        hits.append(request.path)
        return web.Response(body=b"secret")

    async with serving(handler) as port:
        for addresses in (
            ["127.0.0.1"],
            ["93.184.216.34", "127.0.0.1"],
            ["93.184.216.34", "::ffff:127.0.0.1"],
        ):
            lookup, _ = answering(addresses)
            with pytest.raises(LinkRefusedError):
                await download(f"http://files.example:{port}/", Received(), STRICT, lookup=lookup)
            with pytest.raises(LinkRefusedError):
                await post_json(f"http://files.example:{port}/", b"{}", {}, STRICT, lookup=lookup)
    assert hits == []


async def test_connection_goes_to_the_checked_address_when_the_name_is_rebound() -> None:
    served_by = []

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        address = request.transport.get_extra_info("sockname")[0]
        served_by.append(address)
        return web.Response(body=address.encode())

    lookup, asked = answering(["127.0.0.2"], ["127.0.0.1"])
    async with serving(handler, "127.0.0.2", "127.0.0.1") as port:
        got = Received()
        await download(f"http://rebound.example:{port}/", got, LENIENT, lookup=lookup)
    assert got == b"127.0.0.2"
    assert served_by == ["127.0.0.2"]
    assert asked == ["rebound.example"]


async def test_redirect_is_checked_when_it_leads_somewhere_else() -> None:
    hits = []

    async def handler(request: web.Request) -> web.StreamResponse:
        hits.append(request.path)
        raise web.HTTPFound(f"http://second.example:{request.url.port}/inner")

    # The first hop is private as well (there is no other network here), so it is let in by its own policy;
    # the second name resolves to a metadata service, which no policy lets in.
    lookup, asked = answering(["127.0.0.1"], ["169.254.169.254"])
    async with serving(handler) as port:
        with pytest.raises(LinkRefusedError):
            await download(f"http://first.example:{port}/outer", Received(), LENIENT, lookup=lookup)
    assert hits == ["/outer"]
    assert asked == ["first.example", "second.example"]


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://[::ffff:169.254.169.254]/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "http://[",
    ],
)
async def test_redirect_is_refused_when_its_target_is(location: str) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": location})

    async with serving(handler) as port:
        with pytest.raises(LinkRefusedError):
            await fetch(f"http://127.0.0.1:{port}/")


async def test_redirects_are_given_up_when_there_are_too_many() -> None:
    hits = []

    async def handler(request: web.Request) -> web.Response:
        hits.append(request.path)
        return web.Response(status=302, headers={"Location": f"/{len(hits)}"})

    async with serving(handler) as port:
        with pytest.raises(DownloadError) as caught:
            await fetch(f"http://127.0.0.1:{port}/0")
    assert not caught.value.retryable
    assert len(hits) == LENIENT.max_redirects + 1


async def test_download_stops_at_the_limit_when_the_body_never_ends() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65_536)

    got = Received()
    async with serving(handler) as port:
        with pytest.raises(TooLargeError):
            await download(f"http://127.0.0.1:{port}/", got, LENIENT)
    assert len(got) <= LENIENT.max_bytes


async def test_nothing_is_read_when_the_announced_length_is_over_the_limit() -> None:
    got = Received()
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\nxxx", then_close=False) as port:
        with pytest.raises(TooLargeError):
            await download(f"http://127.0.0.1:{port}/", got, LENIENT)
    assert got == b""


async def test_download_is_given_up_when_the_body_drips() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x")
            await asyncio.sleep(0.02)

    async with serving(handler) as port:
        with pytest.raises(DownloadError) as caught:
            await fetch(f"http://127.0.0.1:{port}/", replace(LENIENT, timeout_s=0.3))
    assert caught.value.retryable


async def test_download_is_given_up_when_the_server_stalls() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", then_close=False) as port:
        with pytest.raises(DownloadError) as caught:
            await fetch(f"http://127.0.0.1:{port}/", replace(LENIENT, stall_s=0.1))
    assert caught.value.retryable
    assert "in time" in caught.value.public


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\n"
        + gzip.compress(b"abcdef", mtime=0)[:12],
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\nnot gz",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"",
    ],
)
async def test_download_may_be_tried_again_when_the_answer_is_broken(answer: bytes) -> None:
    async with saying(answer) as port:
        with pytest.raises(DownloadError) as caught:
            await fetch(f"http://127.0.0.1:{port}/")
    assert caught.value.retryable


async def test_body_is_unpacked_when_the_server_packs_it_unasked() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b"plain" * 1000), headers={"Content-Encoding": "gzip"})

    async with serving(handler) as port:
        assert (await fetch(f"http://127.0.0.1:{port}/"))[0] == b"plain" * 1000


async def test_packed_body_stops_at_the_limit_when_it_is_a_bomb() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})

    got = Received()
    async with serving(handler) as port:
        with pytest.raises(TooLargeError):
            await download(f"http://127.0.0.1:{port}/", got, LENIENT)
    assert len(got) <= LENIENT.max_bytes


@pytest.mark.parametrize(
    ("status", "headers", "retryable", "retry_after_s"),
    [
        (404, {}, False, None),
        (403, {"Retry-After": "5"}, False, None),
        (204, {}, False, None),
        (206, {}, False, None),
        (429, {"Retry-After": "7"}, True, 7),
        (500, {}, True, None),
        (503, {"Retry-After": "999999999"}, True, 86_400),
        (503, {"Retry-After": "soon"}, True, None),
        (
            503,
            {"Retry-After": "Wed, 01 Jan 2020 00:01:30 GMT", "Date": "Wed, 01 Jan 2020 00:01:00 GMT"},
            True,
            30,
        ),
    ],
)
async def test_error_says_whether_to_retry_when_the_server_answers_with_a_status(
    status: int, headers: dict[str, str], retryable: bool, retry_after_s: float | None
) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers)

    async with serving(handler) as port:
        with pytest.raises(DownloadError) as caught:
            await fetch(f"http://127.0.0.1:{port}/?token=abc")
    assert (caught.value.retryable, caught.value.retry_after_s) == (retryable, retry_after_s)
    assert str(status) in caught.value.public
    assert "abc" not in caught.value.public


async def test_download_may_be_tried_again_when_nobody_listens() -> None:
    async with saying(b"") as port:
        pass
    with pytest.raises(DownloadError) as caught:
        await fetch(f"http://127.0.0.1:{port}/")
    assert caught.value.retryable


async def test_error_of_the_part_goes_through_when_storage_fails() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=b"x")

    class Full(Received):
        async def write(self, chunk: bytes) -> None:
            raise ObjectsError("The disk is full.")

    async with serving(handler) as port:
        with pytest.raises(ObjectsError):
            await download(f"http://127.0.0.1:{port}/", Full(), LENIENT)


async def test_timeout_of_the_part_goes_through_when_it_is_not_ours() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=b"x")

    class Slow(Received):
        async def write(self, chunk: bytes) -> None:
            raise TimeoutError("the disk")

    async with serving(handler) as port:
        with pytest.raises(TimeoutError, match="the disk"):
            await download(f"http://127.0.0.1:{port}/", Slow(), LENIENT)


async def test_name_is_resolved_by_the_system_when_nothing_else_is_given() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=b"by name")

    async with serving(handler) as port:
        assert (await fetch(f"http://localhost:{port}/"))[0] == b"by name"


@pytest.mark.parametrize(("number", "retryable"), [(socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)])
async def test_lookup_error_says_whether_to_retry_when_the_name_is_not_found(
    number: int, retryable: bool
) -> None:
    async def lookup(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(number, "not found")

    with pytest.raises(DownloadError) as caught:
        await download("http://gone.example/?token=abc", Received(), STRICT, lookup=lookup)
    assert caught.value.retryable is retryable
    assert "gone.example" in caught.value.public
    assert "abc" not in caught.value.public


async def test_redirect_is_given_up_when_it_names_no_target() -> None:
    async with saying(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n") as port:
        with pytest.raises(DownloadError) as caught:
            await fetch(f"http://127.0.0.1:{port}/")
    assert not caught.value.retryable


async def test_callback_arrives_signed_when_posted() -> None:
    verified = []

    async def handler(request: web.Request) -> web.Response:
        body = await request.read()
        verified.append(verify(body, "key", request.headers["Quire-Signature"], now=1000.0))
        verified.append(request.content_type == "application/json")
        return web.Response(status=202, body=b"z" * 100_000)

    body = json.dumps({"job_id": "j1"}).encode()
    async with serving(handler) as port:
        headers = {"Quire-Signature": sign(body, "key", 1000)}
        assert await post_json(f"http://127.0.0.1:{port}/hook", body, headers, LENIENT) == 202
    assert verified == [True, True]


async def test_callback_follows_nothing_when_redirected() -> None:
    hits = []

    async def handler(request: web.Request) -> web.Response:
        hits.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with serving(handler) as port:
        with pytest.raises(DownloadError) as caught:
            await post_json(f"http://127.0.0.1:{port}/hook", b"{}", {}, LENIENT)
    assert hits == ["/hook"]
    assert not caught.value.retryable


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (410, False), (429, True), (502, True)])
async def test_callback_error_says_whether_to_retry_when_the_receiver_fails(
    status: int, retryable: bool
) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Retry-After": "4"})

    async with serving(handler) as port:
        with pytest.raises(DownloadError) as caught:
            await post_json(f"http://127.0.0.1:{port}/hook", b"{}", {}, LENIENT)
    assert caught.value.retryable is retryable
    assert caught.value.retry_after_s == (4 if retryable else None)


async def test_callback_is_given_up_when_there_is_no_answer_in_time() -> None:
    async with saying(b"", then_close=False) as port:
        with pytest.raises(DownloadError):
            await post_json(f"http://127.0.0.1:{port}/", b"{}", {}, replace(LENIENT, timeout_s=0.2))
