"""Markdown without its markup, for `--format text`.

Made for the Markdown that Quire itself writes (headings, lists, tables, emphasis, links, code). Weakness: markup
that spans lines, or more than a thousand characters, stays: without these bounds a hostile document could make
the search for closing marks take forever.
"""

from __future__ import annotations

import html
import re

_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*)")
_CLOSING = re.compile(r"\s#{1,6}$")
_QUOTE = re.compile(r"^(\s{0,3}>\s?)+")
_RULE = re.compile(r"^\s{0,3}([-*_])(\s*\1){2,}\s*$")
_TABLE_RULE = re.compile(r"^\s*\|?(\s*:?-+:?\s*\|)+(\s*:?-+:?\s*)?$")
_TABLE_ROW = re.compile(r"^\s*\|(.*)\|\s*$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_CODE = re.compile(r"(`{1,3})(.{1,1000}?)\1")
_LINK = re.compile(r"!?\[([^\]\n]{0,1000})\]\([^)\s]{0,1000}(?:\s\"[^\"]{0,1000}\")?\)")
_STARS = re.compile(r"(?<![\\*])(\*{1,3})(?=\S)(.{1,1000}?)(?<=[^\s\\*])\1(?!\*)")
_UNDERSCORES = re.compile(r"(?<![\w\\])(_{1,3})(?=\S)(.{1,1000}?)(?<=[^\s\\])\1(?!\w)")
_STRUCK = re.compile(r"~~(?=\S)(.{1,1000}?)(?<=\S)~~")
_DEEPEST = 3  # emphasis inside emphasis
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~])")


def plain_text(markdown: str) -> str:
    """The words of the Markdown, line by line; cells of a table row are parted by tabs, pages by a blank line."""
    lines: list[str] = []
    in_code = False
    for line in markdown.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif in_code:
            lines.append(line)
        elif _RULE.match(line) or _TABLE_RULE.match(line):
            continue
        else:
            lines.append(_line(line))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def _line(line: str) -> str:
    row = _TABLE_ROW.match(line)
    if row:
        return "\t".join(_words(_BREAK.sub(" ", cell).strip()) for cell in _CELL_BORDER.split(row[1]))
    heading = _HEADING.match(line)
    if heading:
        return _words(_CLOSING.sub("", heading[1].rstrip()).rstrip())
    return _words(_QUOTE.sub("", line)).rstrip()


def _words(text: str) -> str:
    """Code is kept as it is; the markup of everything else is removed."""
    parts: list[str] = []
    at = 0
    for code in _CODE.finditer(text):
        parts += (_unmarked(text[at : code.start()]), code[2].strip())
        at = code.end()
    parts.append(_unmarked(text[at:]))
    return "".join(parts)


def _unmarked(text: str) -> str:
    text = _BREAK.sub("\n", text)
    text = _LINK.sub(r"\1", text)
    for mark in (_STARS, _UNDERSCORES):
        for _ in range(_DEEPEST):
            text = mark.sub(r"\2", text)
    text = _STRUCK.sub(r"\1", text)
    return html.unescape(_ESCAPED.sub(r"\1", text))
