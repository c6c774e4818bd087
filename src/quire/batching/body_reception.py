"""Receives bodies and checks them: JPEG or PNG (other formats are converted), within the size and pixel limits."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from quire.batching.body_memory import SPILL_BYTES, Body, BodyMemory, BodyReceiver, Bytes, too_large
from quire.batching.image_head import read_image_head
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


class BodyReception:
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

    def receiver(self) -> BodyReceiver:
        """Returns a receiver for one body."""
        return BodyReceiver(
            self._memory, self._objects, self._limits.max_bytes, lambda: self._shelves.new_key("bodies")
        )

    async def check_bytes(self, data: Bytes) -> Body:
        """As `check`, for a body that is already complete."""
        size = len(data)
        if size > self._limits.max_bytes:
            raise too_large(self._limits.max_bytes)
        if 0 < size <= SPILL_BYTES and self._memory.reserve(size):
            return await self._checked(Body(secrets.token_hex(8), size, data, data))
        async with self.receiver() as receiver:
            await receiver.take(data)
            return await self.check(receiver)

    async def check(self, receiver: BodyReceiver) -> Body:
        """Returns the body as JPEG or PNG, with no more pixels than allowed.

        Raises UnsupportedFormatError, RequestError or TooLargeError; then the body is discarded.
        """
        return await self._checked(await receiver.finish(secrets.token_hex(8)))

    async def discard(self, body: Body) -> None:
        """Releases the body's memory or deletes its object."""
        if body.data is not None:
            self._memory.release(body.size)
        else:
            await self._objects.delete(body.object_key)

    async def _checked(self, body: Body) -> Body:
        try:
            picture = read_image_head(body.head)
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
        """Converts another format in the child pool and deletes the original."""
        key = body.object_key or await self._shelves.new_key("originals")
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
        async with self.receiver() as receiver:
            await receiver.take(data)
            converted = await receiver.finish(body.request_id)
        await self.discard(body)
        return converted
