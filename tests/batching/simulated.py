"""A batch backend that can be told to misbehave. Run as a module, it is a process of its own and prints its address.

Takes 50 ms for a batch and 5 ms for each image unless told otherwise (`POST /script`). What it has computed, for
which content, and how many batches were there at once, is at `GET /stats`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import Any

from aiohttp import web

_NAMES = re.compile(rb'"filename":"([^"]+)"')


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
    hang: bool = False
    seed: int = 1


@dataclass
class State:
    script: Script = field(default_factory=Script)
    computed: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    spans: list[tuple[float, float, float, int]] = field(
        default_factory=list
    )  # arrived, read, answered, images
    at_once: int = 0
    most_at_once: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(1))


async def parse_batch(request: web.Request) -> web.Response:
    state: State = request.app["state"]
    script = state.script
    if script.status != 200:
        await request.read()
        return web.json_response({"error": "told so"}, status=script.status)
    arrived = read = time.monotonic()
    images: list[tuple[str, str]] = []
    state.at_once += 1
    state.most_at_once = max(state.most_at_once, state.at_once)
    try:
        body = await request.read()
        read = time.monotonic()
        images = _hashed(body) if script.hashes else [(name.decode(), "") for name in _NAMES.findall(body)]
        del body
        state.sizes.append(len(images))
        if script.hang:
            await asyncio.sleep(3600)
        await asyncio.sleep((script.fixed_ms + script.each_ms * len(images)) / 1000)
        if script.poison and any(digest == script.poison for _, digest in images):
            return web.json_response({"error": "CUDA error", "status": "failed"}, status=500)
        results = []
        for name, digest in images:
            state.computed[digest] += 1
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
        return web.json_response({"batch_id": "b", "results": results, "images_processed": len(images)})
    finally:
        state.at_once -= 1
        state.spans.append((arrived, read, time.monotonic(), len(images)))


def _hashed(body: bytes) -> list[tuple[str, str]]:
    found = json.loads(body)["images"]
    return [
        (one["filename"], hashlib.sha256(base64.b64decode(one["image_data"])).hexdigest()) for one in found
    ]


async def health(request: web.Request) -> web.Response:
    status = request.app["state"].script.status
    return web.json_response({"status": "healthy" if status == 200 else "away"}, status=status)


async def set_script(request: web.Request) -> web.Response:
    state: State = request.app["state"]
    given = await request.json()
    state.script = replace(Script(), **given)
    state.chance = random.Random(state.script.seed)
    return web.json_response({one.name: getattr(state.script, one.name) for one in fields(Script)})


async def stats(request: web.Request) -> web.Response:
    state: State = request.app["state"]
    return web.json_response(
        {
            "computed": dict(state.computed),
            "sizes": state.sizes,
            "spans": state.spans,
            "most_at_once": state.most_at_once,
            "at_once": state.at_once,
        }
    )


async def reset(request: web.Request) -> web.Response:
    request.app["state"].computed.clear()
    request.app["state"].sizes.clear()
    request.app["state"].spans.clear()
    request.app["state"].most_at_once = 0
    return web.json_response({})


def app() -> web.Application:
    made = web.Application(client_max_size=1 << 30)
    made["state"] = State()
    made.router.add_post("/parse-batch", parse_batch)
    made.router.add_get("/health", health)
    made.router.add_post("/script", set_script)
    made.router.add_get("/stats", stats)
    made.router.add_post("/reset", reset)
    return made


async def _serve(port: int) -> None:
    runner = web.AppRunner(app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=512)
    await site.start()
    address = runner.addresses[0]
    sys.stdout.write(f"http://{address[0]}:{address[1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
