"""Makes elements of Markdown that others wrote: answers of models, and Markdown files.

It is parsed as CommonMark with tables. Link references are not followed, so that notes stay text.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from quire.domain.element import Element, ElementKind, PageElements, TableCell, TableGrid, element_id
from quire.domain.element_codec import encode
from quire.reading.pdf.paragraph_kinds import names_figure

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FORMULA = re.compile(r"\$\$\s*(.+?)\s*\$\$|\\\[\s*(.+?)\s*\\\]", re.DOTALL)
_NOTE = re.compile(r"\[\^([\w-]+)\]:\s*(.*)", re.DOTALL)
_PICTURE = re.compile(r"\[(?:Picture|Image|Figure)(?::\s*(.*))?\]", re.DOTALL | re.I)
_TAG = re.compile(r"<[^<>]*>")
_ADDRESS = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:|//|\\\\)", re.I)
_SAYING = frozenset(("alt", "title", "value", "placeholder", "label", "aria-label", "content", "summary"))
_LEADING = frozenset(("href", "src", "srcset", "data", "action", "poster", "cite"))
_LONGEST_LANGUAGE = 20
_MAX_SPAN = 64
_CAPTIONED = (ElementKind.TABLE, ElementKind.FIGURE)
_SAID_BY = {"heading_open": ElementKind.HEADING, "blockquote_open": ElementKind.QUOTE}


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # here: an idle service does not need it

    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("reference")


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The elements of a page's Markdown, and what it says beside their text.

    `unshown` is what a viewer does not show as text: comments, titles, other attributes. `addresses` are those of links
    and pictures that lead out of the document.
    """

    elements: tuple[Element, ...]
    unshown: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


def markdown_elements(markdown: str, number: int, reader: str = "") -> tuple[Element, ...]:
    """The elements of page `number`, whose Markdown is given. No input is refused."""
    return parsed_answer(markdown, number, reader).elements


def parsed_answer(markdown: str, number: int, reader: str = "") -> ParsedAnswer:
    """The same, with what is not shown."""
    walk = _Walk(number, reader)
    walk.read(_parser().parse(markdown))
    beside = walk.beside
    return ParsedAnswer(_with_captions(walk.elements), tuple(beside.unshown), tuple(beside.addresses))


def _with_captions(elements: Sequence[Element]) -> tuple[Element, ...]:
    """The elements, paragraphs next to a table or a figure that name it as its captions: those below it first."""
    captions: dict[int, str] = {}
    for at, one in enumerate(elements):
        if one.kind is not ElementKind.PARAGRAPH or not names_figure(one.text):
            continue
        beside = [elements[place] for place in (at - 1, at + 1) if 0 <= place < len(elements)]
        held = [other for other in beside if other.kind in _CAPTIONED and other.id not in captions.values()]
        if held:
            captions[at] = held[0].id
    return tuple(
        replace(one, kind=ElementKind.CAPTION, parent=captions[at]) if at in captions else one
        for at, one in enumerate(elements)
    )


def encoded_markdown(markdown: str, number: int, reader: str = "") -> bytes:
    """The same elements in their stored form, for a page that was stored without. No check gave them ground."""
    found = (replace(element, grounded=None) for element in markdown_elements(markdown, number, reader))
    return encode(PageElements(number, tuple(found), reader))


