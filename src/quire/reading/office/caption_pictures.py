"""Pictures inside the paragraph of a caption, as LibreOffice writes them: they are what the caption is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quire.reading.office.inline_markdown import RAW, Run
from quire.reading.office.office_pages import MarkdownBlock
from quire.reading.office.office_source import PLACEHOLDER


class CaptionParts(NamedTuple):
    """A caption's own runs, and the pictures that were before or behind them."""

    runs: list[Run]
    above: MarkdownBlock | None = None
    below: MarkdownBlock | None = None


def caption_parts(runs: Sequence[Run], pictures: Sequence[str]) -> CaptionParts:
    """The pictures as a block of their own if all are before, or all behind, the words; `pictures` are their places."""
    at = [n for n, run in enumerate(runs) if run.look & RAW and PLACEHOLDER.fullmatch(run.text)]
    words = [n for n, run in enumerate(runs) if run.text.strip() and n not in at]
    if not at or not words or not (at[-1] < words[0] or words[-1] < at[0]):
        return CaptionParts(list(runs))
    shown = MarkdownBlock("".join(runs[n].text for n in at), pictures=tuple(pictures))
    left = [run for n, run in enumerate(runs) if n not in at]
    return CaptionParts(left, above=shown) if at[0] < words[0] else CaptionParts(left, below=shown)
