"""One page for a vision model: its picture, the cache key of an answer, and the answer compared with the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from quire.dispatch.page_task import Answered, PagePicture
from quire.domain.page import Grade, PageClass, PageSource
from quire.domain.routing import Readers
from quire.errors import PageError
from quire.pipeline.intake.sealing import Sealer
from quire.providers import configured_providers
from quire.reading.ocr.page_ocr import OcrOptions
from quire.reading.pdf.grounding import (
    GroundedAnswer,
    answer_without_ground,
    ground_answer,
    ground_by_ocr,
)
from quire.reading.pdf.page_render import RenderOptions, render_page
from quire.reading.pdf.vision_page import ContextOptions, page_layer, picture_page
from quire.reading.pool.child_pool import ChildPool
from quire.settings import Settings

_OWN_READERS = {configured_providers.OCR: PageSource.OCR, configured_providers.DOLPHIN: PageSource.BATCH}
"""Providers that read with our own readers: their answers need no second look by OCR."""
_LITTLE_SUPPORT = 0.75
_FINE_QUALITY = 90
_FINE_PX = 4_000


class VisionParts(Protocol):
    """What drawing and grounding need of a process."""

    @property
    def settings(self) -> Settings: ...

    @property
    def pool(self) -> ChildPool: ...

    @property
    def readers(self) -> Readers: ...


@dataclass(frozen=True, slots=True)
class VisionSource:
    """A page of a local file. `trusted` says whether the page's own text can be read."""

    path: str
    password: str | None
    number: int
    trusted: bool


def is_trusted(page_class: PageClass | None, grade: Grade | None) -> bool:
    """Whether the page's own text helps a model: a garbled one, or one of low grade, does not."""
    return page_class is not PageClass.GARBLED and grade is not Grade.LOW


def answer_source(answer: Answered) -> PageSource:
    """Returns what the page's record calls the source of this answer."""
    return PageSource.CACHE if answer.cached else _OWN_READERS.get(answer.candidate.provider, PageSource.AI)


def answer_fingerprint(sealer: Sealer, settings: Settings, instructions: str, *page: object) -> str:
    """Returns the cache key of an answer: a hash of everything that the answer depends on.

    `page` is the team, the document's SHA-256, the number of the page, the model, and what else sets it apart.
    """
    images, ai = settings.images, settings.ai
    return sealer.fingerprint(
        *("answer", *page, instructions),
        *(images.dpi, images.color, images.format, images.jpeg_quality, images.max_px),
        *(ai.context_radius, ai.max_context_bytes, ai.max_tokens_out, ai.page_text, ai.table_crops),
    )


class PageVision:
    """Draws pages for models and grounds their answers, with the pool and the settings of the parts."""

    def __init__(self, parts: VisionParts) -> None:
        self._parts = parts

    async def picture(self, page: VisionSource, elements: str = "") -> PagePicture:
        """Returns the page as it is sent; `elements` is its Markdown from local reading. Raises PageError."""
        settings = self._parts.settings
        ai = settings.ai
        context = ContextOptions(
            ai.context_radius,
            ai.max_context_bytes,
            own_text=page.trusted,
            elements=elements if ai.page_text == "elements" and page.trusted else "",
            shows_own=ai.page_text != "none",
            table_crops=ai.table_crops,
        )
        found = await self._parts.pool.run(
            picture_page,
            *(page.path, page.password, page.number),
            RenderOptions.of(settings.images, settings.limits.max_pixels),
            context,
            timeout_s=settings.reading.page_timeout_s,
        )
        return PagePicture(found.image, found.mime, found.text, found.layer, found.pixels, found.crops)

    async def redraw(self, page: VisionSource, dpi: int) -> bytes:
        """Draws the page in colour, at a higher resolution than vision models need. Raises PageError."""
        settings = self._parts.settings
        render = RenderOptions(
            dpi=dpi,
            format="jpeg",
            quality=_FINE_QUALITY,
            max_px=_FINE_PX,
            max_pixels=settings.limits.max_pixels,
        )
        return await self._parts.pool.run(
            render_page,
            *(page.path, page.password, page.number, render),
            timeout_s=settings.reading.page_timeout_s,
        )

    async def layer(self, page: VisionSource) -> str:
        """Returns the page's own text where it can be trusted, otherwise nothing. Raises DocumentError, PageError."""
        if not page.trusted:
            return ""
        return await self._parts.pool.run(
            page_layer,
            *(page.path, page.password, page.number),
            timeout_s=self._parts.settings.reading.page_timeout_s,
        )

    async def ground(self, page: VisionSource, answer: str, provider: str) -> GroundedAnswer:
        """Returns the answer's elements, compared with the words of the page; raises DocumentError and PageError."""
        found = await self._parts.pool.run(
            ground_answer,
            *(page.path, page.password, page.number, answer, page.trusted),
            timeout_s=self._parts.settings.reading.page_timeout_s,
        )
        if provider in _OWN_READERS or not self._wants_ocr(found):
            return found
        return await self._by_ocr(page, answer, found)

    async def without_ground(self, number: int, answer: str) -> GroundedAnswer:
        """Returns the answer's elements where the page can't be compared: its document is gone. Raises PageError."""
        return await self._parts.pool.run(
            answer_without_ground, number, answer, timeout_s=self._parts.settings.reading.page_timeout_s
        )

    def _wants_ocr(self, found: GroundedAnswer) -> bool:
        """Whether the text layer supports too little of the answer, and OCR may show whether the page does."""
        is_asked = self._parts.settings.ai.ground_with_ocr and self._parts.readers.ocr
        return is_asked and (found.support is None or found.support < _LITTLE_SUPPORT)

    async def _by_ocr(self, page: VisionSource, answer: str, found: GroundedAnswer) -> GroundedAnswer:
        """The better of what the text layer and what OCR supports; a page that can't be read by OCR has only one."""
        settings = self._parts.settings.ocr
        try:
            again = await self._parts.pool.run(
                ground_by_ocr,
                *(page.path, page.password, page.number, answer, OcrOptions.of(settings)),
                timeout_s=settings.page_timeout_s,
                slow=True,
            )
        except PageError:
            return found
        if again.support is None or (found.support is not None and found.support >= again.support):
            return found
        return again
