"""Writes single Markdown blocks from untrusted text and escapes it, so that no text becomes markup by accident."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")
_ANY_LINE = (
    r"#{1,6}(?:[ \t]|$)|>|~{3}|`{3}|\|"  # heading, quotation, code, table
    r"|(?:-[ \t]*){3,}$|(?:_[ \t]*){3,}$|(?:\*[ \t]*){3,}$"  # rule
)
_FIRST_MARK = re.compile(
    rf" {{0,3}}(?:[0-9]{{1,9}}(?=[.)](?:[ \t]|$))|(?={_ANY_LINE}|[-+*](?:[ \t]|$)"
    r"|\[[^\]\n^][^\]\n]*\]:))"  # the definition of a link, which is not shown; that of a footnote is
)
"""Matches what is before the mark of another block in the first line of a paragraph."""
_LATER_MARK = re.compile(
    rf" {{0,3}}(?:1(?=[.)][ \t]+\S)|(?={_ANY_LINE}|[-+*][ \t]+\S"
    r"|=+[ \t]*$|:?-+:?[ \t]*(?:\|[-:| \t]*)?$))"  # makes a heading or a table of the line before
)
"""Matches the same in a later line; fewer marks end a paragraph than begin a block."""
_HYPHEN_END = re.compile(r"[^\W\d_]{2}[-\u00ad\u2010]")
_HYPHENATED = re.compile(r"\b[^\W\d_]+-[^\W\d_]+\b")
_HYPHEN_BREAK = re.compile(r"-(?<=[^\W\d_]-)\s*\n")
"""The hyphen first: it is searched for as such, and the expression is tried at few places."""
_LAST_WORD = re.compile(r"([^\W\d_]+)[-\u2010]$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_SOFT_HYPHEN = "\u00ad"
_LEADER = re.compile(r"(?:\s[.·]){5,}")
_CELL_LEADER = re.compile(r"\s*(?:\.{4,}|…{2,}|_{4,})\s*$")
_NUMBER_MARK = re.compile(r"\d{1,9}[.)]")
_PLAIN_MARK = re.compile(r"\W{1,2}|o")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\U000e0000-\U000e007f]")
"""And tags, which no viewer shows: they could carry words for programs alone."""
_RANGE = re.compile(r"(?<=\d)\u00ad(?=\d)")


def clean(text: str) -> str:
    """Text without control characters and rows of spaced leader dots, with one kind of white space.

    A soft hyphen between figures is the dash of a range: viewers of Markdown would not show it.
    """
    if text.isprintable() and "  " not in text and " ." not in text and " ·" not in text:
        return text.strip()  # printable text has no white space but the space: most lines need nothing else
    return " ".join(_LEADER.sub(" ", _CONTROL.sub("", _RANGE.sub("-", text))).split())


def escape(text: str) -> str:
    """Text in which nothing begins an HTML tag."""
    return _TAG_START.sub("&lt;", text)


def paragraph(text: str) -> str:
    """A paragraph. No line begins a heading, a list, a rule, a quotation, code, a table or a link's definition."""
    lines: list[str] = []
    mark = _FIRST_MARK
    for line in escape(text).strip().split("\n"):
        lines.append(_with_escape(line, mark))
        mark = _LATER_MARK if line.strip() else _FIRST_MARK
    return "\n".join(lines)


def _with_escape(line: str, mark: re.Pattern[str]) -> str:
    """The line with a backslash before its mark, if it has one."""
    before = mark.match(line)
    return line if before is None else f"{line[: before.end()]}\\{line[before.end() :]}"


