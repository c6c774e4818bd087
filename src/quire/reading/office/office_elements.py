"""Makes elements of the Markdown that the readers of this package write.

It knows only the forms that they write (see `office_pages` and `inline_markdown`), which makes it about six times
cheaper than a CommonMark parser (0.08 against 0.48 ms for a page of the corpus).

Spans of cells and captions, which Markdown can't say, come beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from quire.domain.element import CellMarkdown, Element, ElementKind, FileFacts, TableGrid, element_id
from quire.domain.element_tree import renumbered
from quire.reading.office.caption_parents import with_captions
from quire.reading.office.embedded_files import with_files
from quire.reading.office.inline_markdown import is_plain
from quire.reading.office.math_markup import FORMULA_MARK
from quire.reading.office.office_pages import CaptionOf, OfficePage, PageCaption, RunningText, Spans

_HEADING = re.compile(r"(#{1,6}) (.*)")
_LABEL = re.compile(
    r"(\((?:[a-zA-Z]|[ivxIVX]{2,5})\)|(?:[a-zA-Z]|[ivxIVX]{2,5})\)|(?:[a-z]|[ivx]{2,5})\.) (?=\S)"
)
"""The letter of an item, which Markdown has no sign for: "a)", "(ii)", "b." The "A." of a name is none."""
_ITEM = re.compile(r"( *)([-*]|\d{1,9}[.)]) (.*)")
_NOTE = re.compile(r"\[\^(\w+)\]: (.*)")
_FENCE = re.compile(r"(`{3,}|~{3,})([\w+#.-]*)")
_RULE = re.compile(r"\|(?:---\|)+")
_CELL_BORDER = re.compile(r"(?<!\\) \| ")
_PICTURE = re.compile(r"\[Picture(?:: ((?:[^\]\\\n]|\\.)*))?\]")
_PICTURES = re.compile(rf"(?:{_PICTURE.pattern}\s*)+")
_INLINE = re.compile(
    r"\\([!-/:-@\[-`{-~])|&(lt|amp|gt|quot);|(`+)(.+?)\3|\[((?:[^\]\\]|\\.)*)\]\((?:[^()\s\\]|\\.)*\)|\*{1,3}|~~"
)
_NAMED = {"lt": "<", "amp": "&", "gt": ">", "quot": '"'}


def plain_words(markdown: str) -> str:
    """The text of inline Markdown that this package wrote, without its markup."""
    return markdown if is_plain(markdown) else _INLINE.sub(_unmarked, markdown)


def _unmarked(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    if found[2]:
        return _NAMED[found[2]]
    if found[3]:
        return found[4]
    return plain_words(found[5]) if found[5] else ""


def office_elements(
    markdown: str, number: int, spans: Iterable[Spans] = (), captions: Iterable[PageCaption] = ()
) -> tuple[Element, ...]:
    """The elements of page `number`, whose Markdown is given, with the spans of its tables in their order."""
    elements: list[Element] = []
    left = iter(spans)
    columns: list[int] = []
    starts = dict(captions)
    named: dict[int, CaptionOf] = {}
    holders: list[str] = []
    for line, block in _blocks(markdown.split("\n")):
        first, id_ = block[0], element_id(number, len(elements))
        if line in starts:
            named[len(elements)] = starts[line]
        indent = len(first) - len(first.lstrip(" "))
        is_item = _ITEM.match(first) is not None
        around = sum(column <= indent for column in columns)
        if is_item or not (indent and around):
            made = _element(block, id_, columns)
            del columns[len(columns) if is_item else 0 :]
            holders[max(0, len(columns) - 1) :] = [id_] if is_item else []
        else:  # a further paragraph of an item
            made = replace(_element([one.strip() for one in block], id_, []), parent=holders[around - 1])
        if made.table is not None and (found := next(left, ())):
            made = replace(made, table=replace(made.table, spans=_fitting(found, made.table.rows)))
        elements.append(made)
    return with_captions(elements, named) if named else tuple(elements)


def page_elements(
    page: OfficePage, number: int, markdown: str, files: Mapping[str, FileFacts]
) -> tuple[Element, ...]:
    """The elements of page `number`, whose Markdown may have got descriptions at its placeholders since.

    `files` are what is known of the document's embedded files, by their lines.
    """
    found = office_elements(markdown.strip(), number, page.spans, page.captions)
    elements = with_files(found, files)
    return with_running(elements, number, page.running) if page.running else elements


def with_running(
    elements: Sequence[Element], number: int, running: Sequence[RunningText]
) -> tuple[Element, ...]:
    """The elements of page `number` between its headers and its footers, which Markdown leaves out."""
    made = [replace(_worded("", one.kind, one.text), repeated=True) for one in running]
    heads = [one for one in made if one.kind is ElementKind.RUNNING_HEADER]
    feet = [one for one in made if one.kind is not ElementKind.RUNNING_HEADER]
    return renumbered([*heads, *elements, *feet], number)


def _fitting(spans: Spans, rows: Sequence[Sequence[str]]) -> Spans:
    """The spans that are inside the table."""
    height, width = len(rows), max(map(len, rows), default=0)
    return tuple(s for s in spans if s.row + s.row_span <= height and s.column + s.column_span <= width)


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Lines that form one block, with the place of the first: up to an empty line, an item, or the end of a fence."""
    block: list[str] = []
    fence = ""
    for at, line in enumerate(lines):
        if fence:
            block.append(line)
            if line == fence:
                fence = ""
                yield at + 1 - len(block), block
                block = []
            continue
        starts_item = _ITEM.match(line) is not None or line.startswith("[^")
        if block and (not line.strip() or starts_item or _HEADING.match(line)):
            yield at - len(block), block
            block = []
        if not line.strip():
            continue
        found = _FENCE.match(line)
        if found and not block:
            fence = found[1]
        block.append(line)
    if block:
        yield len(lines) - len(block), block


