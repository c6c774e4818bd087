"""A batch backend that can be told to misbehave. Run as a module, it is a process of its own and prints its address.

Takes 50 ms for a batch and 5 ms for each image unless told otherwise (`POST /script`). What it has computed, for
which content, and how many batches were there at once, is at `GET /stats`. It speaks just enough HTTP for that and
reads bodies straight into their place, because what it costs is taken from whoever is measured.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

_NAME = b'"filename":"'
_HEAD_BYTES = 64 << 10


@dataclass(frozen=True)
class Script:
    fixed_ms: float = 50.0
    each_ms: float = 5.0
    hashes: bool = True  # decode and hash every image; without it only names are looked at
    shuffle: bool = False
    gaps: float = 0.0  # the chance that a result is left out
    duplicates: float = 0.0
    malformed: float = 0.0
    extra: int = 0
    poison: str = ""  # hash of the image that makes any batch with it fail
    status: int = 200  # answered at once instead of working
    batch_status: int = 200  # the same for batches only: /health stays fine
    empty: bool = False  # batches are answered without any results
    hang: bool = False
    hold: bool = False  # batches are answered when another script says so
    crowded: int = 0  # one that comes while so many are there is turned away before it is read
    seed: int = 1


@dataclass
class State:
    script: Script = field(default_factory=Script)
    computed: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    spans: list[tuple[float, float, float, int]] = field(
        default_factory=list
    )  # arrived, read, answered, images
    at_once: int = 0  # being computed
    most_at_once: int = 0
    here: int = 0  # also those of which the end has not come
    most_here: int = 0
    turned_away: int = 0
    calls: int = 0  # of /parse-batch
    health_checks: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(1))


Answer = tuple[int, Any]


async def parse_batch(state: State, body: bytearray, arrived: float) -> Answer:
    script, computed, spans = state.script, state.computed, state.spans
    state.calls += 1
    status = script.status if script.status != 200 else script.batch_status
    if status != 200:
        return status, {"error": "told so"}
    if script.empty:
        return 200, {"batch_id": "b", "results": []}
    read = time.monotonic()
    images = _hashed(body) if script.hashes else [(name, "") for name in _names(body)]
    state.sizes.append(len(images))
    try:
        if script.hang:
            await asyncio.sleep(3600)
        await asyncio.sleep((script.fixed_ms + script.each_ms * len(images)) / 1000)
        while state.script.hold:  # noqa: ASYNC110 - a script says so, and another ends it
            await asyncio.sleep(0.01)
        if script.hold and state.script.batch_status != 200:  # what ended the hold is a fault
            return state.script.batch_status, {"error": "told so"}
        if script.poison and any(digest == script.poison for _, digest in images):
            return 500, {"error": "CUDA error", "status": "failed"}
        computed.update(digest for _, digest in images)
        return 200, {"batch_id": "b", "results": _results(state, images), "images_processed": len(images)}
    finally:
        spans.append((arrived, read, time.monotonic(), len(images)))


def _results(state: State, images: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """With the faults of the script; but an image that is alone is answered well, or now and then one would fail."""
    script = state.script if len(images) > 1 else Script()
    results: list[dict[str, Any]] = []
    for name, digest in images:
        if state.chance.random() < script.gaps:
            continue
        element: Any = {"label": "para", "bbox": [1, 2, 3, 4], "text": digest or name, "reading_order": 0}
        if state.chance.random() < script.malformed:
            element = {"label": 7}
        results.append({"filename": name, "elements": [element], "element_count": 1})
        if state.chance.random() < script.duplicates:
            wrong = {**element, "text": "second answer"} if "text" in element else element
            results.append({"filename": name, "elements": [wrong], "element_count": 1})
    results += [{"filename": f"req_{n:016x}_idx_0_x", "elements": []} for n in range(script.extra)]
    if script.shuffle:
        state.chance.shuffle(results)
    return results


def _names(body: bytearray) -> list[str]:
    """The names, which stand before their images. Images are jumped over, to the quote at their end."""
    found, at = [], body.find(_NAME)
    while at >= 0:
        end = body.index(b'"', at + len(_NAME))
        found.append(body[at + len(_NAME) : end].decode())
        start = body.find(b':"', end)
        if start < 0:
            break
        at = body.find(_NAME, body.find(b'"', start + 2))
    return found


def _hashed(body: bytearray) -> list[tuple[str, str]]:
    found = json.loads(body)["images"]
    return [
        (one["filename"], hashlib.sha256(base64.b64decode(one["image_data"])).hexdigest()) for one in found
    ]


async def health(state: State, _body: bytearray, _arrived: float) -> Answer:
    state.health_checks += 1
    status = state.script.status
    return status, {"status": "healthy" if status == 200 else "away"}


async def set_script(state: State, body: bytearray, _arrived: float) -> Answer:
    state.script = replace(Script(), **json.loads(body))
    state.chance = random.Random(state.script.seed)
    return 200, asdict(state.script)


async def stats(state: State, _body: bytearray, _arrived: float) -> Answer:
    return 200, {
        "computed": dict(state.computed),
        "sizes": state.sizes,
        "spans": state.spans,
        "most_at_once": state.most_at_once,
        "at_once": state.at_once,
        "here": state.here,
        "most_here": state.most_here,
        "turned_away": state.turned_away,
        "calls": state.calls,
        "health_checks": state.health_checks,
    }


async def reset(state: State, _body: bytearray, _arrived: float) -> Answer:
    # New ones, so that what is still being computed for an earlier test is counted there.
    state.computed, state.sizes, state.spans = Counter(), [], []
    state.most_at_once = state.most_here = state.turned_away = state.calls = 0
    return 200, {}


ROUTES: dict[bytes, Callable[[State, bytearray, float], Awaitable[Answer]]] = {
    b"POST /parse-batch": parse_batch,
    b"GET /health": health,
    b"POST /script": set_script,
    b"GET /stats": stats,
    b"POST /reset": reset,
}


class Exchange(asyncio.BufferedProtocol):
    """One connection: a request, its answer, and the next."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._scratch = bytearray(_HEAD_BYTES)
        self._body: bytearray | None = None
        self._begin()

    def _begin(self) -> None:
        self._head = bytearray()
        self._spare = (
            self._body
        )  # full batches have one size, and new memory costs more than what is put there
        self._body = None
        self._filled = 0
        self._counted = self._here = False
        self._arrived = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def get_buffer(self, _sizehint: int) -> memoryview:
        if self._body is None or self._filled == len(self._body):
            return memoryview(self._scratch)
        return memoryview(self._body)[self._filled :]

    def buffer_updated(self, count: int) -> None:
        if self._body is not None:
            self._filled += count
        else:
            self._head += memoryview(self._scratch)[:count]
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            rest = self._head[end + 4 :]
            del self._head[end:]
            self._arrived = time.monotonic()
            length = _length(bytes(self._head))
            spare, self._spare = self._spare, None
            self._body = spare if spare is not None and len(spare) == length else bytearray(length)
            self._body[: len(rest)] = rest
            self._filled = len(rest)
            if self._head.startswith(b"POST /parse-batch") and not self._enter():
                return
        if self._filled >= len(self._body):
            self._counted = self._here
            if self._counted:
                self._state.at_once += 1
                self._state.most_at_once = max(self._state.most_at_once, self._state.at_once)
            self._task = asyncio.get_running_loop().create_task(self._answer(bytes(self._head), self._body))

    def connection_lost(self, _error: Exception | None) -> None:
        """What was begun is computed all the same, as on a real one."""
        self._transport = None
        self._uncount()

    def _enter(self) -> bool:
        """Whether there is room for another batch."""
        state = self._state
        if state.script.crowded and state.here >= state.script.crowded:
            state.turned_away += 1
            if self._transport is not None:
                self._transport.write(b"HTTP/1.1 503 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                self._transport.close()
            return False
        self._here = True
        state.here += 1
        state.most_here = max(state.most_here, state.here)
        return True

    def _uncount(self) -> None:
        if self._here:
            self._here = False
            self._state.here -= 1
        if self._counted:
            self._counted = False
            self._state.at_once -= 1

    async def _answer(self, head: bytes, body: bytearray) -> None:
        route = b" ".join(head.split(b" ", 2)[:2])
        status, shown = await ROUTES[route](self._state, body, self._arrived)
        text = json.dumps(shown).encode()
        opening = (
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        )
        self._uncount()
        self._begin()
        if self._transport is not None:
            self._transport.write(opening.encode() + text)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def _serve(port: int) -> None:
    state = State()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Exchange(state), "127.0.0.1", port, backlog=512)
    address = server.sockets[0].getsockname()
    sys.stdout.write(f"http://{address[0]}:{address[1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
