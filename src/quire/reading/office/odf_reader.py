"""OpenDocument texts, sheets and slides (ODT, ODS, ODP) as Markdown.

Deleted text of tracked changes and hidden parts are left out. Weakness: charts are shown by their pictures only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree.ElementTree import Element

from quire.domain.element import CellSpan
from quire.errors import DamagedError, TooLargeError
from quire.reading.office.flow_text import NoteKind, comment_text
from quire.reading.office.inline_markdown import (
    BOLD,
    RAW,
    Run,
    block,
    render,
)
from quire.reading.office.math_markup import display_formula, inline_formula
from quire.reading.office.odf_objects import frame_file, frame_formula, frame_picture
from quire.reading.office.odf_styles import OdfStyles, read_styles
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
from quire.reading.office.review_comments import column_letters, comment_item
from quire.reading.office.zip_container import OfficeLimits, ZipContainer

Add = Callable[[MarkdownBlock], None]

_CONTENT = "content.xml"
_MOST_BYTES = 128 << 20
_MAX_DEPTH = 8
_MAX_REPEATED = 1_000
_MAX_SPAN = 64
_MOST_ROWS = 1 << 20
_SKIPPED = frozenset(
    {"tracked-changes", "annotation-end", "sequence-decls", "forms", "soft-page-break", "notes"}
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
        styles = read_styles(package, root)
        title, author = _credits(package)
        pages = _pages(_Writer(package, styles), body, kind) if body is not None else []
    except BaseException:
        archive.close()
        raise
    return Opened(reader, pages, title, author, archive.read, archive.close, files=package.embedded.by_line)


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
        elif package.local[one.tag] != "annotation":
            writer.add_shape(one, blocks.append, 0)
    notes: list[MarkdownBlock] = []
    held = package.child(page, "notes")
    for frame in held if held is not None else ():
        if package.attribute(frame, "class") == "notes":
            writer.add_shape(frame, notes.append, 0)
    if notes:
        blocks += [MarkdownBlock("### Notes", 3), *notes]
    for one in package.children(page, "annotation"):
        blocks += comment_item("Comment", *writer.comment(one))
    made = [MarkdownBlock(f"# {title or f'Slide {number}'}", 1), *blocks]
    return OfficePage(joined(made), tuple(ref for one in made for ref in one.pictures), table_spans(made))


def _sheet(writer: _Writer, sheet: Element) -> list[OfficePage]:
    package = writer.package
    name = cell(package.attribute(sheet, "name")) or "Sheet"
    is_hidden = package.attribute(sheet, "style-name") in writer.styles.hidden_tables
    heading = f"## {name}{' (hidden)' if is_hidden else ''}"
    table = writer.table_of(sheet)
    pager = Pager(TABLE_PAGE_CHARS)
    pager.add(MarkdownBlock(heading, 2))
    if table.rows:
        pager.add_table(table.rows, spans=table.spans)
    for comment in table.comments:
        pager.add(comment)
    if not table.rows and not table.comments:
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


class _Table(NamedTuple):
    """`comments` are those of cells, `notes` those that the texts of cells refer to."""

    rows: list[list[str]]
    spans: tuple[CellSpan, ...]
    comments: list[MarkdownBlock]
    notes: tuple[str, ...]


class _Writer:
    """Writes parts of the content as blocks of Markdown."""

    def __init__(self, package: Package, styles: OdfStyles) -> None:
        self.package = package
        self.styles = styles
        self._lists = Lists()
        self._noted = 0
        self._commented = 0

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
        formula, picture = frame_formula(package, frame), frame_picture(package, frame)
        if formula:
            add(MarkdownBlock(display_formula(formula)))
        elif picture is not None:
            text, ref = picture
            add(MarkdownBlock(text, pictures=(ref,)))
        if file := frame_file(package, frame):
            add(MarkdownBlock(file))

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
            held = _Line()
            marker = f"{number}." if is_numbered else "-"
            for one in item:
                name = package.local[one.tag]
                if name == "list" and depth < _MAX_DEPTH:
                    number += self._add_item(texts, depth, marker, add, held)
                    self._add_list(one, add, depth + 1, style)
                elif name in ("p", "h"):
                    line = self._gathered(one)
                    texts.append(render(line.runs))
                    held.pictures += line.pictures
                    held.notes += line.notes
                    for frame in line.frames:
                        self.add_shape(frame, add, depth + 1)
            number += self._add_item(texts, depth, marker, add, held)

    def _add_item(self, texts: list[str], depth: int, marker: str, add: Add, held: _Line) -> bool:
        """Adds an item of the texts gathered, and forgets them; whether there was one to add."""
        text = "\n".join(filter(None, texts))
        if text:
            item = self._lists.item(depth, marker, block(text))
            add(MarkdownBlock(item, tight=True, pictures=tuple(held.pictures), notes=tuple(held.notes)))
        for gathered in (texts, held.pictures, held.notes):
            gathered.clear()
        return bool(text)

    def _add_table(self, table: Element, add: Add) -> None:
        found = self.table_of(table)
        pager = Pager(TABLE_PAGE_CHARS)
        pager.add_table(found.rows, spans=found.spans)
        pages = pager.finish()
        for at, page in enumerate(pages, 1):
            notes = found.notes if at == len(pages) else ()
            add(MarkdownBlock(page.markdown, spans=page.spans[0] if page.spans else (), notes=notes))

    def table_of(self, table: Element) -> _Table:
        """The rows that have any text, cut to the last column that has any, with what belongs to them."""
        rows: list[list[str]] = []
        spans: list[CellSpan] = []
        comments: list[MarkdownBlock] = []
        notes: list[str] = []
        number = 1
        for row in self._rows(table):
            cells: list[str] = []
            found: list[CellSpan] = []
            for one in row:
                place = f"{column_letters(len(cells) + 1)}{number}"
                for comment in self.package.children(one, "annotation"):
                    comments += comment_item(f"Note at {place}", *self.comment(comment))
                self._add_cell(one, len(rows), cells, found, notes)
            while cells and not cells[-1]:
                cells.pop()
            spans += found
            repeated = self._count(row, "number-rows-repeated", _MAX_REPEATED) if cells else 1
            rows += [list(cells) for _ in range(repeated)]
            number += self._count(row, "number-rows-repeated", _MOST_ROWS)
        kept, moved = kept_spans(spans, rows)
        width = max(map(len, kept), default=0)
        inside = tuple(span for span in moved if span.column + span.column_span <= width)
        return _Table(kept, inside, comments, tuple(notes))

    def _rows(self, holder: Element) -> Iterator[Element]:
        for one in holder:
            name = self.package.local[one.tag]
            if name == "table-row":
                yield one
            elif name in ("table-header-rows", "table-rows", "table-row-group"):
                yield from self._rows(one)

    def _add_cell(
        self, element: Element, row: int, cells: list[str], spans: list[CellSpan], notes: list[str]
    ) -> None:
        name = self.package.local[element.tag]
        if name not in ("table-cell", "covered-table-cell"):
            return
        text = self.line_of(element, notes).replace("\n", " ") if name == "table-cell" else ""
        repeated = self._count(element, "number-columns-repeated", _MAX_REPEATED)
        wide = self._count(element, "number-columns-spanned", _MAX_SPAN)
        high = self._count(element, "number-rows-spanned", _MAX_REPEATED)
        if wide > 1 or high > 1:
            spans.append(CellSpan(row, len(cells), high, wide))
        cells += [text] * repeated

    def _count(self, element: Element, name: str, most: int) -> int:
        given = self.package.attribute(element, name, "1")
        return max(1, min(int(given), most)) if given.isascii() and given.isdigit() and len(given) < 9 else 1

    def line_of(self, holder: Element, notes: list[str] | None = None) -> str:
        """The paragraphs of an element, of its lists and frames too, in one line; their notes go into `notes`."""
        parts: list[str] = []
        for one in self._paragraphs(holder):
            line = self._gathered(one)
            parts.append(render(line.runs))
            if notes is not None:
                notes += line.notes
        return " ".join(filter(None, parts))

    def _paragraphs(self, holder: Element) -> Iterator[Element]:
        """The paragraphs in an element, but for those of its notes and comments."""
        for one in holder:
            name = self.package.local[one.tag]
            if name in ("p", "h"):
                yield one
            if name not in ("annotation", "note"):
                yield from self._paragraphs(one)

    def comment(self, annotation: Element) -> tuple[str, str]:
        """Author and text of a comment, both plain."""
        author = self.package.child(annotation, "creator")
        texts = ["".join(one.itertext()) for one in self._paragraphs(annotation)]
        return (author.text or "") if author is not None else "", " ".join(texts)

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
            elif name == "annotation":
                self._refer_to_comment(one, line)
            elif name == "frame" and package.child(one, "text-box") is None and self._object(one, line):
                pass
            elif name in ("frame", "g") or name in _SHAPES:
                line.frames.append(one)
            elif name not in _SKIPPED and one.text:
                line.runs.append(Run(one.text, look, href))  # a field: a date, a page number
            if one.tail:
                line.runs.append(Run(" ".join(one.tail.split("\n")), look, href))

    def _object(self, frame: Element, line: _Line) -> bool:
        """Whether the frame has a formula or a picture, which belongs to the line."""
        formula, picture = frame_formula(self.package, frame), frame_picture(self.package, frame)
        if formula:
            line.runs.append(Run(inline_formula(formula), RAW))
        elif picture is not None:
            line.runs.append(Run(picture[0], RAW))
            line.pictures.append(picture[1])
        return bool(formula) or picture is not None

    def _note(self, note: Element, line: _Line) -> None:
        body = self.package.child(note, "note-body")
        text = self.line_of(body).replace("\n", " ") if body is not None else ""
        if text:
            self._noted += 1
            line.runs.append(Run(f"[^{self._noted}]", RAW))
            line.notes.append(f"[^{self._noted}]: {text}")

    def _refer_to_comment(self, annotation: Element, line: _Line) -> None:
        author, text = self.comment(annotation)
        if text.strip():
            self._commented += 1
            mark = f"[^{NoteKind.COMMENT}{self._commented}]"
            line.runs.append(Run(mark, RAW))
            line.notes.append(f"{mark}: {comment_text(author, cell(text))}")