class _Walk:
    """Goes through the parser's tokens. `_holders` has the ids of open items and quotations that have their text."""

    def __init__(self, number: int, reader: str) -> None:
        self._number = number
        self._reader = reader
        self._holders: list[str] = []
        self._open: list[Token] = []
        self._depth = -1
        self.elements: list[Element] = []
        self.beside = _BesideText()

    def read(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            self.beside.add_all(token.children or (token,))
            if token.type == "table_open":
                end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
                self._add(ElementKind.TABLE, table=_grid(tokens[at:end]))
                for inner in tokens[at + 1 : end]:
                    self.beside.add_all(inner.children or (inner,))
                at = end
            else:
                self._token(token)
            at += 1

    def _token(self, token: Token) -> None:
        if token.type in ("bullet_list_open", "ordered_list_open"):
            self._depth += 1
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            self._depth -= 1
        elif token.type in ("list_item_open", "blockquote_open", "heading_open"):
            self._open.append(token)
            self._holders.append("")
        elif token.type in ("list_item_close", "blockquote_close", "heading_close"):
            if not self._holders[-1] and self._open[-1].type == "list_item_open":
                self._hold("")
            self._open.pop()
            self._holders.pop()
        elif token.type == "inline":
            self._text(token)
        elif token.type in ("fence", "code_block"):
            words = token.info.split()
            self._add(ElementKind.CODE, token.content.rstrip("\n"), language=words[0][:40] if words else "")
        elif token.type == "html_block":
            self._html(token.content)

    def _text(self, token: Token) -> None:
        markdown = token.content
        text = _words(token.children or ())
        if self._open and not self._holders[-1]:
            self._hold(text, markdown)
        elif found := _FORMULA.fullmatch(markdown.strip()):
            latex = found[1] or found[2]
            self._add(ElementKind.FORMULA, latex, latex=latex)
        elif found := _NOTE.fullmatch(markdown):
            self._add(ElementKind.FOOTNOTE, found[2], marker=found[1])
        elif found := _PICTURE.fullmatch(markdown.strip()):
            self._add(ElementKind.FIGURE, found[1] or "", markdown=markdown.strip())
        elif _is_image(token):
            self._add(ElementKind.FIGURE, text, markdown=markdown)
        elif text.strip():
            self._add(ElementKind.PARAGRAPH, text, markdown=markdown if markdown != text else "")

    def _hold(self, text: str, markdown: str = "") -> None:
        """The first text of the item, the quotation or the heading that is open."""
        token = self._open[-1]
        kind = _SAID_BY.get(token.type, ElementKind.LIST_ITEM)
        is_item = kind is ElementKind.LIST_ITEM
        marker = (f"{token.info}{token.markup}" if token.info else token.markup) if is_item else ""
        self._holders[-1] = self._add(
            kind,
            text,
            level=int(token.tag[1:]) if kind is ElementKind.HEADING else 0,
            marker=marker,
            depth=max(0, self._depth) if is_item else 0,
            markdown=markdown if markdown != text else "",
            outer=self._holders[:-1],
        )

    def _html(self, content: str) -> None:
        if "<table" in content.lower():
            reader = _HtmlTable()
            reader.feed(content)
            reader.close()
            if reader.cells:
                if text := " ".join("".join(reader.beside).split()):
                    self._add(ElementKind.PARAGRAPH, text)
                self._add(ElementKind.TABLE, table=TableGrid.from_cells(reader.cells))
                return
        text = html.unescape(_TAG.sub(" ", _without_comments(content)))
        if text.strip():
            self._add(ElementKind.PARAGRAPH, " ".join(text.split()))

    def _add(
        self,
        kind: ElementKind,
        text: str = "",
        *,
        level: int = 0,
        marker: str = "",
        depth: int = 0,
        table: TableGrid | None = None,
        latex: str = "",
        language: str = "",
        markdown: str = "",
        outer: Sequence[str] | None = None,
    ) -> str:
        held = [holder for holder in (self._holders if outer is None else outer) if holder]
        made = Element(
            element_id(self._number, len(self.elements)),
            kind,
            text,
            parent=held[-1] if held else None,
            level=level,
            marker=marker,
            depth=depth,
            table=table,
            latex=latex,
            language=language,
            reader=self._reader,
            markdown=markdown,
        )
        self.elements.append(made)
        return made.id


def _without_comments(content: str) -> str:
    """The HTML without its comments. One without an end hides nothing here: its text is compared like all other."""
    *parts, rest = content.split("-->")
    shown = (part.partition("<!--") for part in parts)
    return " ".join([*(before if mark else f"{before}-->" for before, mark, _ in shown), rest])


class _BesideText(HTMLParser):
    """Collects what Markdown and the HTML in it say without showing it as text, and where they lead."""

    def __init__(self) -> None:
        super().__init__()
        self.unshown: list[str] = []
        self.addresses: list[str] = []

    def add_all(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if token.type in ("html_inline", "html_block"):
                self.reset()
                self.feed(token.content)
                self.close()
            elif token.type in ("link_open", "image"):
                self._attributes((name, str(value)) for name, value in token.attrs.items() if name != "alt")
            elif token.type == "fence":
                words = token.info.split()
                self.unshown += words[1:] if words and len(words[0]) <= _LONGEST_LANGUAGE else words

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes((name, value) for name, value in attrs if value)

    def handle_comment(self, data: str) -> None:
        self.unshown.append(data)

    def handle_decl(self, decl: str) -> None:
        self.unshown.append(decl)

    def handle_pi(self, data: str) -> None:
        self.unshown.append(data)

    def unknown_decl(self, data: str) -> None:
        self.unshown.append(data)

    def _attributes(self, attributes: Iterable[tuple[str, str]]) -> None:
        for name, value in attributes:
            if name in _SAYING:
                self.unshown.append(value)
            elif name in _LEADING and _ADDRESS.match(value):
                self.addresses.append(value.strip())


def _words(children: Sequence[Token]) -> str:
    """The text of inline tokens without their markup."""
    parts: list[str] = []
    for child in children:
        if child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif child.type == "image" or child.type in ("text", "code_inline", "text_special"):
            parts.append(child.content)
    return "".join(parts)


def _is_image(token: Token) -> bool:
    return len(token.children or ()) == 1 and (token.children or [])[0].type == "image"


def _grid(tokens: Sequence[Token]) -> TableGrid:
    rows: list[list[TableCell]] = []
    head = 0
    for at, token in enumerate(tokens):
        if token.type == "thead_open":
            head = 1
        elif token.type == "thead_close":
            head = 0
        elif token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            inline = tokens[at + 1]
            text = _words(inline.children or ())
            marked = inline.content if inline.content != text else ""
            rows[-1].append(TableCell(len(rows) - 1, len(rows[-1]), 1, 1, bool(head), text, marked))
    return TableGrid.from_cells(cell for row in rows for cell in row)


class _HtmlTable(HTMLParser):
    """The cells of the tables in a piece of HTML, spans included, one table below the other, and the text `beside`."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[TableCell] = []
        self._row = -1
        self._taken: set[tuple[int, int]] = set()
        self._cell: TableCell | None = None
        self._words: list[str] = []
        self.beside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._end()
            self._row += 1
        elif tag in ("td", "th") and self._row >= 0:
            self._end()
            given = dict(attrs)
            column = 0
            while (self._row, column) in self._taken:
                column += 1
            self._cell = TableCell(
                self._row, column, _span(given.get("rowspan")), _span(given.get("colspan")), tag == "th", ""
            )
        elif tag == "br":
            (self._words if self._cell is not None else self.beside).append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._end()

    def handle_data(self, data: str) -> None:
        (self._words if self._cell is not None else self.beside).append(data)

    def close(self) -> None:
        super().close()
        self._end()

    def _end(self) -> None:
        if self._cell is not None:
            cell = self._cell._replace(text=" ".join("".join(self._words).split()))
            self._taken |= {
                (cell.row + row, cell.column + column)
                for row in range(cell.row_span)
                for column in range(cell.column_span)
            }
            self.cells.append(cell)
        self._cell = None
        self._words = []


def _span(given: str | None) -> int:
    return max(1, min(_MAX_SPAN, int(given))) if given and given.isdigit() else 1
