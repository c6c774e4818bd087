"""Bodies received: whole, of a kind that a backend can read, not larger and with no more pixels than allowed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from quire.batching.body_memory import SPILL_BYTES, Body, BodyMemory, Bytes, Receiving, too_large
from quire.batching.image_head import look
from quire.batching.object_shelves import Shelves
from quire.errors import DamagedError, RequestError, TooLargeError, UnsupportedTypeError
from quire.objects.object_store import ObjectStore
from quire.reading.files.image_source import as_jpeg_or_png
from quire.reading.pool.child_pool import ChildPool

_CONVERSION_S = 60.0


class UnsupportedFormatError(RequestError):
    code = "unsupported_format"


@dataclass(frozen=True, slots=True)
class ImageLimits:
    max_bytes: int
    max_pixels: int


class Reception:
    def __init__(
        self,
        memory: BodyMemory,
        objects: ObjectStore,
        shelves: Shelves,
        pool: ChildPool,
        limits: ImageLimits,
    ) -> None:
        self._memory = memory
        self._objects = objects
        self._shelves = shelves
        self._pool = pool
        self._limits = limits

    def receiving(self) -> Receiving:
        return Receiving(
            self._memory, self._objects, self._limits.max_bytes, lambda: self._shelves.place("bodies")
        )

    async def whole(self, data: Bytes) -> Body:
        """As `checked`, for a body that is there already."""
        size = len(data)
        if size > self._limits.max_bytes:
            raise too_large(self._limits.max_bytes)
        if 0 < size <= SPILL_BYTES and self._memory.reserve(size):
            return await self._looked_at(Body(secrets.token_hex(8), size, data, data))
        async with self.receiving() as receiving:
            await receiving.take(data)
            return await self.checked(receiving)

    async def checked(self, receiving: Receiving) -> Body:
        """The body as something a backend can read: JPEG or PNG, with no more pixels than allowed.

        Raises UnsupportedFormatError, RequestError or TooLargeError; then nothing of it stays.
        """
        return await self._looked_at(await receiving.finish(secrets.token_hex(8)))

    async def discard(self, body: Body) -> None:
        if body.data is not None:
            self._memory.release(body.size)
        else:
            await self._objects.delete(body.object_key)

    async def _looked_at(self, body: Body) -> Body:
        try:
            picture = look(body.head)
            if picture is None:
                return await self._converted(body)
            if picture.pixels > self._limits.max_pixels:
                raise TooLargeError(
                    f"The image unpacks to {picture.width} × {picture.height} pixels; "
                    f"up to {self._limits.max_pixels:,} are allowed (MAX_PIXELS). Send a smaller one."
                )
        except BaseException:
            await self.discard(body)
            raise
        return body

    async def _converted(self, body: Body) -> Body:
        """Another format, read in the child pool; the original is gone afterwards."""
        key = body.object_key or await self._shelves.place("originals")
        if body.data is not None:
            await self._objects.put(key, bytes(body.data))
        try:
            async with self._objects.local(key) as path:
                data = await self._pool.run(
                    as_jpeg_or_png, str(path), self._limits.max_pixels, timeout_s=_CONVERSION_S
                )
        except UnsupportedTypeError as error:
            raise UnsupportedFormatError(error.public) from error
        except DamagedError as error:
            raise RequestError(error.public) from error
        finally:
            if body.data is not None:
                await self._objects.delete(key)
        async with self.receiving() as receiving:
            await receiving.take(data)
            converted = await receiving.finish(body.request_id)
        await self.discard(body)
        return converted
