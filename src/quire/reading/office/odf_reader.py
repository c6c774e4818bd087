"""OpenDocument texts, sheets and slides (ODT, ODS, ODP) as Markdown.

Deleted text of tracked changes, comments and hidden parts are left out. Weakness: formulas (MathML objects) and charts
are shown by their pictures only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from quire.domain.element import CellSpan
from quire.errors import DamagedError, TooLargeError
from quire.reading.office.inline_markdown import (
    BOLD,
    ITALIC,
    RAISED,
    RAW,
    STRIKE,
    Run,
    block,
    placeholder,
    render,
)
from quire.reading.office.office_pages import (
    TABLE_PAGE_CHARS,
    Lists,
    MarkdownBlock,
    OfficePage,
    Pager,
    cell,
    joined,
    kept_spans,
    table_spans,
)
from quire.reading.office.office_source import Opened
from quire.reading.office.ooxml_package import Package
from quire.reading.office.zip_container import OfficeLimits, ZipContainer

Add = Callable[[MarkdownBlock], None]

_CONTENT = "content.xml"
_MOST_BYTES = 128 << 20
_MAX_DEPTH = 8
_MAX_REPEATED = 1_000
_MAX_SPAN = 64
_SKIPPED = frozenset(
    {"tracked-changes", "annotation", "annotation-end", "sequence-decls", "forms", "soft-page-break", "notes"}
)
_HOLDERS = frozenset(
    {"section", "table-of-content", "index-body", "illustration-index", "alphabetical-index"}
)
_SHAPES = frozenset({"custom-shape", "rect", "ellipse", "line", "connector", "caption", "polygon", "path"})


def open_document(path: str, limits: OfficeLimits) -> Opened:
    """An ODT file. Raises DocumentError or TooLargeError."""
    return _open(path, limits, "odt", "text")


def open_spreadsheet(path: str, limits: OfficeLimits) -> Opened:
    """An ODS file. Raises DocumentError or TooLargeError."""
    return _open(path, limits, "ods", "spreadsheet")


def open_presentation(path: str, limits: OfficeLimits) -> Opened:
    """An ODP file. Raises DocumentError or TooLargeError."""
    return _open(path, limits, "odp", "presentation")


def _open(path: str, limits: OfficeLimits, reader: str, kind: str) -> Opened:
    archive = ZipContainer(path, limits)
    try:
        if _CONTENT not in archive:
            raise DamagedError(
                "The document is damaged: its content is missing. Save it anew and send that copy."
            )
        if archive.size(_CONTENT) > _MOST_BYTES:
            raise TooLargeError(
                f"The document has more than {_MOST_BYTES >> 20} MB of text. Send it in parts."
            )
        package = Package(archive)
        root = package.tree(_CONTENT, "content")
        body = package.child(package.child(root, "body"), kind)
        styles = _styles(package, root)
        title, author = _credits(package)
        pages = _pages(_Writer(package, styles), body, kind) if body is not None else []
    except BaseException:
        archive.close()
        raise
    return Opened(reader, pages, title, author, archive.read, archive.close)


@dataclass(frozen=True, slots=True)
class _Styles:
    """How each style of text looks, and which levels of each style of list are numbered."""

    looks: dict[str, int]
    numbered: dict[str, frozenset[str]]
    hidden_tables: frozenset[str]


def _styles(package: Package, root: Element | None) -> _Styles:
    looks: dict[str, int] = {}
    numbered: dict[str, frozenset[str]] = {}
    hidden: set[str] = set()
    roots = [root, package.tree("styles.xml", "styles") if "styles.xml" in package.archive else None]
    for holder in (package.child(one, name) for one in roots for name in ("automatic-styles", "styles")):
        for style in holder if holder is not None else ():
            name = package.attribute(style, "name")
            if package.local[style.tag] == "style":
                looks.setdefault(name, _look(package, package.child(style, "text-properties")))
                table = package.child(style, "table-properties")
                if table is not None and package.attribute(table, "display") == "false":
                    hidden.add(name)
            elif package.local[style.tag] == "list-style":
                levels = package.children(style, "list-level-style-number")
                numbered.setdefault(name, frozenset(package.attribute(one, "level") for one in levels))
    return _Styles(looks, numbered, frozenset(hidden))


def _look(package: Package, properties: Element | None) -> int:
    if properties is None:
        return 0
    look = 0
    if package.attribute(properties, "font-weight") in ("bold", "600", "700", "800", "900"):
        look |= BOLD
    if package.attribute(properties, "font-style") in ("italic", "oblique"):
        look |= ITALIC
    if package.attribute(properties, "text-line-through-style", "none") != "none":
        look |= STRIKE
    if _is_raised(package.attribute(properties, "text-position")):
        look |= RAISED
    return look


def _is_raised(position: str) -> bool:
    """Whether a position says so: "super", or by how many per cent of the type's height."""
    first = position.split()[:1]
    return first == ["super"] or (bool(first) and first[0][:1].isdigit() and first[0] not in ("0", "0%"))


