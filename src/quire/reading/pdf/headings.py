"""Which lines are headings, and of what level. Decided from one page and the document's body size alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quire.reading.pdf.contents_list import SECTION
from quire.reading.pdf.outline import Titles, title_key
from quire.reading.pdf.text_lines import BULLETS, TextLine

MAX_CHARS = 160
MAX_LINES = 3
_SAME_SIZE = 0.6

_TWO_LETTERS = re.compile(r"[^\W\d_].*?[^\W\d_]", re.DOTALL)
_BULLET = re.compile(rf"^[{BULLETS}*–-]\s*\S")
_CAPTION = re.compile(
    r"^(?:fig(?:ure|\.)?|table|tab\.|diagram|chart|exhibit|image|photo|source|listing)\s*(?:(?-i:[A-Z]{1,2}[-.]?)\d+|[\dIVX]+)\b"
    r"|^example\s\d+[.-]\d+[.:]",
    re.I,
)
_COMMAND = re.compile(r"^(?:[#$%>]\s|:)")
"""What is before a command of a shell or of a calculator."""
_LEADER = re.compile(r"\.{4,}|(?:\. ){4,}|…{2,}|_{4,}")
_NUMBERED = re.compile(
    r"^(?:(?:chapter|section|part|article|appendix|annex)\s+\w+|[IVXLC]{1,6}\.|\d{1,2}(?:\.\d{1,2}){0,4}\.?|[A-H]\.)\s+\S",
    re.I,
)
_DATE = re.compile(r"^[\d\s/.,:-]*$|^\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}$")
_PAGE = re.compile(r"^(?:page\s+)?\d+(?:\s*(?:of|/)\s*\d+)?$", re.I)
_LABEL_VALUE = re.compile(r"^[^:]{2,40}:\s+\S")
_SECTION_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\.?(?:\s|$)")
_NUMBERED_TITLE = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\.?\s+[\W]?[^\W\d_a-z]")
_LARGER = 1.15
_LITTLE_LARGER = 1.08
"""Sizes of a text layer that OCR made differ by less."""
_LARGEST_NAME = 3.0
"""Letters ten times as large as the text are an ornament, or the rest of a damaged file."""
_SMALL_CAPITALS = 0.9
_LONGEST_REGULAR = 100
_NAME_WORDS = 3
_SMALL_ROMAN = re.compile(r"[ivxlc]+")
_LABEL = re.compile(r"^[^:]{2,40}:\s+\S|[:.]$")
_LONG_WORD = re.compile(r"[^\W\d_]{3}")
_ENDS_EARLY = 0.2
_NO_TITLES: Titles = {}
_CONTACT = re.compile(r"@\S+\.\w|https?://|www\.|\(\d{3}\)\s?\d{3}", re.I)


@dataclass(frozen=True, slots=True)
class HeadingGroup:
    """Lines that follow one another in one block, in one size and weight."""

    lines: tuple[TextLine, ...]
    says_heading: bool
    alone: bool
    is_section: bool = False
    """It is numbered as sections are, or the document's outline has it."""
    level: int = 0
    """Its level by the outline, from 1."""
    heads_text: bool = False
    """Text of the page's own type begins right below it, and nothing else is in its block."""

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)

    @property
    def size(self) -> float:
        return self.lines[0].size

    @property
    def bold(self) -> bool:
        return self.lines[0].bold


@dataclass(frozen=True, slots=True)
class PageType:
    """What the page's type looks like around a candidate."""

    body_size: float
    height: float
    has_bold_headings: bool = False


def could_be_heading(group: HeadingGroup, body_size: float = 0.0) -> bool:
    """Whether the words themselves allow a heading: not a caption, a bullet, a date, a sentence, a contents line.

    In type that is larger than the body a name may begin in lower case, and a title with the number of a section may
    be a sentence.
    """
    if len(group.lines) > MAX_LINES:
        return False
    text = group.text
    if len(text) > MAX_CHARS or not _TWO_LETTERS.search(text):
        return False
    is_larger = 0 < _LARGER * body_size <= group.size
    if is_larger and _NUMBERED_TITLE.match(text):
        return _LEADER.search(text) is None
    if any(p.search(text) for p in (_BULLET, _CAPTION, _LEADER, _DATE, _PAGE, _CONTACT, _COMMAND)):
        return False
    may_be_name = is_larger and group.bold and group.size <= _LARGEST_NAME * body_size
    if (text[0].islower() and not (may_be_name and _is_name(text))) or text[-1] in ",;":
        return False
    words = text.split()
    return not (text[-1] == "." and not text.endswith("..") and len(words) > 7 and not text.isupper())


def is_heading(group: HeadingGroup, page: PageType) -> bool:
    """Whether the group is a heading on this page."""
    if not could_be_heading(group, page.body_size) or any(map(_is_slanted, group.lines)):
        return False
    is_title = group.size >= _LARGER * page.body_size > 0 and _NUMBERED_TITLE.match(group.text) is not None
    return group.is_section or is_title or _is_heading_by_type(group, page)


