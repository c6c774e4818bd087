"""Articles in JATS, the XML of scientific publishers: title, authors, abstract, sections, tables, references."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from quire.domain.element import CellSpan
from quire.errors import DamagedError, TooLargeError
from quire.reading.office.inline_markdown import BOLD, CODE, ITALIC, RAW, Run, block, placeholder, render
from quire.reading.office.office_pages import Lists, MarkdownBlock, OfficePage, Pager, kept_spans
from quire.reading.office.office_source import Opened
from quire.reading.office.ooxml_package import MAX_DEPTH, parse
from quire.reading.office.zip_container import OfficeLimits

READER = "jats"
_LOOKS = {"bold": BOLD, "italic": ITALIC, "monospace": CODE}
_BLOCKS = frozenset(
    {"p", "list", "table-wrap", "fig", "sec", "disp-formula", "disp-quote", "boxed-text", "def-list"}
)
_LEFT_OUT = frozenset(
    {"label", "title", "object-id", "alternatives-label", "permissions", "graphic", "sec-meta"}
)
_MOST_SPAN = 64


def open_jats(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    file = Path(path)
    if file.stat().st_size > limits.max_archive_bytes:
        raise TooLargeError("The article is larger than this service reads. Send it in parts.")
    root = parse(file.read_bytes(), "text")
    if _name(root) != "article":
        raise DamagedError("The XML document is no JATS article.")
    article = _Article()
    return Opened(READER, article.pages(root), article.title or None, article.authors or None)


def _name(element: Element) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _children(element: Element | None, *names: str) -> Iterator[Element]:
    return (one for one in (element if element is not None else ()) if _name(one) in names)


def _child(element: Element | None, name: str) -> Element | None:
    return next(_children(element, name), None)


def _found(element: Element, name: str) -> Iterator[Element]:
    return (one for one in element.iter() if _name(one) == name)


class _Article:
    def __init__(self) -> None:
        self.title = ""
        self.authors = ""
        self._pager = Pager()

    def pages(self, root: Element) -> list[OfficePage]:
        meta = _child(_child(root, "front"), "article-meta")
        self._front(meta)
        self._section(_child(root, "body"), 1, 0)
        back = _child(root, "back")
        for one in _children(back, "sec", "ack", "app-group", "fn-group", "glossary"):
            self._section(one, 2, 0)
        for references in _found(back, "ref-list") if back is not None else ():
            self._references(references)
        return self._pager.finish()

    def _front(self, meta: Element | None) -> None:
        if meta is None:
            return
        group = _child(meta, "title-group")
        self.title = _line(_child(group, "article-title"))
        self._add(f"# {self.title}" if self.title else "", 1)
        names = [
            _person(one) for one in _found(meta, "contrib") if one.get("contrib-type", "author") == "author"
        ]
        self.authors = ", ".join(filter(None, names))
        self._add(block(self.authors))
        for abstract in _children(meta, "abstract", "trans-abstract"):
            self._add(f"## {_line(_child(abstract, 'title')) or 'Abstract'}", 2)
            self._contents(abstract, 2, 0)

    def _section(self, section: Element | None, level: int, depth: int) -> None:
        if section is None or depth > MAX_DEPTH:
            return
        title, label = _line(_child(section, "title")), _line(_child(section, "label"))
        if title:
            self._add(f"{'#' * min(level, 6)} {f'{label} {title}' if label else title}", level)
        self._contents(section, level, depth)

    def _contents(self, holder: Element, level: int, depth: int) -> None:
        for one in holder:
            name = _name(one)
            if name in ("sec", "app", "boxed-text"):
                self._section(one, level + 1, depth + 1)
            elif name == "p":
                self._paragraph(one, level, depth)
            elif name in ("list", "def-list"):
                self._list(one, Lists(), 0)
            elif name in ("table-wrap", "fig"):
                self._float(one)
            elif (
                name in ("table-wrap-group", "fig-group", "fn-group", "fn", "disp-quote")
                and depth < MAX_DEPTH
            ):
                self._contents(one, level, depth + 1)
            elif name and name not in _LEFT_OUT:
                self._add(block(_line(one)))

    def _paragraph(self, paragraph: Element, level: int, depth: int) -> None:
        """A paragraph may hold lists, tables and figures: they follow the words before them."""
        inline = Element("p")
        inline.text = paragraph.text
        for one in paragraph:
            if _name(one) in _BLOCKS and depth < MAX_DEPTH:
                self._add(block(_line(inline)))
                holder = Element("sec")
                holder.append(one)
                self._contents(holder, level, depth + 1)
                inline = Element("p")
                inline.text = one.tail
            else:
                inline.append(one)
        self._add(block(_line(inline)))

    def _list(self, element: Element, lists: Lists, depth: int) -> None:
        marker = "1." if element.get("list-type") in ("order", "arabic") else "-"
        for count, item in enumerate(_children(element, "list-item", "def-item"), 1):
            inner = list(_children(item, "list"))
            words = " ".join(
                filter(None, (_line(one) for one in item if one not in inner and _name(one) != "label"))
            )
            shown = f"{count}." if marker == "1." else marker
            self._add(lists.item(depth, shown, block(words or " ")), tight=True)
            for one in inner if depth < MAX_DEPTH else ():
                self._list(one, lists, depth + 1)

    def _float(self, element: Element) -> None:
        label, caption = _line(_child(element, "label")), _line(_child(element, "caption"))
        words = " ".join(filter(None, (label, caption)))
        self._add(block(words))
        for table in _found(element, "table"):
            rows, spans = _grid(table)
            kept, merged = kept_spans(spans, rows)
            self._pager.add_table(kept, spans=merged)
        if _name(element) == "fig":
            self._pager.add(MarkdownBlock(placeholder(), pictures=("",)))
        self._add(block(_line(_child(element, "table-wrap-foot"))))

    def _references(self, references: Element) -> None:
        self._add(f"## {_line(_child(references, 'title')) or 'References'}", 2)
        lists = Lists()
        for number, one in enumerate(_children(references, "ref"), 1):
            cited = next((part for part in one if _name(part) != "label"), None)
            self._add(lists.item(0, f"{number}.", block(_line(cited)) or " "), tight=True)

    def _add(self, text: str, heading: int = 0, *, tight: bool = False) -> None:
        self._pager.add(MarkdownBlock(text, heading, tight))


def _person(contributor: Element) -> str:
    name = _child(contributor, "name")
    if name is None:
        return _line(_child(contributor, "collab"))
    return " ".join(filter(None, (_line(_child(name, "given-names")), _line(_child(name, "surname")))))


def _line(element: Element | None) -> str:
    """The words of an element in one line."""
    if element is None:
        return ""
    runs = list(_runs(element, 0, "", 0))
    return render(runs).replace("\n", " ")


def _runs(element: Element, look: int, href: str, depth: int) -> Iterator[Run]:
    if element.text:
        yield Run(" ".join(element.text.split("\n")), look, href)
    for one in element:
        name = _name(one)
        if depth < MAX_DEPTH and name:
            if name == "tex-math":
                yield Run(f"${' '.join((one.text or '').split())}$", RAW)
            elif name in ("ext-link", "uri"):
                address = next((value for key, value in one.attrib.items() if key.endswith("href")), "")
                yield from _runs(one, look, address, depth + 1)
            else:
                yield from _runs(one, look | _LOOKS.get(name, 0), href, depth + 1)
            if name in ("p", "title", "label", "name", "string-name", "element-citation", "break"):
                yield Run(" ")
        if one.tail:
            yield Run(" ".join(one.tail.split("\n")), look, href)


def _grid(table: Element) -> tuple[list[list[str]], list[CellSpan]]:
    """The rows of a table, with cells that span several rows or columns at their first place."""
    rows: list[list[str]] = []
    spans: list[CellSpan] = []
    taken: dict[tuple[int, int], bool] = {}
    for at, row in enumerate(_found(table, "tr")):
        cells: list[str] = []
        for one in _children(row, "td", "th"):
            while taken.get((at, len(cells))):
                cells.append("")
            wide, high = _span(one.get("colspan")), _span(one.get("rowspan"))
            if wide > 1 or high > 1:
                spans.append(CellSpan(at, len(cells), high, wide))
                taken |= {(at + r, len(cells) + c): True for r in range(high) for c in range(wide)}
            cells += [_line(one), *[""] * (wide - 1)]
        rows.append(cells)
    return rows, [one._replace(row_span=min(one.row_span, len(rows) - one.row)) for one in spans]


def _span(given: str | None) -> int:
    return max(1, min(int(given), _MOST_SPAN)) if given and given.isdigit() and len(given) < 6 else 1