def _credits(package: Package) -> tuple[str | None, str | None]:
    """Title and author as the document's properties have them."""
    try:
        root = package.tree("meta.xml", "properties")
    except DamagedError:  # a courtesy: broken properties must not cost the document
        return None, None
    meta = package.child(root, "meta")
    found = []
    for names in (("title",), ("initial-creator", "creator")):
        texts = [one.text or "" for name in names for one in package.children(meta, name)]
        clean = " ".join("".join(c for c in " ".join(texts[:1]) if c.isprintable() or c == " ").split())[:500]
        found.append(clean or None)
    return found[0], found[1]


def _pages(writer: _Writer, body: Element, kind: str) -> list[OfficePage]:
    package = writer.package
    if kind == "presentation":
        return [_slide(writer, page, at) for at, page in enumerate(package.children(body, "page"), 1)]
    if kind == "spreadsheet":
        return [page for sheet in package.children(body, "table") for page in _sheet(writer, sheet)]
    pager = Pager()
    writer.add_blocks(body, pager.add, 0)
    return pager.finish()


def _slide(writer: _Writer, page: Element, number: int) -> OfficePage:
    package = writer.package
    blocks: list[MarkdownBlock] = []
    title = ""
    for one in page:
        if package.attribute(one, "class") == "title" and not title:
            title = writer.line_of(one).replace("\n", " ")
        else:
            writer.add_shape(one, blocks.append, 0)
    notes: list[MarkdownBlock] = []
    held = package.child(page, "notes")
    for frame in held if held is not None else ():
        if package.attribute(frame, "class") == "notes":
            writer.add_shape(frame, notes.append, 0)
    if notes:
        blocks += [MarkdownBlock("### Notes", 3), *notes]
    made = [MarkdownBlock(f"# {title or f'Slide {number}'}", 1), *blocks]
    return OfficePage(joined(made), tuple(ref for one in made for ref in one.pictures), table_spans(made))


def _sheet(writer: _Writer, sheet: Element) -> list[OfficePage]:
    package = writer.package
    name = cell(package.attribute(sheet, "name")) or "Sheet"
    is_hidden = package.attribute(sheet, "style-name") in writer.styles.hidden_tables
    heading = f"## {name}{' (hidden)' if is_hidden else ''}"
    rows, spans = writer.rows_of(sheet)
    pager = Pager(TABLE_PAGE_CHARS)
    pager.add(MarkdownBlock(heading, 2))
    if rows:
        pager.add_table(rows, spans=spans)
    else:
        pager.add(MarkdownBlock("*This sheet is empty.*"))
    first, *rest = pager.finish()
    return [
        first,
        *(OfficePage(f"{heading} (continued)\n\n{one.markdown}", one.pictures, one.spans) for one in rest),
    ]


@dataclass(slots=True)
class _Line:
    """What has been gathered of a paragraph."""

    runs: list[Run] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frames: list[Element] = field(default_factory=list)


