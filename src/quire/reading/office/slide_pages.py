"""The page of a slide, whatever its format: what is on it, its notes, its comments, and its running lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quire.domain.element import ElementKind
from quire.reading.office.office_pages import (
    MarkdownBlock,
    OfficePage,
    RunningText,
    block_captions,
    joined,
    table_spans,
)


def slide_page(
    title: str,
    blocks: Sequence[MarkdownBlock],
    *,
    notes: Sequence[MarkdownBlock] = (),
    comments: Sequence[MarkdownBlock] = (),
    running: Iterable[RunningText] = (),
    is_hidden: bool = False,
) -> OfficePage:
    """A slide without a title has no heading: a number that is not on the slide would be text of our own."""
    made: list[MarkdownBlock] = []
    if title:
        made.append(MarkdownBlock(f"# {title}{' (hidden)' if is_hidden else ''}", 1))
    elif is_hidden:
        made.append(MarkdownBlock("*This slide is hidden.*"))
    made += blocks
    if notes:
        made += [MarkdownBlock("### Notes", 3), *notes]
    if comments:
        made += [MarkdownBlock("### Comments", 3), *comments]
    pictures = tuple(ref for one in made for ref in one.pictures)
    captions = block_captions(made) if any(one.caption for one in made) else ()
    return OfficePage(joined(made), pictures, table_spans(made), tuple(running), captions)


def running_line(kind: str, text: str) -> RunningText | None:
    """A footer, header, date or number of a slide, by the name of its place; None where it has no text."""
    words = " ".join(text.split())
    kinds = {"hdr": ElementKind.RUNNING_HEADER, "sldNum": ElementKind.PAGE_NUMBER}
    return RunningText(kinds.get(kind, ElementKind.RUNNING_FOOTER), words) if words else None
