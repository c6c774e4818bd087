"""A batch backend for others: `POST /parse-batch` and `GET /health`, answered by the local one."""

from __future__ import annotations

import asyncio
import binascii
import json
import secrets
from typing import TYPE_CHECKING, Any

import pybase64

from quire.batching.backend import Passage, SentImage
from quire.batching.local import LocalBackend
from quire.clock import Clock
from quire.errors import RequestError

if TYPE_CHECKING:
    from aiohttp import web

LARGEST_BODY = 512 << 20


class BackendServer:
    """The application's handlers. Images that can't be read have an `error` in their place; the others are fine."""

    def __init__(self, backend: LocalBackend, clock: Clock, max_batch_size: int) -> None:
        self._backend = backend
        self._clock = clock
        self._max_batch_size = max_batch_size

    def application(self) -> web.Application:
        from aiohttp import web

        made = web.Application(client_max_size=LARGEST_BODY)
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
        answer = await self._backend.parse(images, Passage.now())
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
    """The images by their place in the batch. Raises RequestError."""
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
