"""The batch backend on this machine: reads images in the child pool. `quire backend` serves it over HTTP."""

from __future__ import annotations

import asyncio
import binascii
import dataclasses
import json
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pybase64

from quire.batching.backend_protocol import BatchAnswer, ImageAnswer, SendPermit, SentImage, dump
from quire.clock import Clock
from quire.errors import QuireError, RequestError
from quire.reading.ocr.picture_elements import ElementOptions, read_elements
from quire.reading.pool.child_pool import ChildPool

if TYPE_CHECKING:
    from aiohttp import web


class LocalBackend:
    def __init__(self, pool: ChildPool, options: ElementOptions, timeout_s: float) -> None:
        self._pool = pool
        self._options = options
        self._timeout_s = timeout_s

    async def parse(self, images: Sequence[SentImage], permit: SendPermit) -> BatchAnswer:
        await permit.wait()
        permit.mark_sent()
        answers = await asyncio.gather(*(self._one(image) for image in images))
        return BatchAnswer({image.request_id: answer for image, answer in zip(images, answers, strict=True)})

    async def _one(self, image: SentImage) -> ImageAnswer:
        try:
            elements = await self._pool.run(
                read_elements, image.data, self._options, timeout_s=self._timeout_s
            )
        except QuireError as error:
            return ImageAnswer(error=error.public, final=not error.retryable)
        return ImageAnswer(dump([dataclasses.asdict(one) for one in elements]), len(elements))

    async def healthy(self) -> bool:
        return True

    async def close(self) -> None:
        """Does nothing: the runtime closes the pool."""


MAX_BODY_BYTES = 512 << 20


class BackendServer:
    """Serves `POST /parse-batch` and `GET /health`. An image that can't be read has an `error` as its result."""

    def __init__(self, backend: LocalBackend, clock: Clock, max_batch_size: int) -> None:
        self._backend = backend
        self._clock = clock
        self._max_batch_size = max_batch_size

    def application(self) -> web.Application:
        from aiohttp import web

        made = web.Application(client_max_size=MAX_BODY_BYTES)
        made.router.add_post("/parse-batch", self._parse_batch)
        made.router.add_get("/health", self._health)
        return made

    async def _health(self, _request: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response({"status": "healthy"})

    async def _parse_batch(self, request: web.Request) -> web.Response:
        from aiohttp import web

        batch_id = f"batch_{secrets.token_hex(4)}"
        began = self._clock.monotonic()
        try:
            images = await asyncio.to_thread(_images, await request.read(), self._max_batch_size)
        except RequestError as error:
            shown = {"batch_id": batch_id, "error": error.public, "status": "failed"}
            return web.json_response({**shown, "processing_time_seconds": 0.0}, status=400)
        names = {image.request_id: image.filename for image in images}
        answer = await self._backend.parse(images, SendPermit.immediate())
        seconds = max(1e-6, self._clock.monotonic() - began)
        results: list[dict[str, Any]] = []
        for request_id, one in answer.images.items():
            found: dict[str, Any] = {"filename": names[request_id]}
            if one.error:
                found |= {"error": one.error, "retryable": not one.final}
            else:
                found |= {"elements": json.loads(one.elements), "element_count": one.count}
            results.append(found)
        total = sum(one.count for one in answer.images.values())
        return web.json_response(
            {
                "batch_id": batch_id,
                "processing_time_seconds": round(seconds, 3),
                "timestamp": self._clock.now(),
                "images_processed": len(images),
                "total_elements": total,
                "results": results,
                "metadata": {
                    "model_device": "cpu",
                    "batch_throughput": round(len(images) / seconds, 2),
                    "elements_per_second": round(total / seconds, 2),
                },
            }
        )


def _images(raw: bytes, most: int) -> list[SentImage]:
    """Returns the images; their ids are their positions in the batch. Raises RequestError."""
    try:
        given = json.loads(raw)["images"]
        pairs = [
            (str(one["filename"]), pybase64.b64decode(one["image_data"], validate=True)) for one in given
        ]
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        raise RequestError(
            'The body should be {"images": [{"image_data": base64, "filename": text}, …]}.'
        ) from None
    if not 0 < len(pairs) <= most:
        raise RequestError(f"A batch has between 1 and {most} images.")
    return [SentImage(str(place), name, data) for place, (name, data) in enumerate(pairs)]
