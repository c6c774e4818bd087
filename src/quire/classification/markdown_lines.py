"""A document's Markdown as plain lines: the text of each, and which are headings or parts of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

_MOST_LINES = 2_000
_LINE_CHARS = 2_000
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_RULE = re.compile(r"^[\s|:*_=-]+$")
_LINK = re.compile(r"!?\[([^\]]{0,300})\]\([^)\s]{0,500}\)")
_TAG = re.compile(r"<[a-zA-Z/!][^<>]{0,200}>")
_MARKS = re.compile(r"(\*\*|__|`|~~)|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_LIST = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")


@dataclass(frozen=True, slots=True)
class MarkdownLine:
    """`level` is that of a heading, 0 for other lines."""

    text: str
    level: int = 0
    in_table: bool = False
    in_list: bool = False
    after_gap: bool = False


def lines_of(markdown: str) -> list[MarkdownLine]:
    """At most some thousand lines, without markup, empty ones left out."""
    return list(islice(_lines(markdown), _MOST_LINES))


def _lines(markdown: str) -> Iterator[MarkdownLine]:
    gap = True
    for raw in markdown.splitlines()[: 4 * _MOST_LINES]:
        line = raw[:_LINE_CHARS].strip()
        if not line or _RULE.match(line):
            gap = True
            continue
        heading = _HEADING.match(line)
        in_table = line.startswith("|") and line.count("|") > 1
        in_list = bool(_LIST.match(line))
        text = plain(heading[2] if heading else _LIST.sub("", line))
        if in_table:
            text = " ".join(cell.strip() for cell in text.split("|") if cell.strip())
        if any(map(str.isalnum, text)):
            yield MarkdownLine(text, len(heading[1]) if heading else 0, in_table, in_list, gap)
            gap = False


def plain(text: str) -> str:
    """Without Markdown and HTML marks, on one line."""
    text = _LINK.sub(r"\1", text)
    text = _TAG.sub(" ", text)
    text = _MARKS.sub("", text)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
