"""Malformed, oversized and hostile requests: refused in the one shape, with nothing left behind, never a 500."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quire.reading.files import file_kinds
from tests.support.serving import Answer, Client, Server, client_of
from tests.support.waiting import DEADLINE_S, until

Pdf = Callable[..., bytes]
BOUNDARY = "quire-tests"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def part(name: str, value: bytes, filename: str | None = None) -> bytes:
    given_name = f'; filename="{filename}"' if filename is not None else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{given_name}\r\n\r\n'
    return head.encode() + value + b"\r\n"


def form(*parts: bytes, end: bool = True) -> bytes:
    return b"".join(parts) + (f"--{BOUNDARY}--\r\n".encode() if end else b"")


def check_error(answer: Answer, status: int, code: str = "bad_request") -> dict[str, Any]:
    body: dict[str, Any] = answer.json
    assert (answer.status, body["code"]) == (status, code), body
    assert set(body) <= {"error", "code", "retryable", "retry_after_seconds", "request_id"}
    assert body["request_id"] == answer.headers["X-Request-ID"]
    assert body["error"]
    return body


@pytest.fixture
def pdf(make_pdf: Pdf) -> bytes:
    return make_pdf(uuid.uuid4().hex)


async def test_fields_may_come_before_or_after_the_file(client: Client, pdf: bytes) -> None:
    for body in (
        form(part("pages", b"1"), part("file", pdf, "a.pdf"), part("mode", b"local")),
        form(part("file", pdf, "a.pdf"), part("pages", b"1"), part("mode", b"local"), part("prompt", b"")),
    ):
        answer = await client.post("/convert", data=body, headers=FORM)
        assert answer.status == 202, answer.body
        job = (await client.get(answer.headers["Location"])).json
        assert (job["options"]["pages"], job["options"]["mode"]) == ("1", "local")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"mode": "fast"}, "mode"),
        ({"mode": "ai"}, "mode"),
        ({"engine": "a b"}, "engine"),
        ({"model_tier": "best"}, "model_tier"),
        ({"pages": "5-1"}, "pages"),
        ({"pages": "0"}, "pages"),
        ({"pages": "1,,2"}, "pages"),
        ({"timeout_seconds": "soon"}, "timeout_seconds"),
        ({"timeout_seconds": "-1"}, "timeout_seconds"),
        ({"timeout_seconds": "nan"}, "timeout_seconds"),
        ({"timeout_seconds": "1e999"}, "timeout_seconds"),
        ({"force": "perhaps"}, "force"),
        ({"password": "a\0b"}, "password"),
        ({"prompt": "x" * 20_001}, "prompt"),
        ({"prompt": "x" * 200_000}, "prompt"),
        ({"callback_url": "ftp://example.org"}, ""),
        ({"source": "https://example.org/a.pdf"}, "source"),
        ({"colour": "red"}, "colour"),
        ({"Mode": "auto"}, "Mode"),
    ],
)
async def test_bad_field_is_named_and_the_file_forgotten(
    client: Client, server: Server, pdf: bytes, fields: dict[str, str], named: str
) -> None:
    before = server.originals()
    answer = await client.upload(pdf, fields)
    code = "bad_request" if named else "link_refused"
    assert named in check_error(answer, 400, code)["error"]
    assert server.originals() == before
    await until(lambda: server.incoming() == [])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'"https://example.org"', 400),
        (b"{}", 400),
        (b'{"source": 5}', 400),
        (b'{"source": ""}', 400),
        (b'{"source": "https://example.org/a", "source": "https://example.org/b"}', 400),
        (b'{"source": "https://example.org/a", "pages": 3}', 400),
        (b'{"source": "https://example.org/a", "force": 1}', 400),
        (b'{"source": "https://example.org/a", "timeout_seconds": true}', 400),
        (b'{"source": "https://example.org/a", "timeout_seconds": NaN}', 400),
        (b'{"source": "https://example.org/a", "timeout_seconds": 1e999}', 400),
        (b'{"source": "https://example.org/a", "timeout_seconds": ' + b"9" * 5000 + b"}", 400),
        (b'{"source": "https://example.org/a", "timeout_seconds": ' + b"9" * 400 + b"}", 400),
        (b'{"source": "https://example.org/\\u0000"}', 400),
        (b'{"source": "https://example.org/\\ud800"}', 400),
        (b'{"source": "https://example.org/a", "prompt": "\\udfff"}', 400),
        (b'{"source": "https://example.org/a", "nope": {"deep": []}}', 400),
        (b'{"source": "https://[::1"}', 400),
        (b'{"source": "file:///\\u0001"}', 400),
        (b'{"source": "https://example.org/' + b"a" * 10_000 + b'"}', 400),
        (b"[" * 200_000, 400),
        (b'{"a":' * 100_000, 400),
        (b"\xff\xfe{}", 400),
        (b'{"source": "' + b"a" * 1_100_000 + b'"}', 413),
    ],
    ids=range(27),
)
async def test_bad_json_is_refused(client: Client, body: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    answer = await client.post("/convert", data=body, headers=headers)
    assert answer.status == status, answer.body
    assert answer.json["code"] in ("bad_request", "link_refused", "too_large")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no form at all",
        form(),
        form(part("mode", b"local")),
        form(part("file", b"", "a.pdf")),
        form(part("file", b"%PDF-1.4 a", "a.pdf"), part("file", b"%PDF-1.4 b", "b.pdf")),
        form(part("mode", b"auto"), part("mode", b"local"), part("file", b"%PDF-1.4", "a.pdf")),
        form(part("other", b"%PDF-1.4", "a.pdf")),
        form(part("file", b"%PDF-1.4", "a.pdf"), end=False),
        form(part("file", b"%PDF-1.4", "a.pdf"), end=False)[:-20],
        form(part("file", b"%PDF-1.4" + b"x" * 200_000, "a.pdf"), end=False),
        form(part("file", b"%PDF-1.4", "a.pdf"), part("mode", b"local"), end=False),
        form(part("", b"x"), part("file", b"%PDF-1.4", "a.pdf")),
        form(part("mode", b"\xff\xfe"), part("file", b"%PDF-1.4", "a.pdf")),
        form(*(part(f"f{n}", b"x") for n in range(40)), part("file", b"%PDF-1.4", "a.pdf")),
        f"--{BOUNDARY}\r\nContent-Disposition: attachment\r\n\r\nx\r\n--{BOUNDARY}--".encode(),
        f"--{BOUNDARY}\r\nBroken header\r\n\r\nx\r\n--{BOUNDARY}--".encode(),
        f"--{BOUNDARY}\r\nA: {'x' * 100_000}\r\n\r\nx\r\n--{BOUNDARY}--".encode(),
    ],
    ids=range(18),
)
async def test_bad_form_is_refused_and_leaves_nothing(client: Client, server: Server, body: bytes) -> None:
    before = server.originals()
    check_error(await client.post("/convert", data=body, headers=FORM), 400)
    assert server.originals() == before
    await until(lambda: server.incoming() == [])


async def test_upload_cut_off_by_its_sender_leaves_nothing(client: Client, server: Server) -> None:
    before = server.originals()
    host, port = server.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = form(part("file", b"%PDF-1.4" + b"x" * 300_000, "a.pdf"), end=False)
    writer.write(
        f"POST /convert HTTP/1.1\r\nHost: {host}\r\nX-API-Key: key-of-alpha\r\nX-Request-ID: cut-off\r\n"
        f"Content-Type: {FORM['Content-Type']}\r\nContent-Length: 3000000\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    await until(lambda: len(server.incoming()) == 1)
    writer.close()
    await until(lambda: "cut-off" in server.log_path.read_text())
    await until(lambda: server.incoming() == [])
    assert server.originals() == before


async def test_large_upload_is_refused_at_the_bound(client: Client, server: Server) -> None:
    before = server.originals()
    most = 4 << 20
    check_error(await client.upload(b"%PDF-1.4" + b"x" * (most - 7)), 413, "too_large")

    async def endless() -> Any:
        yield part("file", b"%PDF-1.4", "a.pdf")[:-2]
        while True:
            yield b"x" * 65_536

    # Without a length in advance the server must answer while the rest is still coming.
    sending = aiohttp.ClientTimeout(total=30)
    try:
        answer = await client.post("/convert", data=endless(), headers=FORM, timeout=sending)
    except aiohttp.ClientConnectionError:
        pytest.fail("the connection was cut before the answer could be read")
    check_error(answer, 413, "too_large")
    assert server.originals() == before
    await until(lambda: server.incoming() == [])
    assert (await client.upload(b"%PDF-1.4" + b"x" * (most - 8))).status == 202


async def test_announced_length_over_the_bound_is_refused_before_the_body(server: Server) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /convert HTTP/1.1\r\nHost: {host}\r\nX-API-Key: key-of-alpha\r\nExpect: 100-continue\r\n"
        f"Content-Type: {FORM['Content-Type']}\r\nContent-Length: 99999999999\r\n\r\n".encode()
    )
    line = await asyncio.wait_for(reader.readline(), DEADLINE_S)
    writer.close()
    assert b" 413 " in line


@pytest.mark.parametrize(
    ("data", "detected"),
    [
        (b"\x7fELF" + b"\0" * 100, "application/x-elf"),
        (b"PK\x03\x04" + b"\0" * 100, "application/zip"),
        (bytes(range(256)) * 20, "application/octet-stream"),
        (b"AT&TFORM" + bytes(50), "image/vnd.djvu"),
        (file_kinds.OLE_MARK + b"\0" * 500, "application/x-ole-storage"),
        (b"GIF8" + b"\0" * 70_000, "application/octet-stream"),
    ],
)
async def test_type_that_can_not_be_read_is_told_at_once(
    client: Client, server: Server, data: bytes, detected: str
) -> None:
    before = server.originals()
    answer = await client.upload(data, name="looks-like.pdf")
    assert detected in check_error(answer, 415, "unsupported_type")["error"]
    assert server.originals() == before
    await until(lambda: server.incoming() == [])


async def test_body_of_another_type_is_415(client: Client, pdf: bytes) -> None:
    for kind in (
        "application/x-www-form-urlencoded",
        "application/pdf",
        "text/plain",
        "",
        "multipart/mixed",
        ";",
    ):
        answer = await client.post("/convert", data=pdf, headers={"Content-Type": kind})
        check_error(answer, 415, "unsupported_media_type")
    packed = {**FORM, "Content-Encoding": "gzip"}
    answer = await client.post("/convert", data=form(part("file", pdf, "a.pdf")), headers=packed)
    check_error(answer, 415, "unsupported_media_type")
    for bad in (
        "multipart/form-data",
        f"multipart/form-data; boundary={'x' * 300}",
        "multipart/form-data; boundary=",
    ):
        check_error(await client.post("/convert", data=b"x", headers={"Content-Type": bad}), 400)


async def test_addresses_that_do_not_exist_answer_in_the_one_shape(client: Client) -> None:
    check_error(await client.get("/nowhere"), 404, "not_found")
    check_error(await client.get("/static/../../etc/passwd"), 404, "not_found")
    check_error(await client.get("/jobs/"), 404, "not_found")
    check_error(await client.get(f"/jobs/{uuid.uuid4()}"), 404, "not_found")
    check_error(await client.get("/jobs/%00"), 404, "not_found")
    wrong = await client.ask("DELETE", "/jobs")
    check_error(wrong, 405, "method_not_allowed")
    assert wrong.headers["Allow"] == "GET"
    for query in ("wait=601", "wait=-1", "wait=nan", "wait=x", "wait=1&mode=local", "format=odd"):
        named = query.split("&")[-1].split("=")[0]
        answer = await client.post(f"/convert?{query}", json={"source": "https://example.org/a"})
        assert named in check_error(answer, 400)["error"]


async def test_request_id_is_kept_when_sane_and_made_otherwise(client: Client, server: Server) -> None:
    kept = await client.get("/nowhere?secret=hush", headers={"X-Request-ID": "abc-DEF_123"})
    assert kept.headers["X-Request-ID"] == kept.json["request_id"] == "abc-DEF_123"
    for odd in ("a b", "x" * 65, "ä", "<b>"):
        made = await client.get("/nowhere", headers={"X-Request-ID": odd})
        assert made.headers["X-Request-ID"] != odd
        assert made.headers["X-Request-ID"] == made.json["request_id"]
    await until(lambda: "abc-DEF_123" in server.log_path.read_text())
    lines = [line for line in server.log_path.read_text().splitlines() if "abc-DEF_123" in line]
    logged = json.loads(lines[0])
    assert (logged["method"], logged["status"], logged["path"]) == ("GET", 404, "(none)")
    assert "hush" not in server.log_path.read_text()


_NAMES = st.sampled_from(
    [
        "source",
        "mode",
        "pages",
        "password",
        "timeout_seconds",
        "callback_url",
        "force",
        "engine",
        "prompt",
        "x",
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_REQUESTS = st.one_of(
    st.tuples(
        st.just("application/json"),
        st.dictionaries(_NAMES, _VALUES, max_size=4).map(lambda found: json.dumps(found).encode()),
    ),
    st.tuples(st.just("application/json"), st.binary(max_size=60)),
    st.tuples(
        st.just(FORM["Content-Type"]),
        st.lists(
            st.tuples(_NAMES | st.just("file") | st.text(max_size=8), st.binary(max_size=40)).map(
                lambda pair: part(json.dumps(pair[0])[1:-1], pair[1])
            ),
            max_size=4,
        ).map(lambda parts: form(*parts)),
    ),
    st.tuples(st.just(FORM["Content-Type"]), st.binary(max_size=200).map(form)),
    st.tuples(
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30), st.binary(max_size=60)
    ),
)
_PATHS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=40)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    request=_REQUESTS,
    path=_PATHS,
    last_id=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
)
def test_server_never_answers_500_whatever_is_sent(
    idle_server: Server, request: tuple[str, bytes], path: str, last_id: str
) -> None:
    async def send() -> None:
        async with client_of(idle_server) as one:
            kind, body = request
            answers = [
                await one.post("/convert", data=body, headers={"Content-Type": kind}),
                await one.get(f"/jobs/{path}", headers={"Last-Event-ID": last_id}),
                await one.get(f"/jobs?{path}"),
                await one.post(f"/dlq/{path}/replay"),
            ]
            for answer in answers:
                assert answer.status < 500 or answer.json["code"] == "busy", answer.body
            if answers[0].status == 202:
                await one.post(answers[0].json["links"]["cancel"])

    asyncio.run(send())
