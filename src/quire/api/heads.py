"""The head of a request, for the door: read only where the request is a plain one for `POST /parse`."""

from __future__ import annotations

from dataclasses import dataclass, field

import httptools

_BEGINNINGS = (b"POST /parse ", b"POST /parse?")
_ELSEWHERE = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
"""Headers of requests that need more of a server than a length and a body."""

_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class Head:
    raw: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body_bytes: int
    keep_alive: bool


@dataclass(slots=True)
class _Collected:
    url: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))


def read_head(data: bytes, most_body_bytes: int) -> Head | None:
    """The head that `data` begins with; None for whatever is not a plain, whole head of `POST /parse`.

    Nothing is decided about the others, malformed ones among them: a complete HTTP server is asked.
    """
    end = data.find(b"\r\n\r\n") + 4
    if end < 4 or not data.startswith(_BEGINNINGS):
        return None
    found = _Collected()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(data[:end])
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    body_bytes = _body_bytes(found.headers)
    if body_bytes is None or parser.get_http_version() != "1.1":
        return None
    if not 0 < body_bytes <= most_body_bytes or len(data) - end > body_bytes:
        return None
    query = found.url.partition(b"?")[2].partition(b"#")[0]
    return Head(data[:end], query, found.headers, body_bytes, parser.should_keep_alive())


def _body_bytes(headers: list[tuple[bytes, bytes]]) -> int | None:
    """The length that is given, once and plainly; None where the body comes in another way."""
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _LONGEST_NUMBER:
        return None
    return None if any(name in _ELSEWHERE for name, _ in headers) else int(lengths[0])
