"""A web server that breaks off in the middle, and goes on where it is asked to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

OLD = "Wed, 01 Jan 2020 00:00:00 GMT"


@dataclass
class Breaking:
    """Serves `document`, but at most `at_once` bytes of it for each request."""

    document: bytes
    at_once: int
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": '"v1"'})
    ranges: bool = True
    answer_range: Callable[[int, int], str] | None = None
    """What to claim in Content-Range for (start, length), where that is not the truth."""
    received: Callable[[], int] | None = None
    """How much the client has taken; the server breaks off only when that is all it has sent."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The Range and If-Range of each request."""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        wanted, condition = request.headers.get("Range", ""), request.headers.get("If-Range", "")
        self.asked.append((wanted, condition))
        version = self.headers.get("ETag") or self.headers.get("Last-Modified")
        start = 0
        found = re.fullmatch(r"bytes=(\d+)-", wanted)
        headers = {"Date": "Wed, 01 Jan 2025 00:00:00 GMT", **self.headers}
        status = 200
        if self.ranges and found and condition == version:
            start, status = int(found[1]), 206
            if start >= len(self.document):
                return web.Response(status=416, headers={"Content-Range": f"bytes */{len(self.document)}"})
            shown = f"bytes {start}-{len(self.document) - 1}/{len(self.document)}"
            headers["Content-Range"] = (
                self.answer_range(start, len(self.document)) if self.answer_range else shown
            )
        headers["Content-Length"] = str(len(self.document) - start)
        answer = web.StreamResponse(status=status, headers=headers)
        await answer.prepare(request)
        rest = self.document[start : start + self.at_once]
        if rest:
            await answer.write(rest)
        if start + len(rest) < len(self.document) and request.transport is not None:
            # What is on its way when a connection breaks may be lost.
            while self.received is not None and self.received() < start + len(rest):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            request.transport.close()
        return answer
