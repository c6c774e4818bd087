"""PowerPoint presentations (PPTX): a page for each slide, in the order of the show, with its notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from quire.domain.element import CellSpan
from quire.errors import DamagedError
from quire.reading.office.charts import Chart, read_chart
from quire.reading.office.diagrams import diagram_blocks
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
from quire.reading.office.math_markup import inline_formula, latex_of
from quire.reading.office.office_pages import (
    Lists,
    MarkdownBlock,
    OfficePage,
    RunningText,
    Spans,
    kept_spans,
    table_lines,
)
from quire.reading.office.office_source import Opened
from quire.reading.office.ooxml_package import Package, Relation
from quire.reading.office.review_comments import slide_comments
from quire.reading.office.shape_order import reads_leftward
from quire.reading.office.slide_numbers import AutoNumber, SlideNumbers
from quire.reading.office.slide_pages import running_line, slide_page
from quire.reading.office.slide_places import SlideLayouts, SlidePlaces
from quire.reading.office.zip_container import OfficeLimits, ZipContainer

READER = "pptx"
_TITLES = frozenset({"title", "ctrTitle"})
_RUNNING = frozenset({"sldNum", "dt", "ftr", "hdr"})
_BULLETED = frozenset({"body", "obj"})
_MAX_DEPTH = 8
_DEEPEST_GROUP = 60


def open_slides(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    archive = ZipContainer(path, limits)
    package = Package(archive)
    try:
        pages = _pages(package, package.main_part("ppt/presentation.xml"))
        title, author = package.credits()
    except BaseException:
        archive.close()
        raise
    return Opened(READER, pages, title, author, archive.read, archive.close, files=package.embedded.by_line)


def _pages(package: Package, part: str) -> list[OfficePage]:
    root = package.tree(part, "list of slides")
    relations = package.relations(part)
    pages: list[OfficePage] = []
    layouts = SlideLayouts(package)
    for one in package.children(package.child(root, "sldIdLst"), "sldId"):
        # `id` is there twice: without a namespace, a number; with one, the relation.
        keys = [value for key, value in one.attrib.items() if key.endswith("}id")]
        found = relations.get(keys[0]) if keys else None
        if found is not None and found.target in package.archive:
            pages.append(_page(package, part, found.target, len(pages) + 1, layouts))
    return pages


def _page(package: Package, show: str, part: str, number: int, layouts: SlideLayouts) -> OfficePage:
    try:
        root = package.tree(part, f"slide {number}")
    except DamagedError as error:
        return OfficePage(f"*Slide {number} is damaged: {error.public}*")
    slide = _Slide(package, part, package.relations(part), SlidePlaces(layouts, part))
    if root is None:
        return OfficePage("")
    slide.read(root)
    return slide_page(
        *(slide.title, slide.blocks),
        notes=_notes(package, package.related(part, "notesSlide"), layouts),
        comments=list(slide_comments(package, show, part)),
        running=slide.running,
        is_hidden=package.attribute(root, "show") == "0",
    )


def _notes(package: Package, part: str, layouts: SlideLayouts) -> list[MarkdownBlock]:
    try:
        root = package.tree(part, "notes")
    except DamagedError:
        return []
    if root is None:
        return []
    slide = _Slide(package, part, package.relations(part), SlidePlaces(layouts, part))
    slide.read(root, only="body")
    return slide.blocks


@dataclass(slots=True)
class _Slide:
    package: Package
    part: str
    relations: dict[str, Relation]
    places: SlidePlaces
    leftward: bool = False
    title: str = ""
    blocks: list[MarkdownBlock] = field(default_factory=list)
    running: list[RunningText] = field(default_factory=list)

    def read(self, root: Element, only: str = "") -> None:
        tree = self.package.child(self.package.child(root, "cSld"), "spTree")
        if tree is not None:
            self.leftward = reads_leftward(self.package.texts(tree))
            self._shapes(tree, only, 0)

    def _shapes(self, holder: Element, only: str, depth: int) -> None:
        package = self.package
        for shape in self.places.ordered(holder, leftward=self.leftward):
            name = package.local[shape.tag]
            if name == "sp":
                self._shape(shape, only)
            elif name == "grpSp" and depth < _DEEPEST_GROUP:
                self._shapes(shape, only, depth + 1)
            elif only:
                continue
            elif name == "pic":
                self._picture(shape)
            elif name == "graphicFrame":
                self._frame(shape)
            elif name == "AlternateContent" and depth < _MAX_DEPTH:
                chosen = package.chosen(shape)
                if chosen is not None:
                    self._shapes(chosen, only, depth + 1)

    def _shape(self, shape: Element, only: str) -> None:
        package = self.package
        kind = self._placeholder_kind(shape)
        body = package.child(shape, "txBody")
        if body is not None and kind in _RUNNING and not only:
            self._running(kind, body)
        if body is None or kind in _RUNNING or (only and kind != only):
            return
        paragraphs = [(one, self._text(one)) for one in package.children(body, "p")]
        paragraphs = [(one, text) for one, text in paragraphs if text]
        if kind in _TITLES and not self.title:
            self.title = " ".join(text.replace("\n", " ") for _, text in paragraphs)
            return
        if only:
            self.blocks += [MarkdownBlock(block(text)) for _, text in paragraphs]
            return
        self._paragraphs(paragraphs, bulleted=kind in _BULLETED and len(paragraphs) > 1)

    def _running(self, kind: str, body: Element) -> None:
        package = self.package
        texts = (self._text(one, with_number=True) for one in package.children(body, "p"))
        line = running_line(kind, " ".join(texts))
        self.running += [line] if line is not None else []

    def _paragraphs(self, paragraphs: list[tuple[Element, str]], *, bulleted: bool) -> None:
        package, lists, numbers = self.package, Lists(), SlideNumbers()
        first = len(self.blocks)
        for element, text in paragraphs:
            properties = package.child(element, "pPr")
            level = package.attribute(properties, "lvl") if properties is not None else ""
            depth = min(int(level), _MAX_DEPTH) if level.isdigit() else 0
            number = self._auto_number(properties)
            if number is not None or self._has_bullet(properties, bulleted):
                marker, shown = numbers.label(depth, number)
                words = block(f"{shown} {text}" if shown else text)
                begins = len(self.blocks) == first  # the lists of two shapes are two
                item = lists.item(depth, marker, words)
                self.blocks.append(MarkdownBlock(item, tight=True, begins=begins))
            else:
                lists.end()
                self.blocks.append(MarkdownBlock(block(text)))

    def _auto_number(self, properties: Element | None) -> AutoNumber | None:
        package = self.package
        found = package.child(properties, "buAutoNum")
        if found is None:
            return None
        start = package.attribute(found, "startAt", "1")
        first = int(start) if start.isascii() and start.isdigit() and len(start) < 6 else 1
        return AutoNumber(package.attribute(found, "type"), first)

    def _has_bullet(self, properties: Element | None, bulleted: bool) -> bool:
        names = {self.package.local[one.tag] for one in properties} if properties is not None else set()
        return bool(names & {"buChar", "buBlip"}) or (bulleted and "buNone" not in names)

    def _placeholder_kind(self, shape: Element) -> str:
        package = self.package
        found = package.child(package.child(package.child(shape, "nvSpPr"), "nvPr"), "ph")
        if found is None:
            return ""
        return package.attribute(found, "type") or "obj"

    def _text(self, paragraph: Element, *, with_number: bool = False) -> str:
        """Its words as Markdown; the slide's number only in a running line."""
        package = self.package
        runs: list[Run] = []
        for one in paragraph:
            name = package.local[one.tag]
            if name == "br":
                runs.append(Run("\n"))
            elif name == "r" or (
                name == "fld" and (with_number or not package.attribute(one, "type").startswith("slidenum"))
            ):
                look, href = self._look(package.child(one, "rPr"))
                runs += [Run(text.text, look, href) for text in package.children(one, "t") if text.text]
            elif name in ("m", "AlternateContent"):
                formulas = list(package.descendants(one, "oMath"))
                runs += [Run(inline_formula(latex_of(found, package.local)), RAW) for found in formulas]
                if not formulas:
                    runs.append(Run(package.texts(one)))
        return render(runs)

    def _look(self, properties: Element | None) -> tuple[int, str]:
        package = self.package
        if properties is None:
            return 0, ""
        look = 0
        for name, bit in (("b", BOLD), ("i", ITALIC)):
            if properties.get(name) in ("1", "true"):
                look |= bit
        if properties.get("strike", "noStrike") != "noStrike":
            look |= STRIKE
        if properties.get("baseline", "0").rstrip("0%").isdigit():
            look |= RAISED
        link = package.child(properties, "hlinkClick")
        found = self.relations.get(package.attribute(link, "id")) if link is not None else None
        return look, found.target if found and found.external else ""

    def _picture(self, shape: Element) -> None:
        package = self.package
        named = package.child(package.child(shape, "nvPicPr"), "cNvPr")
        alt = package.attribute(named, "descr") if named is not None else ""
        blip = next(iter(package.descendants(shape, "blip")), None)
        found = self.relations.get(package.attribute(blip, "embed")) if blip is not None else None
        ref = found.target if found and not found.external else ""
        self.blocks.append(MarkdownBlock(placeholder(alt), pictures=(ref,)))

    def _frame(self, frame: Element) -> None:
        """A table, a chart, or a diagram, of which only the words are kept."""
        package = self.package
        for one in frame.iter():
            name = package.local[one.tag]
            if name == "tbl":
                rows, spans = self._table(one)
                self.blocks.append(MarkdownBlock("\n".join(table_lines(rows)), spans=spans))
                return
            if name == "chart":
                found = self.relations.get(package.attribute(one, "id"))
                chart = read_chart(package, found.target) if found else Chart()
                self.blocks += chart.blocks() or [MarkdownBlock("*A chart*")]
                return
            if name == "relIds":
                self._diagram(package.attribute(one, "dm"))
                return
            if name == "oleObj":
                self._embedded(frame, one)
                if text := package.file_line(self.part, one):
                    self.blocks.append(MarkdownBlock(text))
                return

    def _embedded(self, frame: Element, held: Element) -> None:
        """The picture that a slide shows of an embedded file, a workbook for example."""
        package = self.package
        named = next(iter(package.descendants(frame, "cNvPr")), None)
        words = package.attribute(named, "descr") if named is not None else ""
        blip = next(iter(package.descendants(held, "blip")), None)
        found = self.relations.get(package.attribute(blip, "embed")) if blip is not None else None
        ref = found.target if found and not found.external else ""
        words = words or package.attribute(held, "name")
        self.blocks.append(MarkdownBlock(placeholder(words), pictures=(ref,)))

    def _table(self, table: Element) -> tuple[list[list[str]], Spans]:
        package = self.package
        rows: list[list[str]] = []
        merged_cells: list[CellSpan] = []
        for row in package.children(table, "tr"):
            cells: list[str] = []
            for cell in package.children(row, "tc"):
                merged = cell.get("hMerge") in ("1", "true") or cell.get("vMerge") in ("1", "true")
                body = package.child(cell, "txBody")
                wide, high = _count(cell.get("gridSpan")), _count(cell.get("rowSpan"))
                if not merged and (wide > 1 or high > 1):
                    merged_cells.append(CellSpan(len(rows), len(cells), high, wide))
                texts = [] if merged else [self._text(one) for one in package.children(body, "p")]
                cells.append(" ".join(filter(None, texts)).replace("\n", " "))
            rows.append(cells)
        return kept_spans(merged_cells, rows)

    def _diagram(self, relation: str) -> None:
        found = self.relations.get(relation)
        self.blocks += diagram_blocks(self.package, found.target) if found else []


def _count(given: str | None) -> int:
    """The number that a span's attribute has; 1 where it has none."""
    return (
        max(1, min(int(given), 64)) if given and given.isascii() and given.isdigit() and len(given) < 6 else 1
    )