class _Writer:
    """Writes parts of the content as blocks of Markdown."""

    def __init__(self, package: Package, styles: _Styles) -> None:
        self.package = package
        self.styles = styles
        self._lists = Lists()
        self._noted = 0

    def add_blocks(self, holder: Element, add: Add, depth: int) -> None:
        """The blocks in an element, one after the other."""
        if depth > _MAX_DEPTH:
            return
        for one in holder:
            name = self.package.local[one.tag]
            if name in ("p", "h"):
                self._lists.end()
                self._add_paragraph(one, add, depth)
            elif name == "list":
                self._add_list(one, add, 0, "")
                self._lists.end()
            elif name == "table":
                self._add_table(one, add)
            elif name in _HOLDERS:
                self.add_blocks(one, add, depth + 1)
            elif name not in _SKIPPED:
                self.add_shape(one, add, depth)

    def add_shape(self, shape: Element, add: Add, depth: int) -> None:
        """A frame, a shape with text, or a group of them."""
        name = self.package.local[shape.tag]
        if depth > _MAX_DEPTH or name in _SKIPPED:
            return
        if name == "frame":
            self._add_frame(shape, add, depth)
        elif name in ("g", "a"):
            for one in shape:
                self.add_shape(one, add, depth + 1)
        elif name in _SHAPES or name == "text-box":
            self.add_blocks(shape, add, depth + 1)

    def _add_frame(self, frame: Element, add: Add, depth: int) -> None:
        package = self.package
        for name in ("table", "text-box"):
            held = package.child(frame, name)
            if held is not None:
                if name == "table":
                    self._add_table(held, add)
                else:
                    self.add_blocks(held, add, depth + 1)
                return
        picture = self._picture(frame)
        if picture is not None:
            text, ref = picture
            add(MarkdownBlock(text, pictures=(ref,)))

    def _picture(self, frame: Element) -> tuple[str, str] | None:
        """A picture's placeholder and its place in the file."""
        package = self.package
        image = package.child(frame, "image")
        if image is None:
            return None
        title, words = (package.child(frame, name) for name in ("title", "desc"))
        alt = next((one.text for one in (words, title) if one is not None and one.text), "")
        href = package.attribute(image, "href").removeprefix("./")
        return placeholder(alt), href if href in package.archive else ""

    def _add_paragraph(self, element: Element, add: Add, depth: int) -> None:
        line = self._gathered(element)
        text = render(line.runs)
        pictures, notes = tuple(line.pictures), tuple(line.notes)
        if text and self.package.local[element.tag] == "h":
            given = self.package.attribute(element, "outline-level", "1")
            level = min(max(int(given), 1), 6) if given.isdigit() and len(given) < 4 else 1
            words = text.replace("\n", " ").replace("**", "")
            add(MarkdownBlock(f"{'#' * level} {words}", level, pictures=pictures, notes=notes))
        elif text:
            add(MarkdownBlock(block(text), pictures=pictures, notes=notes))
        for frame in line.frames:
            self.add_shape(frame, add, depth + 1)

    def _add_list(self, element: Element, add: Add, depth: int, style: str) -> None:
        package = self.package
        style = package.attribute(element, "style-name") or style
        is_numbered = str(depth + 1) in self.styles.numbered.get(style, ())
        number = 1
        for item in element:
            texts: list[str] = []
            pictures: list[str] = []
            marker = f"{number}." if is_numbered else "-"
            for one in item:
                name = package.local[one.tag]
                if name == "list" and depth < _MAX_DEPTH:
                    number += self._add_item(texts, depth, marker, add, pictures)
                    self._add_list(one, add, depth + 1, style)
                elif name in ("p", "h"):
                    line = self._gathered(one)
                    texts.append(render(line.runs))
                    pictures += line.pictures
                    for frame in line.frames:
                        self.add_shape(frame, add, depth + 1)
            number += self._add_item(texts, depth, marker, add, pictures)

    def _add_item(self, texts: list[str], depth: int, marker: str, add: Add, pictures: list[str]) -> bool:
        """Adds an item of the texts gathered, and forgets them; whether there was one to add."""
        text = "\n".join(filter(None, texts))
        if text:
            add(MarkdownBlock(self._lists.item(depth, marker, block(text)), 0, True, tuple(pictures)))
        texts.clear()
        pictures.clear()
        return bool(text)

    def _add_table(self, table: Element, add: Add) -> None:
        rows, spans = self.rows_of(table)
        pager = Pager(TABLE_PAGE_CHARS)
        pager.add_table(rows, spans=spans)
        for page in pager.finish():
            add(MarkdownBlock(page.markdown, spans=page.spans[0] if page.spans else ()))

    def rows_of(self, table: Element) -> tuple[list[list[str]], tuple[CellSpan, ...]]:
        """The rows that have any text, cut to the last column that has any, and their spans."""
        rows: list[list[str]] = []
        spans: list[CellSpan] = []
        for row in self._rows(table):
            cells: list[str] = []
            found: list[CellSpan] = []
            for one in row:
                self._add_cell(one, len(rows), cells, found)
            while cells and not cells[-1]:
                cells.pop()
            spans += found
            repeated = self._count(row, "number-rows-repeated", _MAX_REPEATED) if cells else 1
            rows += [list(cells) for _ in range(repeated)]
        kept, moved = kept_spans(spans, rows)
        width = max(map(len, kept), default=0)
        return kept, tuple(span for span in moved if span.column + span.column_span <= width)

    def _rows(self, holder: Element) -> Iterator[Element]:
        for one in holder:
            name = self.package.local[one.tag]
            if name == "table-row":
                yield one
            elif name in ("table-header-rows", "table-rows", "table-row-group"):
                yield from self._rows(one)

    def _add_cell(self, element: Element, row: int, cells: list[str], spans: list[CellSpan]) -> None:
        name = self.package.local[element.tag]
        if name not in ("table-cell", "covered-table-cell"):
            return
        text = self.line_of(element).replace("\n", " ") if name == "table-cell" else ""
        repeated = self._count(element, "number-columns-repeated", _MAX_REPEATED)
        wide = self._count(element, "number-columns-spanned", _MAX_SPAN)
        high = self._count(element, "number-rows-spanned", _MAX_REPEATED)
        if wide > 1 or high > 1:
            spans.append(CellSpan(row, len(cells), high, wide))
        cells += [text] * repeated

    def _count(self, element: Element, name: str, most: int) -> int:
        given = self.package.attribute(element, name, "1")
        return max(1, min(int(given), most)) if given.isascii() and given.isdigit() and len(given) < 9 else 1

    def line_of(self, holder: Element) -> str:
        """The paragraphs of an element, of its lists and frames too, in one line."""
        parts: list[str] = []
        for one in holder.iter():
            if self.package.local[one.tag] in ("p", "h"):
                parts.append(render(self._gathered(one).runs))
        return " ".join(filter(None, parts))

    def _gathered(self, paragraph: Element) -> _Line:
        line = _Line()
        look = self.styles.looks.get(self.package.attribute(paragraph, "style-name"), 0)
        if self.package.local[paragraph.tag] == "h":
            look &= ~BOLD
        self._gather(paragraph, line, look, "")
        return line

    def _gather(self, element: Element, line: _Line, look: int, href: str) -> None:
        package = self.package
        if element.text:
            line.runs.append(Run(" ".join(element.text.split("\n")), look, href))
        for one in element:
            name = package.local[one.tag]
            if name in ("span", "a", "bookmark-ref", "ruby", "ruby-base", "meta"):
                inner = look | self.styles.looks.get(package.attribute(one, "style-name"), 0)
                self._gather(one, line, inner, package.attribute(one, "href") if name == "a" else href)
            elif name == "s":
                line.runs.append(Run(" "))
            elif name in ("tab", "line-break"):
                line.runs.append(Run("\n" if name == "line-break" else " "))
            elif name == "note":
                self._note(one, line)
            elif (
                name == "frame" and package.child(one, "text-box") is None and self._picture(one) is not None
            ):
                text, ref = self._picture(one) or ("", "")
                line.runs.append(Run(text, RAW))
                line.pictures.append(ref)
            elif name in ("frame", "g") or name in _SHAPES:
                line.frames.append(one)
            elif name not in _SKIPPED and one.text:
                line.runs.append(Run(one.text, look, href))  # a field: a date, a page number
            if one.tail:
                line.runs.append(Run(" ".join(one.tail.split("\n")), look, href))

    def _note(self, note: Element, line: _Line) -> None:
        body = self.package.child(note, "note-body")
        text = self.line_of(body).replace("\n", " ") if body is not None else ""
        if text:
            self._noted += 1
            line.runs.append(Run(f"[^{self._noted}]", RAW))
            line.notes.append(f"[^{self._noted}]: {text}")
