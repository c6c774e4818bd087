"""Local OCR as a provider of the dispatcher (`ocr`), for chains that name it at a certain place."""

from __future__ import annotations

import asyncio

from quire.errors import PageError
from quire.providers import configured_providers
from quire.providers.provider_protocol import (
    ProviderServerError,
    ProviderTimeoutError,
    StopReason,
    TokenUsage,
    VisionAnswer,
    VisionRequest,
)
from quire.reading.ocr.page_ocr import OcrOptions, recognise_picture
from quire.reading.pool.child_pool import ChildPool


class OcrProvider:
    """Costs no tokens. The slow lane of the pool bounds how many pages are read at a time."""

    def __init__(self, pool: ChildPool, options: OcrOptions) -> None:
        self._pool = pool
        self._options = options

    @property
    def name(self) -> str:
        return configured_providers.OCR

    async def open(self) -> None:
        """Does nothing: the reader processes load what they need."""

    async def read(self, request: VisionRequest) -> VisionAnswer:
        failure: ProviderServerError | ProviderTimeoutError
        try:
            async with asyncio.timeout(request.timeout_s):
                redraw = request.redraw
                image = await redraw(self._options.dpi) if redraw is not None else request.image
                text = await self._pool.run(
                    recognise_picture, image, self._options, timeout_s=request.timeout_s, slow=True
                )
            return VisionAnswer(text, StopReason.DONE, TokenUsage())
        except TimeoutError:
            failure = ProviderTimeoutError(f"OCR gave no answer within {request.timeout_s:g} s.")
        except PageError as error:
            if not error.retryable:
                # Only this page can't be read; that is no evidence against the reader.
                return VisionAnswer("", StopReason.DONE, TokenUsage())
            failure = ProviderServerError(error.public)
        raise failure

    async def check(self, model: str) -> None:
        """Does nothing: `quire doctor` has its own check of OCR."""

    async def models(self) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        """Does nothing: the owner of the pool closes it."""
