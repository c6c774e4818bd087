"""Reads the structure tree of a tagged PDF: which texts of a page are tagged as headings, and which as items of lists.

Tags are often wrong. Headings count only where they look like headings: short, and a small part of the page. That a
text is an item counts only where the page shows its mark (`text_flow.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.mupdf import mupdf, text_flags
from quire.reading.pdf.outline import Titles, title_key

_LEVELS = {"H1": 1, "H2": 2, "H3": 3, "H4": 4, "H5": 5, "H6": 6}
_TITLE, _ITEM = "Title", "LI"
_ITEM_KEY_CHARS = 12
_LONGEST_TITLE = 160
_MOST_OF_PAGE = 0.3
_DEEPEST = 40
_DEEPEST_ALONE = 3


def is_tagged(handle: Any) -> bool:
    """Whether an opened PDF has a structure tree."""
    try:
        return bool(handle.xref_get_key(handle.pdf_catalog(), "StructTreeRoot")[0] != "null")
    except MemoryError:
        raise
    except Exception:  # a damaged catalog costs the tags, never the document
        return False


class PageTags(NamedTuple):
    """The headings of a page with their levels, and the keys of its items (see `item_key`)."""

    titles: Titles
    items: frozenset[str] = frozenset()


NO_TAGS = PageTags({})


def item_key(text: str) -> str:
    """What two readings of the beginning of an item have in common."""
    return compact(text)[:_ITEM_KEY_CHARS]


def page_tags(page: Any) -> PageTags:
    """What the tags of a page of a tagged PDF say; no headings where these can't be right."""
    library = mupdf()
    flags = text_flags() | library.TEXT_COLLECT_STRUCTURE
    try:
        blocks = page.get_textpage(flags=flags).extractDICT()["blocks"]
    except MemoryError:
        raise
    except Exception:  # damaged tags cost what they name, never the page
        return NO_TAGS
    return PageTags(_titles(blocks), frozenset(_items(blocks, 0)))


def _titles(blocks: Sequence[Mapping[str, Any]]) -> Titles:
    found = list(_texts(blocks, 0, 0))
    total = sum(len(text) for _, text in found)
    titles = [(level, text) for level, text in found if level]
    if sum(len(text) for _, text in titles) > _MOST_OF_PAGE * total:
        return {}
    titles = [(level, text) for level, text in titles if len(text) <= _LONGEST_TITLE]
    highest = min((level for level, _ in titles), default=1)
    # Authors take H4 to H6 for their looks: alone on a page they say that it is a heading, not how deep.
    most = _DEEPEST_ALONE if highest > _DEEPEST_ALONE else max(_LEVELS.values())
    return {key: min(level, most) for level, text in titles if (key := title_key(text))}


def _texts(blocks: Sequence[Mapping[str, Any]], level: int, depth: int) -> Iterator[tuple[int, str]]:
    """(level of the heading that it is tagged as, or 0; text) of each block; a heading's blocks are one text."""
    for block in blocks:
        if "lines" in block:
            yield level, _words(block)
        elif depth < _DEEPEST:
            tag = _level(block)
            inner = block.get("blocks") or ()
            if tag and not level:
                yield tag, " ".join(text for _, text in _texts(inner, tag, depth + 1)).strip()
            else:
                yield from _texts(inner, level, depth + 1)


def _items(blocks: Sequence[Mapping[str, Any]], depth: int) -> Iterator[str]:
    for block in blocks:
        if "lines" in block or depth == _DEEPEST:
            continue
        inner = block.get("blocks") or ()
        if block.get("std") == _ITEM:
            yield item_key(" ".join(text for _, text in _texts(inner, 0, depth + 1)))
        yield from _items(inner, depth + 1)


def _level(block: Mapping[str, Any]) -> int:
    if block.get("raw") == _TITLE:
        return 1
    return _LEVELS.get(block.get("std") or "", 0)


def _words(block: Mapping[str, Any]) -> str:
    return " ".join("".join(span["text"] for span in line["spans"]) for line in block["lines"])