def _is_heading_by_type(group: HeadingGroup, page: PageType) -> bool:
    ratio = group.size / page.body_size if page.body_size else 1.0
    text = group.text
    capitals = text.isupper() and len(text) > 3
    numbered = _NUMBERED.match(text) is not None
    if group.bold:
        return _bold_heading(group, ratio, numbered)
    if group.heads_text and _heads_text(text, ratio, capitals):
        return True
    if ratio >= 1.4 and (capitals or not page.has_bold_headings or (group.says_heading and ratio >= 2.0)):
        return len(group.lines) <= 2 and len(text) <= 100
    # Larger type in a line by itself is a heading where the page has no bold ones to tell it from.
    larger = ratio >= _LARGER and group.alone and len(text) <= 80 and not page.has_bold_headings
    if len(group.lines) == 1 and ((numbered and capitals) or larger):
        return True
    return group.says_heading and 0.95 < ratio <= 1.03 and len(text) <= 80


def _is_name(text: str) -> bool:
    """Whether what begins in lower case is a name, as of a command: one word, or two or three without capitals.

    A small Roman number is that of a page.
    """
    words = text.count(" ") + 1
    is_short = words == 1 or (text.islower() and words <= _NAME_WORDS)
    return is_short and _LONG_WORD.search(text) is not None and _SMALL_ROMAN.fullmatch(text) is None


def _is_slanted(line: TextLine) -> bool:
    """Whether the line goes neither along the page nor up or down it, as a watermark does: it heads nothing."""
    x0, y0, x1, y1 = line.box
    return not line.upright and min(x1 - x0, y1 - y0) > 2 * line.size


def _heads_text(text: str, ratio: float, capitals: bool) -> bool:
    """Whether regular type right above text is its heading: a little larger, or in capitals.

    What ends in a colon introduces the text and is a part of it, as the name of a speaker; a label has its value, and
    a sentence its full stop.
    """
    if len(text) > _LONGEST_REGULAR or _LABEL.search(text) or not _LONG_WORD.search(text):
        return False
    return ratio >= _LITTLE_LARGER or (capitals and ratio >= _SMALL_CAPITALS)


def _bold_heading(group: HeadingGroup, ratio: float, numbered: bool) -> bool:
    if ratio >= _LARGER or (ratio > 1.0 and numbered):
        return group.says_heading or len(group.lines) <= 2
    # A heading is in one weight: "Date: 6 May" with the first word in bold is a label and its value.
    if ratio < 0.75 or any(line.mixed and _LABEL_VALUE.match(line.text) for line in group.lines):
        return False
    if group.heads_text and not _LABEL.search(group.text) and _LONG_WORD.search(group.text):
        return True
    return group.says_heading and (group.alone or numbered or not _LABEL_VALUE.match(group.text))


def level_of(group: HeadingGroup, page: PageType) -> int:
    """The level that the outline has, else from 1 (much larger than the body) to 3."""
    if group.level:
        return group.level
    ratio = group.size / page.body_size if page.body_size else 1.0
    if ratio >= 1.6:
        return 1
    return 2 if ratio >= 1.2 else 3


def groups_of(
    lines: Sequence[TextLine], says_heading: bool, titles: Titles = _NO_TITLES, heads_text: bool = False
) -> list[HeadingGroup]:
    """A block's lines cut where size or weight changes, and around the rows that are titles of sections.

    `heads_text` says that the text below the block is what it may be the heading of.
    """
    sections = _sections(lines, titles)
    runs: list[list[TextLine]] = []
    owners: list[_Section | None] = []
    for at, line in enumerate(lines):
        section = sections.get(at)
        if runs and owners[-1] is section and (section is not None or _same_type(runs[-1][-1], line)):
            runs[-1].append(line)
        else:
            runs.append([line])
            owners.append(section)
    groups = [
        HeadingGroup(
            tuple(run),
            says_heading,
            len(runs) == 1,
            section is not None,
            section.level if section else 0,
            heads_text and len(runs) == 1,
        )
        for run, section in zip(runs, owners, strict=True)
    ]
    return [_named(group, titles) for group in groups] if titles else groups


def _same_type(line: TextLine, other: TextLine) -> bool:
    return abs(line.size - other.size) <= _SAME_SIZE and line.bold == other.bold


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """A row that is the title of a section: its level in the outline, 0 if that has none."""

    level: int


def _named(group: HeadingGroup, titles: Titles) -> HeadingGroup:
    """The group as a section where the outline has it, over several rows perhaps."""
    if group.is_section or len(group.lines) > MAX_LINES:
        return group
    level = titles.get(title_key(group.text), 0)
    return replace(group, is_section=True, level=level) if level else group


def _sections(lines: Sequence[TextLine], titles: Titles) -> dict[int, _Section]:
    """The lines that are in titles of sections, by their place.

    A title is a row by itself: "4.2 Method" in front of text that goes on in the same row is none.
    """
    found: dict[int, _Section] = {}
    if not titles and not any(line.text[:1].isdigit() and _SECTION_NUMBER.match(line.text) for line in lines):
        return found
    right = max((line.box[2] for line in lines), default=0.0)
    left = min((line.box[0] for line in lines), default=0.0)
    for row in _rows(lines):
        text = " ".join(lines[i].text for i in row)
        level = titles.get(title_key(text), 0) if titles else 0
        short = lines[row[-1]].box[2] < right - _ENDS_EARLY * (right - left) or len(row) == len(lines)
        if level or (short and SECTION.fullmatch(text)):
            found |= dict.fromkeys(row, _Section(level))
    return found


def _rows(lines: Sequence[TextLine]) -> list[list[int]]:
    """The places of lines that are at one height and follow one another."""
    rows: list[list[int]] = []
    for i, line in enumerate(lines):
        if rows and lines[rows[-1][-1]].box[1] < line.middle[1] < lines[rows[-1][-1]].box[3]:
            rows[-1].append(i)
        else:
            rows.append([i])
    return rows
