"""Cuts the figures of a document out of its pages, in reader processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import Element, ElementKind, PageElements
from quire.domain.job import MainJob
from quire.errors import DocumentError, MissingError, PageError
from quire.pipeline.object_keys import local_document
from quire.pipeline.parts import Parts
from quire.reading.pdf.page_regions import PageRegions, cut_regions
from quire.reading.pdf.page_render import RenderOptions

FIGURE_TYPE = "image/png"


class FigurePictures:
    """The pictures of one document's figures."""

    def __init__(self, parts: Parts, job: MainJob) -> None:
        self._parts = parts
        self._job = job

    async def of_page(self, page: PageElements) -> dict[str, bytes]:
        """The figures of a page by the ids of their elements; none where they can't be cut."""
        figures = [one for one in page.elements if one.kind is ElementKind.FIGURE and one.box is not None]
        if not figures or self._job.original_deleted or not self._job.content_ref:
            return {}
        try:
            pictures = await self.cut(page, figures)
        except (PageError, DocumentError, MissingError):
            return {}
        return {one.id: picture for one, picture in zip(figures, pictures, strict=True)}

    async def cut(self, page: PageElements, elements: Sequence[Element]) -> list[bytes]:
        """Pictures of elements that have boxes. Raises MissingError if the original is gone, or PageError."""
        if self._job.original_deleted or not self._job.content_ref:
            raise MissingError("The original was deleted; it is kept only as long as RETAIN_ORIGINALS says.")
        settings = self._parts.settings
        options = replace(
            RenderOptions.of(settings.images, settings.limits.max_pixels),
            dpi=settings.images.figure_dpi,
            format="png",
            max_px=settings.images.max_px * 2,
        )
        password = self._parts.sealer.unseal(self._job.id, self._job.sealed).password
        boxes = tuple(one.box for one in elements if one.box is not None)
        regions = PageRegions(page.number, page.width, page.height, boxes, page.turns)
        async with local_document(self._parts.objects, self._job.content_ref) as path:
            found: list[bytes] = await self._parts.pool.run(
                cut_regions,
                *(str(path), password, regions, options),
                timeout_s=settings.reading.page_timeout_s,
            )
        return found
