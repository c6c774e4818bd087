"""The same service with the in-memory batchers people use. Run as `peers.py bare|batched|mosec BACKEND_URL PORT`, in an
environment of its own; nothing here is part of Quire. (LitServe has a file of its own: it pickles its parts.)"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

BATCH, WAIT_MS, SLOTS = 32, 10, 4


def serve_bare(backend_url: str, port: int) -> None:
    """Reads bodies, forwards them in batches, answers. What any batcher in this language has to do, and no more."""
    import asyncio
    from collections import deque

    import aiohttp
    import uvloop

    waiting: deque[tuple[asyncio.Transport, bytes]] = deque()

    class Caller(asyncio.BufferedProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport, self.scratch, self.body, self.filled = transport, bytearray(65536), None, 0

        def get_buffer(self, _hint: int) -> memoryview:
            if self.body is None or self.filled == len(self.body):
                return memoryview(self.scratch)[0 if self.body else self.filled :]
            return memoryview(self.body)[self.filled :]

        def buffer_updated(self, count: int) -> None:
            self.filled += count
            if self.body is None:
                end = self.scratch.find(b"\r\n\r\n", 0, self.filled)
                if end < 0:
                    return
                head = bytes(self.scratch[:end]).lower()
                self.body = bytearray(int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]))
                rest = self.scratch[end + 4 : self.filled]
                self.body[: len(rest)], self.filled = rest, len(rest)
            if self.filled == len(self.body):
                waiting.append((self.transport, self.body))
                wake.set()

    async def send(session: aiohttp.ClientSession) -> None:
        while True:
            while not waiting:
                wake.clear()
                await wake.wait()
            batch = [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]
            # The file name is the first field of what the callers send; it is replaced by the place in the batch.
            images = [
                b'{"filename":"i%d"' % place + body[body.index(b",") :]
                for place, (_, body) in enumerate(batch)
            ]
            body = b'{"images":[' + b",".join(images) + b"]}"
            async with session.post(f"{backend_url}/parse-batch", data=body) as answer:
                found = {one["filename"]: one for one in (await answer.json())["results"]}
            for place, (transport, _) in enumerate(batch):
                text = json.dumps(found[f"i{place}"]).encode()
                transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(Caller, "127.0.0.1", port, backlog=2048)
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(send(session) for _ in range(SLOTS)))

    wake = asyncio.Event()
    uvloop.run(serve())


def serve_batched(backend_url: str, port: int) -> None:
    import aiohttp
    import batched
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    state: dict[str, Any] = {}

    async def send(images: list[dict[str, str]]) -> list[Any]:
        if "session" not in state:
            state["session"] = aiohttp.ClientSession()
        names = [
            {"filename": f"i{place}", "image_data": one["image_data"]} for place, one in enumerate(images)
        ]
        async with state["session"].post(
            f"{backend_url}/parse-batch", data=json.dumps({"images": names}, separators=(",", ":"))
        ) as answer:
            found = {one["filename"]: one for one in (await answer.json())["results"]}
        return [found[f"i{place}"] for place in range(len(images))]

    # One processor has one batch out at a time; as many processors as the backend takes batches.
    processors = [batched.aio.dynamically(batch_size=BATCH, timeout_ms=WAIT_MS)(send) for _ in range(SLOTS)]
    turn = 0

    async def parse(request: Request) -> Any:
        nonlocal turn
        given = json.loads(await request.body())
        base64.b64decode(given["image_data"], validate=True)
        turn += 1
        return JSONResponse(await processors[turn % SLOTS](given))

    app = Starlette(routes=[Route("/parse", parse, methods=["POST"])])
    print(f"http://127.0.0.1:{port}", flush=True)
    uvicorn.run(app, port=port, log_level="warning", backlog=2048, loop="uvloop")


def serve_mosec(backend_url: str, port: int) -> None:
    import urllib.request

    from mosec import Runtime, Server, Worker

    class Sender(Worker):  # type: ignore[misc]
        def deserialize(self, data: bytes) -> Any:
            given = json.loads(data)
            base64.b64decode(given["image_data"], validate=True)
            return given

        def forward(self, data: list[Any]) -> list[Any]:
            names = [
                {"filename": f"i{place}", "image_data": one["image_data"]} for place, one in enumerate(data)
            ]
            request = urllib.request.Request(
                f"{backend_url}/parse-batch", json.dumps({"images": names}, separators=(",", ":")).encode()
            )
            with urllib.request.urlopen(request) as answer:
                found = {one["filename"]: one for one in json.load(answer)["results"]}
            return [found[f"i{place}"] for place in range(len(data))]

    sys.argv = [
        "mosec",
        "--port",
        str(port),
        "--capacity",
        "4096",
        "--timeout",
        "60000",
        "--log-level",
        "warning",
    ]
    server = Server()
    server.register_runtime(
        {
            "/parse": [
                Runtime(Sender, num=SLOTS, max_batch_size=BATCH, max_wait_time=WAIT_MS, start_method="fork")
            ]
        }
    )
    server.run()


if __name__ == "__main__":
    serve = {"bare": serve_bare, "batched": serve_batched, "mosec": serve_mosec}
    serve[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