def heading(text: str, level: int, markdown: str = "") -> str:
    """A heading in one line. `markdown` is the text as inline Markdown, where it is known."""
    shown = (markdown or escape(text)).replace("\n", " ")
    return f"{'#' * max(1, min(6, level))} {shown}"


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list, `depth` items deep in others. `below` is Markdown of further blocks that belong to it."""

    text: str
    marker: str
    depth: int
    markdown: str = ""
    below: str = ""


def list_items(items: Sequence[Item]) -> str:
    """A list; each item is indented to the first word of the one it belongs to, as CommonMark requires.

    That is the nearest one before it of a smaller depth: a list may go on from the page before, and begin with inner
    items.
    """
    lines: list[str] = []
    columns: list[int] = []
    depths: list[int] = []
    for item in items:
        while depths and depths[-1] >= item.depth:
            depths.pop()
            columns.pop()
        depths.append(item.depth)
        indent = columns[-1] if columns else 0
        mark, body = _mark_and_body(item)
        column = indent + len(mark) + 1
        if "\n" in body or item.below:
            body = _indented(f"{body}\n\n{item.below}" if item.below else body, column)
        lines.append(f"{' ' * indent}{mark} {body}")
        columns.append(column)
    return "\n".join(lines)


def _indented(text: str, column: int) -> str:
    """The text with every line but the first indented, empty lines left empty."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"{' ' * column}{line}" if line else "" for line in rest)])


def _mark_and_body(item: Item) -> tuple[str, str]:
    """A marker that Markdown does not know stays as text after a bullet."""
    mark, body = "-", item.markdown or escape(item.text)
    if _NUMBER_MARK.fullmatch(item.marker):
        mark = item.marker
    elif item.marker and not _PLAIN_MARK.fullmatch(item.marker):
        body = f"{escape(item.marker)} {body}"
    return mark, body if item.markdown else _with_escape(body, _FIRST_MARK)


def code(lines: Sequence[str], language: str = "") -> str:
    """A fenced block; the fence is longer than any run of backticks inside."""
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *lines, fence])


def table(rows: Sequence[Sequence[str]], marked: Container[tuple[int, int]] = ()) -> str:
    """A pipe table; the first row is its head, short rows are filled up.

    The cells whose row and column are in `marked` are Markdown already.
    """
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    shown = [
        [_marked_cell(c) if marked and (i, j) in marked else _cell(c) for j, c in enumerate(row)]
        + [""] * (width - len(row))
        for i, row in enumerate(rows)
    ]
    lines = ["| " + " | ".join(row) + " |" for row in shown]
    lines.insert(1, "|" + "---|" * width)
    return "\n".join(lines)


def _marked_cell(markdown: str) -> str:
    return markdown.replace("|", "\\|").replace("\n", " ")


def _cell(text: str) -> str:
    return escape(_CELL_LEADER.sub("", clean(text))).replace("|", "\\|")


def hyphenated_words(text: str) -> frozenset[str]:
    """The words that are written with a hyphen inside of a line, in lower case; none if no line ends in a hyphen."""
    return frozenset(map(str.lower, _HYPHENATED.findall(text))) if _HYPHEN_BREAK.search(text) else frozenset()


def join_lines(
    lines: Sequence[str],
    breaks: Sequence[bool],
    *,
    join_hyphens: bool,
    hyphenated: frozenset[str] = frozenset(),
) -> tuple[str, list[int]]:
    """Lines as one paragraph, and where each begins in it.

    `breaks[i]` says that line i was ended on purpose, so the break stays. The words `hyphenated` keep their hyphen at
    the end of a line.
    """
    text = ""
    starts: list[int] = []
    for i, line in enumerate(lines):
        if not text:
            text = line
            starts.append(0)
            continue
        if (join_hyphens and line[:1].islower() and _HYPHEN_END.fullmatch(text[-3:])) or text.endswith(
            _SOFT_HYPHEN
        ):
            text = text if hyphenated and _cut_word(text, line) in hyphenated else text[:-1]
        elif breaks[i - 1]:
            text += "\n"
        elif not line or not (_is_wide(text[-1]) and _is_wide(line[0])):
            text += " "
        starts.append(len(text))
        text += line
    return text, starts


def _cut_word(text: str, following: str) -> str:
    """The word that the line's end cuts, with its hyphen, in lower case."""
    end, start = _LAST_WORD.search(text), _FIRST_WORD.match(following)
    return f"{end[1]}-{start[0]}".lower() if end and start else ""


def _is_wide(char: str) -> bool:
    """Chinese and Japanese are written without spaces, so a line's end is no space either."""
    return "\u3000" <= char <= "\u9fff" or "\uff00" <= char <= "\uff60"
