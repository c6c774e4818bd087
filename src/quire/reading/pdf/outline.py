"""Reads the outline (bookmarks) of a PDF: which headings its author says a page has, and of what level."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from quire.reading.pdf.block_matching import compact

Titles = Mapping[str, int]
"""The key of a title (see `title_key`), and its level from 1."""

_MOST_ENTRIES = 5_000
_DEEPEST = 6
_NUMBER = re.compile(r"^\s*(?:[IVXLC]+|[A-Z]|\d{1,3})(?:[-.](?:[A-Z]|\d{1,3}))*[.):]?\s+")


def title_key(text: str) -> str:
    """What a title has in common with its entry in the outline: not its number, which each may write its own way."""
    return compact(_NUMBER.sub("", text, count=1)) or compact(text)


def outline_titles(handle: Any) -> dict[int, dict[str, int]]:
    """The titles of each page (from 1) of an opened PDF; none for one whose outline is damaged."""
    found: dict[int, dict[str, int]] = {}
    try:
        waiting = [(handle.outline, 1)]
        for _ in range(_MOST_ENTRIES):
            if not waiting:
                break
            entry, level = waiting.pop()
            # Asked for anything else, an entry that is not there crashes the process.
            if entry is None or not entry.this.m_internal:
                continue
            waiting += [(entry.next, level), (entry.down, level + 1)]
            title, page = title_key(entry.title or ""), _page_of(entry, handle)
            if title and page:
                found.setdefault(page, {}).setdefault(title, min(level, _DEEPEST))
    except MemoryError:
        raise
    except Exception:  # a damaged outline costs its titles, never the page
        return {}
    return found


def _page_of(entry: Any, handle: Any) -> int:
    """The page (from 1) that the entry leads to; 0 for one that leads elsewhere."""
    if entry.is_external or not entry.uri:
        return 0
    place: int = entry.page if entry.page >= 0 else handle.resolve_link(entry.uri)[0]
    return place + 1 if place >= 0 else 0
