"""Excel workbooks (XLSX): a page for each sheet, in order; a long sheet goes on over further pages.

Formulas show the value that the workbook holds for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.charts import read_chart
from quire.reading.office.hidden_places import HiddenPlaces
from quire.reading.office.inline_markdown import block, placeholder, plain, safe_address
from quire.reading.office.office_pages import (
    TABLE_PAGE_CHARS,
    CaptionOf,
    MarkdownBlock,
    OfficePage,
    Pager,
    cell,
)
from quire.reading.office.office_source import Opened
from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_comments import sheet_comments
from quire.reading.office.sheet_numbers import Figures
from quire.reading.office.sheet_tables import MergedArea, SheetRow, add_tables, sheet_pages
from quire.reading.office.zip_container import OfficeLimits, ZipContainer
from quire.reading.raised_figures import raised_text

READER = "xlsx"
_MOST_COLUMNS = 16_384
_LONGEST_CELL = 32_767
"""What Excel itself takes."""
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=[\"']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})[\"']")
_COLUMN = re.compile(rb"<(?:\w+:)?col\s([^>]{0,300})>")
_ATTRIBUTE = re.compile(rb"(\w+)=[\"']([^\"']*)")
_YES = ("1", "true")
_LONGEST_HEAD, _MOST_HIDDEN = 1 << 18, 100_000
_LONGEST_MERGED = 200
_MOST_MERGED = 10_000
_HIDDEN = {"hidden": " (hidden)", "veryHidden": " (hidden)"}


def open_sheets(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    archive = ZipContainer(path, limits)
    package = Package(archive)
    try:
        pages = _Workbook(package, package.main_part("xl/workbook.xml")).pages()
        title, author = package.credits()
    except BaseException:
        archive.close()
        raise
    return Opened(READER, pages, title, author, archive.read, archive.close, files=package.embedded.by_line)


class _Workbook:
    def __init__(self, package: Package, part: str) -> None:
        self._package = package
        self._part = part
        self._relations = package.relations(part)
        root = package.tree(part, "list of sheets")
        self._sheets = package.children(package.child(root, "sheets"), "sheet")
        properties = package.child(root, "workbookPr")
        since_1904 = properties is not None and package.attribute(properties, "date1904") in ("1", "true")
        styles = package.tree(package.related(part, "styles"), "styles")
        self._figures = Figures(package, styles, since_1904=since_1904)
        self._strings = _shared_strings(package, package.related(part, "sharedStrings"))

    def pages(self) -> list[OfficePage]:
        pages: list[OfficePage] = []
        for one in self._sheets:
            package = self._package
            found = self._relations.get(_relation_id(one))
            if found is None or found.target not in package.archive:
                continue
            name = package.attribute(one, "name") or f"Sheet {len(pages) + 1}"
            heading = plain(" ".join(name.split())) + _HIDDEN.get(package.attribute(one, "state"), "")
            if found.kind == "worksheet":
                pages += self._sheet(found.target, heading)
            else:
                pages.append(self._chart_sheet(found.target, heading))
        return pages

    def _chart_sheet(self, part: str, heading: str) -> OfficePage:
        pager = Pager(TABLE_PAGE_CHARS)
        pager.add(MarkdownBlock(f"## {heading}", 2))
        self._add_drawing(part, pager)
        return pager.finish()[0]

    def _sheet(self, part: str, heading: str) -> list[OfficePage]:
        pager = Pager(TABLE_PAGE_CHARS)
        pager.add(MarkdownBlock(f"## {heading}", 2))
        reader = _Sheet(self._package, part, self._figures, self._strings)
        reader.read_hidden_columns()
        found = add_tables(pager, reader.hidden.watched(reader.rows()), reader.merged())
        for line in reader.hidden.blocks():
            pager.add(line)
        for comment in sheet_comments(self._package, self._part, part):
            pager.add(comment)
        drawn = self._add_drawing(part, pager) | self._add_files(part, pager)
        if not found and not drawn:
            pager.add(MarkdownBlock("*This sheet is empty.*"))
        return sheet_pages(heading, pager)

    def _add_drawing(self, part: str, pager: Pager) -> bool:
        """Pictures and charts, which float over the cells."""
        package = self._package
        drawing = package.related(part, "drawing")
        try:
            root = package.tree(drawing, "drawing")
        except DamagedError:
            return False
        if root is None:
            return False
        relations = package.relations(drawing)
        alt, found = "", False
        anchors = sorted(root, key=self._anchor)
        for one in (part for anchor in anchors for part in anchor.iter()):
            name = package.local[one.tag]
            if name == "cNvPr":
                alt = package.attribute(one, "descr")
            elif name == "blip":
                picture = relations.get(package.attribute(one, "embed"))
                target = picture.target if picture and not picture.external else ""
                pager.add(MarkdownBlock(placeholder(alt), pictures=(target,)))
                found = True
            elif name == "chart" and package.attribute(one, "id") in relations:
                chart = read_chart(package, relations[package.attribute(one, "id")].target)
                caption = CaptionOf.NEXT if chart.rows else None
                pager.add(MarkdownBlock(block(chart.title), caption=caption))
                pager.add_table(chart.rows)
                found = True
        return found

    def _add_files(self, part: str, pager: Pager) -> bool:
        """Files that are embedded in the sheet."""
        package, found = self._package, False
        for one in package.relations(part).values():
            if one.kind in ("oleObject", "package") and not one.external:
                text = package.embedded.line(one.target)
                pager.add(MarkdownBlock(text))
                found = found or bool(text)
        return found

    def _anchor(self, anchor: Element) -> tuple[int, int]:
        """Row and column where a drawing begins."""
        corner = self._package.child(anchor, "from")
        row, column = (self._package.child(corner, name) for name in ("row", "col"))
        return _number(row), _number(column)


def _number(element: Element | None) -> int:
    text = (element.text or "").strip() if element is not None else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _relation_id(sheet: Element) -> str:
    return next((value for key, value in sheet.attrib.items() if key.endswith("}id")), "")


@dataclass(slots=True)
class _Sheet:
    package: Package
    part: str
    figures: Figures
    strings: list[str]
    columns: dict[str, int] = field(default_factory=dict)
    hidden: HiddenPlaces = field(default_factory=HiddenPlaces)

    def rows(self) -> Iterator[tuple[int, SheetRow]]:
        """(number, cells by column) of each row that has a value. Cells are Markdown."""
        links = self._links()
        number = 0
        for element in self.package.blocks(self.part, "sheetData", "sheet"):
            given = element.get("r", "")
            number = int(given) if given.isdigit() and len(given) < 9 else number + 1
            row = self._row(element)
            if row:
                if element.get("hidden") in _YES:
                    self.hidden.rows.add(number)
                if links:
                    row = {c: _linked(text, links.get((number, c))) for c, text in row.items()}
                yield number, row

    def _row(self, element: Element) -> SheetRow:
        row: SheetRow = {}
        column = 0
        columns = self.columns
        for one in element:
            reference = one.get("r")
            if reference:
                letters = reference.rstrip("0123456789")
                found = columns.get(letters)
                if found is None:
                    found = columns[letters] = _column(letters)
                column = found
            else:
                column += 1
            if 0 < column <= _MOST_COLUMNS:
                text = self._cell(one)
                if text:
                    row[column] = text
        return row

    def _cell(self, element: Element) -> str:
        local = self.package.local
        kind, value, formula = element.get("t", "n"), "", ""
        for part in element:
            name = local[part.tag]
            if name == "v":
                value = part.text or ""
            elif name == "is":
                return self.figures.worded(_rich_text(self.package, part), element.get("s", "0"))
            elif name == "f":
                formula = part.text or ""
        text = ""
        if value:
            if kind == "s":
                place = int(value) if value.isdigit() else -1
                text = self.strings[place] if 0 <= place < len(self.strings) else ""
                text = self.figures.worded(text, element.get("s", "0"))
            elif kind == "n":
                text = self.figures.shown(value, element.get("s", "0"))
            elif kind == "b":
                text = "TRUE" if value == "1" else "FALSE"
            else:
                text = cell(value)
        return text or (cell(f"={formula}") if formula else "")

    def read_hidden_columns(self) -> None:
        """Columns come before the cells, so the beginning of the part is searched, without parsing it."""
        head = b""
        for piece in self.package.archive.pieces(self.part):
            head += piece
            if b"sheetData" in head or len(head) > _LONGEST_HEAD:
                break
        left = _MOST_HIDDEN
        for found in _COLUMN.finditer(head):
            given = dict(_ATTRIBUTE.findall(found[1]))
            first, last = given.get(b"min", b""), given.get(b"max", b"")
            if given.get(b"hidden", b"").decode("latin-1") in _YES and first.isdigit() and last.isdigit():
                hidden = range(int(first[:9]), min(int(last[:9]), _MOST_COLUMNS) + 1)
                left -= len(hidden)
                if left < 0:
                    return
                self.hidden.columns.update(hidden)

    def merged(self) -> list[MergedArea]:
        """Merged cells. They follow the cells, so the part is searched to its end, without parsing it."""
        found: list[MergedArea] = []
        rest = b""
        for piece in self.package.archive.pieces(self.part):
            text = rest + piece
            end = 0
            for one in _MERGED.finditer(text):
                left, top, right, bottom = one.groups()
                area = (int(top), _column(left.decode()), int(bottom), _column(right.decode()))
                found.append(MergedArea(*area))
                end = one.end()
            rest = text[max(end, len(text) - _LONGEST_MERGED) :]
            if len(found) > _MOST_MERGED:
                return []
        return found

    def _links(self) -> dict[tuple[int, int], str]:
        """Addresses by cell. They follow the cells, so the end of the part is read first."""
        every = self.package.relations(self.part)
        relations = {key: one for key, one in every.items() if one.kind == "hyperlink" and one.external}
        if not relations:
            return {}
        found: dict[tuple[int, int], str] = {}
        for element in self.package.blocks(self.part, "hyperlinks", "sheet"):
            one = relations.get(_relation_id(element))
            reference = element.get("ref", "")
            letters = reference.rstrip("0123456789")
            digits = reference[len(letters) :]
            if one is not None and digits and len(digits) < 9:
                found[int(digits), _column(letters)] = one.target
        return found


def _linked(text: str, address: str | None) -> str:
    safe = safe_address(address) if address else ""
    return f"[{text}]({safe})" if safe else text


def _column(letters: str) -> int:
    """`AB` is column 28; 0 for what is no column."""
    number = 0
    for c in letters:
        if not "A" <= c <= "Z" or number > _MOST_COLUMNS:
            return 0
        number = number * 26 + ord(c) - 64
    return number


def _shared_strings(package: Package, part: str) -> list[str]:
    if not part:
        return []
    return [_rich_text(package, element) for element in package.top(part, "shared strings")]


def _rich_text(package: Package, element: Element) -> str:
    """The text of a string without its reading aids, as Markdown."""
    local = package.local
    parts: list[str] = []
    for one in element:
        name = local[one.tag]
        if name == "t":
            parts.append(one.text or "")
        elif name == "r":
            text = "".join(part.text or "" for part in one if local[part.tag] == "t")
            place = package.child(package.child(one, "rPr"), "vertAlign")
            is_raised = place is not None and package.attribute(place, "val") == "superscript"
            parts.append(raised_text(text, parts[-1] if parts else "", "") if is_raised else text)
    return cell("".join(parts)[:_LONGEST_CELL])
