"""Downloads that break off: completed where the server names the version, begun again everywhere else."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from quire.errors import DownloadError, LinkRefusedError, TooLargeError
from quire.links import LinkPolicy, Start, check_url, download, fetch
from quire.objects.partial_downloads import Partial, sweep_partials
from tests.links.test_share_links import ID, PAGE
from tests.support.link_servers import LENIENT, Received, answering, saying, serving
from tests.support.ranges import OLD, Breaking

DOCUMENT = bytes(range(256)) * 2000


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def content(partial: Partial) -> bytes:
    return b"".join([piece async for piece in partial.pieces()])


@pytest.mark.parametrize("version", [{"ETag": '"v1"'}, {"Last-Modified": OLD}])
async def test_the_rest_is_asked_for_when_the_connection_breaks(version: dict[str, str]) -> None:
    server = Breaking(DOCUMENT, 200_000, version)
    got, seen = Received(), list[tuple[int, int | None]]()
    server.received = lambda: len(got)

    async def progress(done: int, total: int | None) -> None:
        seen.append((done, total))

    async with serving(server.serve) as port:
        done = await download(f"http://127.0.0.1:{port}/a.pdf", got, LENIENT, progress)
    assert bytes(got) == DOCUMENT
    assert done.size == len(DOCUMENT)
    name = next(iter(version.values()))
    assert server.asked == [("", ""), ("bytes=200000-", name), ("bytes=400000-", name)]
    assert seen[-1] == (len(DOCUMENT), len(DOCUMENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"ETag": 'W/"v1"'},
        {"ETag": "v1"},
        {"Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"},
        {"Last-Modified": "not a date"},
        {"ETag": '"v1"', "Accept-Ranges": "none"},
    ],
)
async def test_nothing_is_pieced_together_when_the_version_is_not_named(headers: dict[str, str]) -> None:
    server = Breaking(DOCUMENT, 200_000, headers)
    async with serving(server.serve) as port:
        with pytest.raises(DownloadError) as caught:
            await download(f"http://127.0.0.1:{port}/a.pdf", Received(), LENIENT)
    assert caught.value.retryable
    assert server.asked == [("", "")]


async def test_a_part_is_completed_by_another_attempt_when_the_first_was_cut_off(tmp_path: Path) -> None:
    server = Breaking(DOCUMENT, 200_000)
    async with serving(server.serve) as port:
        url = f"http://127.0.0.1:{port}/a.pdf"
        with suppress(DownloadError):
            async with Partial(tmp_path, "job", "source") as part:
                server.received = lambda: part.size
                await download(url, part, LENIENT)
                raise DownloadError("the worker was stopped here")
        assert left_in(tmp_path) == ["job.note", "job.part"]
        server.asked.clear()
        server.at_once = len(DOCUMENT)
        # The first attempt had everything; the server has nothing beyond that, so it is begun again.
        async with Partial(tmp_path, "job", "source") as part:
            assert part.size == len(DOCUMENT)
            await download(url, part, LENIENT)
            assert await content(part) == DOCUMENT
    assert server.asked == [(f"bytes={len(DOCUMENT)}-", '"v1"'), ("", "")]
    assert left_in(tmp_path) == []


async def half(folder: Path, validator: str = '"v1"', size: int = 300_000) -> None:
    """What a killed attempt has left."""
    with suppress(DownloadError):
        async with Partial(folder, "job", "source") as part:
            await part.restart(validator)
            await part.write(DOCUMENT[:size])
            raise DownloadError("cut off")


async def test_only_the_rest_travels_when_a_part_is_there(tmp_path: Path) -> None:
    await half(tmp_path)
    server = Breaking(DOCUMENT, len(DOCUMENT))
    async with serving(server.serve) as port, Partial(tmp_path, "job", "source") as part:
        await download(f"http://127.0.0.1:{port}/a.pdf", part, LENIENT)
        assert await content(part) == DOCUMENT
    assert server.asked == [("bytes=300000-", '"v1"')]


@pytest.mark.parametrize(
    "server",
    [
        Breaking(DOCUMENT, len(DOCUMENT), {"ETag": '"v2"'}),
        Breaking(DOCUMENT, len(DOCUMENT), ranges=False),
        Breaking(DOCUMENT, len(DOCUMENT), answer_range=lambda at, n: f"bytes {at - 1}-{n - 1}/{n}"),
        Breaking(DOCUMENT, len(DOCUMENT), answer_range=lambda at, n: f"bytes 0-{n - 1}/{n}"),
        Breaking(DOCUMENT, len(DOCUMENT), answer_range=lambda at, n: "pages 1-2/3"),
        Breaking(DOCUMENT[:1000], 1000),
    ],
    ids=["another version", "no ranges", "shifted", "from the start", "not bytes", "shorter now"],
)
async def test_it_is_begun_again_when_the_rest_does_not_fit(tmp_path: Path, server: Breaking) -> None:
    server.asked.clear()
    await half(tmp_path)
    async with serving(server.serve) as port, Partial(tmp_path, "job", "source") as part:
        await download(f"http://127.0.0.1:{port}/a.pdf", part, LENIENT)
        assert await content(part) == server.document
    assert server.asked[0] == ("bytes=300000-", '"v1"')
    assert len(server.asked) <= 2


async def test_a_packed_rest_is_not_taken_when_the_part_is_plain(tmp_path: Path) -> None:
    await half(tmp_path)
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Range", ""))
        if asked[-1]:
            headers = {
                "Content-Range": f"bytes 300000-{len(DOCUMENT) - 1}/{len(DOCUMENT)}",
                "Content-Encoding": "gzip",
            }
            return web.Response(status=206, body=b"x" * (len(DOCUMENT) - 300_000), headers=headers)
        return web.Response(body=DOCUMENT)

    async with serving(handler) as port, Partial(tmp_path, "job", "source") as part:
        await download(f"http://127.0.0.1:{port}/a.pdf", part, LENIENT)
        assert await content(part) == DOCUMENT
    assert asked == ["bytes=300000-", ""]


async def test_the_limit_counts_everything_when_a_part_is_completed(tmp_path: Path) -> None:
    await half(tmp_path)
    async with serving(Breaking(DOCUMENT, len(DOCUMENT)).serve) as port:
        with pytest.raises(TooLargeError):
            async with Partial(tmp_path, "job", "source") as part:
                await download(f"http://127.0.0.1:{port}/", part, replace(LENIENT, max_bytes=400_000))
    assert left_in(tmp_path) == [], "no other attempt could do better"


async def test_every_hop_is_judged_again_when_the_rest_is_fetched(tmp_path: Path) -> None:
    await half(tmp_path)

    async def handler(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"http://inner.example:{request.url.port}/a.pdf")

    lookup, asked = answering(["127.0.0.1"], ["169.254.169.254"])
    async with serving(handler) as port:
        with pytest.raises(LinkRefusedError):
            async with Partial(tmp_path, "job", "source") as part:
                await download(f"http://outer.example:{port}/", part, LENIENT, lookup=lookup)
    assert asked == ["outer.example", "inner.example"]


async def test_the_rest_is_refused_when_the_name_was_rebound_meanwhile() -> None:
    got = Received()
    server = Breaking(DOCUMENT, 200_000, received=lambda: len(got))
    lookup, asked = answering(["127.0.0.1"], ["169.254.169.254"])
    async with serving(server.serve) as port:
        with pytest.raises(LinkRefusedError):
            await download(f"http://rebound.example:{port}/", got, LENIENT, lookup=lookup)
    assert len(asked) == 2
    assert len(server.asked) == 1


async def test_a_server_that_always_breaks_is_given_up_when_nothing_more_comes() -> None:
    server = Breaking(DOCUMENT, 0)
    async with serving(server.serve) as port:
        with pytest.raises(DownloadError) as caught:
            await download(f"http://127.0.0.1:{port}/", Received(), LENIENT)
    assert caught.value.retryable
    assert 1 <= len(server.asked) <= 3


@pytest.mark.parametrize("length", [10, 300])
async def test_no_more_than_announced_is_taken_when_the_body_has_another_length(length: int) -> None:
    body = b"%PDF" + b"x" * 96
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode() + body
    got = Received()
    async with saying(answer) as port:
        with suppress(DownloadError) if length < len(body) else pytest.raises(DownloadError):
            await download(f"http://127.0.0.1:{port}/", got, LENIENT)
    assert bytes(got) in (b"", body[:length])


# ---- the part itself ---------------------------------------------------------------------------------------


async def test_a_part_is_dropped_when_it_is_of_another_source(tmp_path: Path) -> None:
    await half(tmp_path)
    async with Partial(tmp_path, "job", "another source") as part:
        assert (part.size, part.validator) == (0, "")


async def test_a_part_is_dropped_when_the_machine_was_restarted(tmp_path: Path) -> None:
    await half(tmp_path)
    note = tmp_path / "job.note"
    note.write_text(note.read_text().replace('"boot": "', '"boot": "other-'))
    async with Partial(tmp_path, "job", "source") as part:
        assert part.size == 0


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"validator": 3}'])
async def test_a_part_is_dropped_when_its_note_is_damaged(tmp_path: Path, damage: str) -> None:
    await half(tmp_path)
    (tmp_path / "job.note").write_text(damage)
    async with Partial(tmp_path, "job", "source") as part:
        assert part.size == 0


async def test_two_attempts_do_not_mix_when_both_are_alive(tmp_path: Path) -> None:
    async with Partial(tmp_path, "job", "source") as one, Partial(tmp_path, "job", "source") as other:
        await one.restart('"v1"')
        await other.restart('"v1"')
        await one.write(b"one")
        await other.write(b"other")
        assert await content(one) == b"one"
        assert await content(other) == b"other"
    assert left_in(tmp_path) == []


async def test_old_parts_are_removed_when_nobody_comes_back(tmp_path: Path) -> None:
    await half(tmp_path)
    now = (tmp_path / "job.part").stat().st_mtime
    assert sweep_partials(tmp_path, now - 1) == 0
    async with Partial(tmp_path, "job", "source"):
        assert sweep_partials(tmp_path, now + 3600) == 0, "somebody works on it"
    await half(tmp_path)
    (tmp_path / "job.new").write_text("{")  # of a process that was killed in the middle of its note
    assert sweep_partials(tmp_path, now + 3600) == 1
    assert left_in(tmp_path) == []
    assert sweep_partials(tmp_path / "none", now) == 0


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from quire.objects.partial_downloads import Partial

async def main():
    async with Partial(Path(sys.argv[1]), "job", "source") as part:
        await part.restart('"v1"')
        for _ in range(3):
            await part.write(b"x" * (1 << 20))
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_what_was_written_is_there_when_the_process_was_killed(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED, str(tmp_path))
    assert await process.wait() == -signal.SIGKILL
    async with Partial(tmp_path, "job", "source") as part:
        assert part.size == 3 << 20
        assert part.validator == '"v1"'
        assert (tmp_path / "job.part").stat().st_mode & 0o077 == 0


# ---- share links -------------------------------------------------------------------------------------------


def shared(port: int, path: str = "/download") -> Start:
    """A share link's download, on a server that stands in for Google's."""
    url = f"http://drive.usercontent.google.com:{port}{path}?id={ID}"
    return Start(check_url(url, LinkPolicy(allow_private=True)), "Google Drive")


def drive(page: Callable[[int], str]) -> Callable[[web.Request], object]:
    async def handler(request: web.Request) -> web.Response:
        if request.query.get("uuid"):
            headers = {"Content-Disposition": "attachment; filename=big.pdf"}
            return web.Response(body=DOCUMENT, content_type="application/pdf", headers=headers)
        return web.Response(text=page(request.url.port or 0), content_type="text/html")

    return handler


async def test_a_large_file_arrives_when_drive_asks_first() -> None:
    lookup, asked = answering(["127.0.0.1"])
    got = Received()
    real = "https://drive.usercontent.google.com/download"

    def page(port: int) -> str:
        return PAGE.replace(real, f"http://drive.usercontent.google.com:{port}/download")

    async with serving(drive(page)) as port:  # type: ignore[arg-type]
        done = await fetch(shared(port), got, LENIENT, lookup=lookup)
    assert bytes(got) == DOCUMENT
    assert done.filename == "big.pdf"
    assert asked == ["drive.usercontent.google.com"] * 2, "the second hop is judged like the first"


async def test_the_page_behind_the_question_is_judged_when_it_is_private() -> None:
    real = "https://drive.usercontent.google.com/download"

    def page(port: int) -> str:
        return PAGE.replace(real, f"http://metadata.google.com:{port}/download")

    async with serving(drive(page)) as port:  # type: ignore[arg-type]
        answers, _ = answering(["127.0.0.1"], ["169.254.169.254"])
        with pytest.raises(LinkRefusedError):
            await fetch(shared(port), Received(), LENIENT, lookup=answers)


@pytest.mark.parametrize("page", ["<p>You need access</p>", "x" * 3_000_000])
async def test_the_reason_is_given_when_a_share_is_not_public(page: str) -> None:
    lookup, _ = answering(["127.0.0.1"])
    got = Received()
    async with serving(drive(lambda _: page)) as port:  # type: ignore[arg-type]
        with pytest.raises(DownloadError, match="Google Drive answered with a page") as caught:
            await fetch(shared(port), got, replace(LENIENT, max_bytes=10_000_000), lookup=lookup)
    assert not caught.value.retryable
    assert got == b""


async def test_a_shared_web_page_arrives_when_it_is_an_attachment() -> None:
    async def handler(_request: web.Request) -> web.Response:
        headers = {"Content-Disposition": "attachment; filename=page.html"}
        return web.Response(text="<p>mine</p>", content_type="text/html", headers=headers)

    lookup, _ = answering(["127.0.0.1"])
    got = Received()
    async with serving(handler) as port:
        await fetch(shared(port), got, LENIENT, lookup=lookup)
    assert got == b"<p>mine</p>"