def _element(block: list[str], id_: str, columns: list[int]) -> Element:
    first = block[0]
    fence = _FENCE.match(first)
    if first.startswith("|") and len(block) > 1 and _RULE.fullmatch(block[1]):
        made = Element(id_, ElementKind.TABLE, table=_grid([block[0], *block[2:]]))
    elif fence and len(block) > 1:
        made = Element(id_, ElementKind.CODE, "\n".join(block[1:-1]), language=fence[2])
    elif found := _HEADING.fullmatch(first):
        made = _worded(id_, ElementKind.HEADING, found[2], level=len(found[1]))
    elif found := _NOTE.fullmatch(first):
        made = _worded(id_, ElementKind.FOOTNOTE, found[2], marker=found[1])
    elif found := _ITEM.fullmatch(first):
        made = _item(id_, found, block[1:], columns)
    elif first.startswith(">"):
        made = _worded(id_, ElementKind.QUOTE, "\n".join(line.lstrip("> ").rstrip() for line in block))
    elif first == FORMULA_MARK and len(block) > 2 and block[-1] == FORMULA_MARK:
        latex = "\n".join(block[1:-1])
        made = Element(id_, ElementKind.FORMULA, latex, latex=latex)
    elif len(block) == 1 and _PICTURES.fullmatch(first):
        texts = (plain_words(one[1]) for one in _PICTURE.finditer(first) if one[1])
        made = Element(id_, ElementKind.FIGURE, "\n".join(texts), markdown=first)
    else:
        made = _worded(id_, ElementKind.PARAGRAPH, "\n".join(block))
    return made


def _item(id_: str, found: re.Match[str], rest: list[str], columns: list[int]) -> Element:
    """An item of a list; `columns` has the indents of the items around it."""
    indent, mark = len(found[1]), found[2]
    while columns and columns[-1] > indent:
        columns.pop()
    depth = len(columns)
    columns.append(indent + len(mark) + 1)
    text = "\n".join([found[3], *(line.strip() for line in rest)])
    if mark == "-" and (label := _LABEL.match(text)):
        mark, text = label[1], text[label.end() :]
    return _worded(id_, ElementKind.LIST_ITEM, text, marker=mark, depth=depth)


def _worded(
    id_: str, kind: ElementKind, markdown: str, *, level: int = 0, marker: str = "", depth: int = 0
) -> Element:
    words = plain_words(markdown)
    return Element(
        id_,
        kind,
        words,
        level=level,
        marker=marker,
        depth=depth,
        markdown="" if words == markdown else markdown,
    )


def _grid(lines: Sequence[str]) -> TableGrid:
    rows: list[tuple[str, ...]] = []
    marked: list[CellMarkdown] = []
    for at, line in enumerate(lines):
        cells = _CELL_BORDER.split(line[2:-2])
        if not is_plain(line):
            words = [plain_words(cell) for cell in cells]
            marked += [
                CellMarkdown(at, column, cell.replace("\\|", "|"))
                for column, (cell, word) in enumerate(zip(cells, words, strict=True))
                if cell != word
            ]
            cells = words
        rows.append(tuple(cells))
    return TableGrid(tuple(rows), marked=tuple(marked))
