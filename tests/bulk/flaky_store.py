"""A proxy before an S3 server that throttles (503 SlowDown), closes connections and tears uploads."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.waiting import DEADLINE_S

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class FlakyServer(ThreadingHTTPServer):
    """Every third request of a kind is refused, every seventh connection is closed, the first upload is torn."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream).netloc
        self.requests = 0
        self.refused = 0
        self.torn = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FlakyServer

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        server.requests += 1
        if server.requests % 7 == 0:
            self.close_connection = True
            server.refused += 1
            return
        if server.requests % 3 == 0:
            server.refused += 1
            self._answer(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
            return
        if self.command == "PUT" and ".parquet" in self.path and not server.torn:
            server.torn += 1
            body = body[: len(body) // 2]
        status, headers, content = self._forward(body)
        self._answer(status, headers, content)

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=DEADLINE_S)
        kept = {k: v for k, v in self.headers.items() if k.lower() not in ("content-length", "content-md5")}
        connection.request(self.command, self.path, body, kept)
        answer = connection.getresponse()
        content = answer.read()
        headers = {
            k: v for k, v in answer.getheaders() if k.lower() not in ("transfer-encoding", "connection")
        }
        connection.close()
        return answer.status, headers, content

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        if self.command != "HEAD":
            headers = {k: v for k, v in headers.items() if k.lower() != "content-length"}
            headers["Content-Length"] = str(len(content))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve  # noqa: N815 - the names of http.server

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are counted."""


@contextmanager
def flaky(upstream: str) -> Iterator[FlakyServer]:
    server = FlakyServer(upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
