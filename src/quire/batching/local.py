"""The batch backend that is always there: images read on this machine, in the child pool."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

from quire.batching.backend import BatchAnswer, ImageAnswer, Passage, SentImage, dump
from quire.errors import QuireError
from quire.reading.elements import ElementOptions, read_elements
from quire.reading.pool import ChildPool


class LocalBackend:
    def __init__(self, pool: ChildPool, options: ElementOptions, timeout_s: float) -> None:
        self._pool = pool
        self._options = options
        self._timeout_s = timeout_s

    async def parse(self, images: Sequence[SentImage], passage: Passage) -> BatchAnswer:
        await passage.wait()
        passage.sent()
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
        """The pool belongs to whoever made it."""
