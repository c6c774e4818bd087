"""Chooses the reader of a page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quire.domain.job import Mode
from quire.domain.page import PageClass


class Route(StrEnum):
    LOCAL = "local"
    OCR = "ocr"
    AI = "ai"


@dataclass(frozen=True, slots=True)
class Readers:
    """What this installation can read with besides the local text readers."""

    ocr: bool = False
    ai: bool = False
    ai_reads_all: bool = False


def best_route(page_class: PageClass, mode: Mode, readers: Readers, *, text_only: bool = False) -> Route:
    """Text is read locally; what text extraction can't see goes to AI, or to OCR if there is no AI."""
    if text_only:
        return Route.LOCAL
    if readers.ai and (mode is Mode.AI or (mode is Mode.AUTO and readers.ai_reads_all)):
        return Route.AI
    if page_class is PageClass.TEXT_ONLY:
        return Route.LOCAL
    if readers.ai and mode is Mode.AUTO:
        return Route.AI
    if readers.ocr and page_class in (PageClass.SCANNED, PageClass.GARBLED):
        return Route.OCR
    return Route.LOCAL
