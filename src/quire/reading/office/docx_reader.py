"""Word documents (DOCX): paragraphs, headings, lists, tables, notes, comments, links, pictures, in the text's order.

Headers and footers are beside the Markdown, as running lines of a PDF are. The text is as if all tracked changes were
accepted; the changes and hidden text are beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.caption_pictures import caption_parts
from quire.reading.office.charts import read_chart
from quire.reading.office.diagrams import diagram_blocks
from quire.reading.office.docx_notes import NOTE_KINDS, DocxNotes
from quire.reading.office.drawn_texts import drawn_texts, in_order
from quire.reading.office.flow_text import link_address
from quire.reading.office.inline_markdown import HIDDEN, RAW, Run, block, placeholder, render
from quire.reading.office.math_markup import display_formula, inline_formula, latex_of
from quire.reading.office.office_pages import (
    CaptionOf,
    Lists,
    MarkdownBlock,
    MergedCells,
    OfficePage,
    Pager,
    kept_spans,
)
from quire.reading.office.office_source import PLACEHOLDER, Opened
from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_marks import ReviewKind
from quire.reading.office.symbol_fonts import symbol
from quire.reading.office.word_changes import CHANGES, GONE, WordChanges
from quire.reading.office.word_chunks import add_chunk
from quire.reading.office.word_code import WordCode
from quire.reading.office.word_forms import form_value
from quire.reading.office.word_line import WordLine
from quire.reading.office.word_sections import WordSections
from quire.reading.office.word_styles import MAX_LEVEL, WordStyle, look_in, read_numbering, read_styles
from quire.reading.office.zip_container import OfficeLimits, ZipContainer

READER = "docx"
_INSIDE = frozenset({"smartTag", "sdt", "sdtContent", "fldSimple", "customXml", "dir", "bdo"})
_TEXTS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": " "}


def open_word(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    archive = ZipContainer(path, limits)
    package = Package(archive)
    try:
        document = _Document(package, package.main_part("word/document.xml"))
        pages = document.pages()
        title, author = package.credits()
    except BaseException:
        archive.close()
        raise
    return Opened(READER, pages, title, author, archive.read, archive.close, files=package.embedded.by_line)


class _Document:
    def __init__(self, package: Package, part: str) -> None:
        self._package = package
        self._part = part
        self._relations = package.relations(part)
        self._styles = read_styles(package, package.tree(package.related(part, "styles"), "styles"))
        numbering = package.tree(package.related(part, "numbering"), "numbering")
        self._numbering = read_numbering(package, numbering)
        self._lists = Lists()
        self._pager = Pager()
        self._code = WordCode(self._pager)
        self._sections = WordSections(package, part, self._relations, self._running_text)
        self._changes = WordChanges(package, self._pager.marks)
        self._joined: WordLine | None = None
        """A paragraph whose end a tracked change has removed: the next one goes on with it."""
        self._notes = DocxNotes(package, self._pager.marks, lambda one: self._cell(one, [], []))
        for kind in NOTE_KINDS:
            self._notes.read(kind, package.tree(package.related(part, f"{kind}s"), f"{kind}s"))

    def pages(self) -> list[OfficePage]:
        for element in self._package.blocks(self._part, "body", "text"):
            self._block(element)
        self._end_joined()
        return self._sections.placed(self._pager.finish())

    def _running_text(self, part: str) -> str:
        """The words of a header or a footer in one line, without its pictures."""
        try:
            root = self._package.tree(part, "header")
        except DamagedError:  # the document is worth more than its header
            return ""
        outer, self._relations = self._relations, self._package.relations(part)
        text = self._cell(root, [], []) if root is not None else ""
        self._relations = outer
        return " ".join(PLACEHOLDER.sub("", text).split())

    # ---- blocks --------------------------------------------------------------------------------------------

    def _block(self, element: Element) -> None:
        name = self._package.local[element.tag]
        if name in ("tbl", "sectPr"):
            self._end_joined()
        if name == "p":
            self._add_paragraph(element)
        elif name == "tbl":
            self._lists.end()
            self._add_table(element)
        elif name in ("sdt", "sdtContent", "customXml", "ins", "moveTo"):
            for one in element:
                self._block(one)
        elif name == "sectPr":
            self._sections.end(element)
        elif name == "altChunk":
            add_chunk(self._package, self._part, element, self._pager)

    def _add_paragraph(self, element: Element) -> None:
        package = self._package
        properties = package.child(element, "pPr")
        style = self._style(properties)
        line, self._joined = self._joined or WordLine(), None
        self._gather(element, line, style.look)
        self._pager.marks.end_paragraph()
        section = package.child(properties, "sectPr")
        if section is None and self._changes.joins_next(properties):
            self._joined = line
            return
        if properties is not None and package.is_on(package.child(properties, "pageBreakBefore")):
            self._code.end()
            self._pager.end_page()
        self._add_line(line, properties, style)
        if section is not None or line.breaks:
            self._code.end()
        self._sections.end(section)
        if line.breaks or self._ends_page(section):
            self._pager.end_page()
        if section is not None:
            self._sections.begin(len(self._pager.pages))

    def _end_joined(self) -> None:
        """A paragraph that should go on with the next one ends, for none follows; and so does code."""
        line, self._joined = self._joined, None
        if line is not None:
            self._add_line(line, None, WordStyle())
        self._code.end()

    def _add_line(self, line: WordLine, properties: Element | None, style: WordStyle) -> None:
        if self._number(properties, style)[0] == "" and self._code.take(line, style):
            self._lists.end()
            return
        self._code.end()
        made = None
        if line.has_only_formulas:
            for latex in line.formulas:
                self._pager.add(MarkdownBlock(display_formula(latex)))
        else:
            if style.is_caption:
                parts = caption_parts(line.runs, line.pictures)
                line.set_apart(parts)
                if parts.above is not None:
                    self._pager.add(parts.above)
            made = self._paragraph(render(line.runs), properties, style, line)
        if made is not None:
            self._pager.add(made)
        for aside in line.aside:
            self._pager.add(aside)
        for box in in_order(self._package, line.boxes):
            self._lists.end()
            for one in box:
                self._block(one)
            self._end_joined()
            self._lists.end()

    def _paragraph(
        self, text: str, properties: Element | None, style: WordStyle, line: WordLine
    ) -> MarkdownBlock | None:
        if not text:
            return None
        pictures, notes = tuple(line.pictures), tuple(line.notes)
        number, depth = self._number(properties, style)
        label = self._numbering.label(number, depth) if number else None
        if style.level:
            self._lists.end()
            words = text.replace("\n", " ")
            words = words.removeprefix("**").removesuffix("**") if words.count("**") == 2 else words
            shown = f"{label.text} {words}" if label and label.text else words
            return MarkdownBlock(
                f"{'#' * min(style.level, 6)} {shown}", style.level, pictures=pictures, notes=notes
            )
        if label is not None:
            marker, words = label.marker, block(text)
            if marker == "-" and label.text:
                words = f"{label.text} {words}"
            return MarkdownBlock(self._lists.item(depth, marker, words), 0, True, pictures, notes)
        self._lists.end()
        text = block(text)
        if style.quote:
            text = "> " + text.replace("\n", "\n> ")
        caption = CaptionOf.UNKNOWN if style.is_caption else None
        return MarkdownBlock(text, pictures=pictures, notes=notes, caption=caption)

    def _style(self, properties: Element | None) -> WordStyle:
        if properties is None:
            return WordStyle()
        package = self._package
        named = package.child(properties, "pStyle")
        style = (
            self._styles.get(package.attribute(named, "val"), WordStyle())
            if named is not None
            else WordStyle()
        )
        outline = package.child(properties, "outlineLvl")
        if outline is not None and not style.level:
            given = package.attribute(outline, "val")
            if given.isdigit() and int(given) < 9:
                return replace(style, level=int(given) + 1)
        return style

    def _number(self, properties: Element | None, style: WordStyle) -> tuple[str, int]:
        package = self._package
        given = package.child(properties, "numPr")
        if given is None:
            return style.number, style.depth
        number, depth = package.child(given, "numId"), package.child(given, "ilvl")
        value = package.attribute(number, "val") if number is not None else style.number
        level = package.attribute(depth, "val") if depth is not None else str(style.depth)
        return ("" if value == "0" else value), min(int(level), MAX_LEVEL) if level.isdigit() else 0

    def _ends_page(self, section: Element | None) -> bool:
        package = self._package
        if section is None:
            return False
        kind = package.child(section, "type")
        return kind is None or package.attribute(kind, "val") not in ("continuous", "nextColumn")

    # ---- tables --------------------------------------------------------------------------------------------

    def _add_table(self, element: Element) -> None:
        package = self._package
        rows: list[list[Element | None]] = []
        spans = MergedCells()
        for row in self._rows(element):
            cells: list[Element | None] = [None] * self._skipped(row)
            for cell in self._cells(row):
                properties = package.child(cell, "tcPr")
                merge, span = package.child(properties, "vMerge"), package.child(properties, "gridSpan")
                hidden = merge is not None and package.attribute(merge, "val", "continue") == "continue"
                wide = package.attribute(span, "val") if span is not None else "1"
                width = max(1, min(int(wide), 64)) if wide.isdigit() else 1
                spans.add(len(rows), len(cells), width, is_merged=merge is not None, goes_on=hidden)
                cells.append(None if hidden else cell)
                cells += [None] * (width - 1)
            rows.append(cells)
        if len(rows) == 1 and len(rows[0]) == 1 and rows[0][0] is not None:
            for one in rows[0][0]:  # a frame around text, not a table
                self._block(one)
            return
        pictures: list[str] = []
        notes: list[str] = []
        shown = [["" if cell is None else self._cell(cell, pictures, notes) for cell in row] for row in rows]
        kept, merged = kept_spans(spans.spans(), shown)
        self._pager.add_table(kept, tuple(pictures), tuple(notes), merged)

    def _skipped(self, row: Element) -> int:
        """Columns before the row's first cell: a row may start late."""
        before = self._package.child(self._package.child(row, "trPr"), "gridBefore")
        count = self._package.attribute(before, "val") if before is not None else ""
        return min(int(count), 64) if count.isdigit() else 0

    def _rows(self, table: Element) -> Iterator[Element]:
        for one in table:
            name = self._package.local[one.tag]
            if name == "tr":
                if not self._changes.removes_row(one):
                    yield one
            elif name in ("sdt", "sdtContent", "ins", "customXml"):
                yield from self._rows(one)

    def _cells(self, row: Element) -> Iterator[Element]:
        for one in row:
            name = self._package.local[one.tag]
            if name == "tc":
                yield one
            elif name in ("sdt", "sdtContent", "customXml"):
                yield from self._cells(one)

    def _cell(self, cell: Element, pictures: list[str], notes: list[str]) -> str:
        """Its paragraphs in one line; a table inside becomes a list of its cells."""
        parts: list[str] = []
        for one in cell:
            name = self._package.local[one.tag]
            if name == "p":
                line = self._line(one)
                text = render(line.runs).replace("\n", " ")
                if text and self._number(self._package.child(one, "pPr"), WordStyle())[0]:
                    text = f"• {text}"
                parts += [text, *(aside.text.replace("\n", " ") for aside in line.aside)]
                boxes = in_order(self._package, line.boxes)
                parts += (self._cell(box, pictures, notes) for box in boxes)
                pictures += line.pictures
                notes += line.notes
                self._pager.marks.end_paragraph()
            elif name == "tbl":
                rows = [[self._cell(c, pictures, notes) for c in self._cells(row)] for row in self._rows(one)]
                parts.append("; ".join(", ".join(filter(None, row)) for row in rows))
            elif name in ("sdt", "sdtContent"):
                parts.append(self._cell(one, pictures, notes))
        return " ".join(filter(None, parts))

    # ---- inside a paragraph --------------------------------------------------------------------------------

    def _line(self, paragraph: Element, look: int = 0) -> WordLine:
        line = WordLine()
        self._gather(paragraph, line, look)
        return line

    def _gather(self, element: Element, line: WordLine, look: int) -> None:
        local = self._package.local
        for one in element:
            name = local[one.tag]
            if name == "r":
                self._run(one, line, look)
            elif name == "hyperlink":
                found = self._relations.get(self._package.attribute(one, "id"))
                outer, line.href = line.href, found.target if found and found.external else ""
                self._gather(one, line, look)
                line.href = outer
            elif name in _INSIDE:
                self._gather(one, line, look)
            elif name in CHANGES:
                self._changes.add(name, one)
                if name not in GONE:
                    self._gather(one, line, look)
                    self._pager.marks.is_open = True
            elif name in ("oMath", "oMathPara"):
                self._formulas(one, line)
            elif name == "AlternateContent":
                self._choice(one, line, look)

    def _formulas(self, element: Element, line: WordLine) -> None:
        for one in (
            [element]
            if self._package.local[element.tag] == "oMath"
            else self._package.children(element, "oMath")
        ):
            for change in one.iter():
                if self._package.local[change.tag] in CHANGES:
                    self._changes.add(self._package.local[change.tag], change)
            latex = latex_of(one, self._package.local)
            if latex:
                line.formulas.append(latex)
                line.runs.append(Run(inline_formula(latex), RAW))

    def _run(self, run: Element, line: WordLine, look: int) -> None:
        local = self._package.local
        for one in run:
            name = local[one.tag]
            if name == "rPr":
                look = look_in(self._package, self._styles, one, look)
            elif look & HIDDEN and (name == "t" or name in _TEXTS):
                self._pager.marks.add(ReviewKind.HIDDEN, one.text or " ")
            elif name == "t":
                if one.text:
                    line.runs.append(Run(one.text, look, line.href))
                    self._pager.marks.is_open = False
            elif name in _TEXTS:
                if name == "br" and self._package.attribute(one, "type") == "page":
                    line.breaks = True
                else:
                    line.runs.append(Run(_TEXTS[name], look, line.href))
            elif name == "AlternateContent":
                self._choice(one, line, look)
            elif name == "sym":
                self._symbol(one, line, look)
            else:
                self._rarity(name, one, line, look)

    def _symbol(self, element: Element, line: WordLine, look: int) -> None:
        font, code = self._package.attribute(element, "font"), self._package.attribute(element, "char")
        begins = not any(run.text.strip() for run in line.runs)
        line.runs.append(Run(symbol(font, code, begins_line=begins), look, line.href))

    def _rarity(self, name: str, element: Element, line: WordLine, look: int) -> None:
        """What a run may have besides text."""
        if name in ("drawing", "pict", "object"):
            self._drawing(element, line)
        elif name in ("footnoteReference", "endnoteReference", "commentReference"):
            number = self._package.attribute(element, "id")
            mark, note = self._notes.referred(name.removesuffix("Reference"), number)
            if note:
                line.runs.append(Run(mark, RAW))
                line.notes.append(note)
        elif name == "ruby":  # how the base is read is behind it, as where it can't be set above
            for part, ends in (("rubyBase", ("", "")), ("rt", ("(", ")"))):
                for held in self._package.children(element, part):
                    line.runs.append(Run(ends[0]))
                    self._gather(held, line, look)
                    line.runs.append(Run(ends[1]))
        elif name == "fldChar":
            self._field(element, line)
        elif name == "instrText" and line.field is not None:
            line.field += element.text or ""

    def _choice(self, element: Element, line: WordLine, look: int) -> None:
        """The same thing said for newer and for older programs: one of them is enough."""
        chosen = self._package.chosen(element)
        if chosen is not None:
            self._run(chosen, line, look)
            self._gather(chosen, line, look)

    def _field(self, element: Element, line: WordLine) -> None:
        kind = self._package.attribute(element, "fldCharType")
        if kind == "begin":
            line.field = ""
            line.form, line.form_at = form_value(self._package, element), len(line.runs)
        elif kind == "separate" and line.field is not None:
            line.href = link_address(line.field) or line.href
        elif kind == "end":
            if line.form and not any(run.text.strip() for run in line.runs[line.form_at :]):
                line.runs.append(Run(line.form))
            line.href, line.field, line.form = "", None, ""

    def _drawing(self, element: Element, line: WordLine) -> None:
        package = self._package
        alt = ""
        texts: list[Element] = []
        for one in package.outside(element, "txbxContent"):  # text boxes are read for themselves
            name = package.local[one.tag]
            if name == "docPr":
                alt = package.attribute(one, "descr") or package.attribute(one, "title")
            elif name in ("blip", "imagedata"):
                found = self._relations.get(package.attribute(one, "embed") or package.attribute(one, "id"))
                line.pictures.append(found.target if found and not found.external else "")
                line.runs.append(Run(placeholder(alt), RAW))
            elif name == "txbxContent":
                texts.append(one)
            elif name == "OLEObject" and (text := package.file_line(self._part, one)):
                line.aside.append(MarkdownBlock(text))
            elif name == "chart" and package.attribute(one, "id") in self._relations:
                line.aside += read_chart(
                    package, self._relations[package.attribute(one, "id")].target
                ).blocks()
            elif name == "relIds" and package.attribute(one, "dm") in self._relations:
                line.aside += diagram_blocks(package, self._relations[package.attribute(one, "dm")].target)
        if texts:
            line.boxes.append(drawn_texts(package, element, texts))
