"""Writes parts of an OpenDocument file as blocks of Markdown: paragraphs, lists, tables, frames, notes, comments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from quire.reading.office.caption_pictures import CaptionParts, caption_parts
from quire.reading.office.flow_text import NoteKind, comment_text
from quire.reading.office.html_code import fenced
from quire.reading.office.inline_markdown import BOLD, HIDDEN, RAW, Run, block, render
from quire.reading.office.math_markup import display_formula, inline_formula
from quire.reading.office.odf_changes import NAMES as CHANGES
from quire.reading.office.odf_changes import OdfChanges
from quire.reading.office.odf_numbers import OdfNumbers
from quire.reading.office.odf_objects import frame_chart, frame_file, frame_formula, frame_picture
from quire.reading.office.odf_sections import OdfSections
from quire.reading.office.odf_styles import OdfStyles
from quire.reading.office.odf_tables import read_table
from quire.reading.office.office_pages import (
    TABLE_PAGE_CHARS,
    CaptionOf,
    Lists,
    MarkdownBlock,
    Pager,
    cell,
)
from quire.reading.office.office_source import PLACEHOLDER
from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_marks import ReviewKind, ReviewMarks

Add = Callable[[MarkdownBlock], None]

_MAX_DEPTH = 8
_DEEPEST_SECTION = 3
"""What is deeper is in a frame, which begins no page."""
_SPACES = {"s": " ", "tab": "\t", "line-break": "\n"}
_TAB, _MOST_SPACES = 4, 200
_SKIPPED = frozenset({"annotation-end", "sequence-decls", "forms", "soft-page-break", "notes"})
_HOLDERS = frozenset(
    {
        *("section", "numbered-paragraph", "shapes", "table-of-content", "index-body", "index-title"),
        *("alphabetical-index", "illustration-index", "table-index", "object-index", "user-index"),
        "bibliography",
    }
)
_SHAPES = frozenset({"custom-shape", "rect", "ellipse", "line", "connector", "caption", "polygon", "path"})
FRAMES = frozenset({"frame", "g", *_SHAPES})
"""What floats over the text, or is a part of it."""


@dataclass(slots=True)
class OdfLine:
    """What has been gathered of a paragraph."""

    runs: list[Run] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frames: list[Element] = field(default_factory=list)


class OdfWriter:
    """Writes parts of the content as blocks of Markdown."""

    def __init__(self, package: Package, styles: OdfStyles, marks: ReviewMarks) -> None:
        self.package = package
        self.styles = styles
        self.sections: OdfSections | None = None
        """Of a text, whose pages begin where styles say so."""
        self._marks = marks
        self._changes = OdfChanges(package, marks)
        self._numbers = OdfNumbers(styles)
        self._lists = Lists()
        self._noted = 0
        self._commented = 0

    def add_blocks(self, holder: Element, add: Add, depth: int) -> None:
        """The blocks in an element, one after the other."""
        if depth > _MAX_DEPTH:
            self._add_words(holder, add)
            return
        code: list[str] = []
        for one in holder:
            name = self.package.local[one.tag]
            if name in ("p", "h"):
                self._lists.end()
                self._begin(one, depth)
                line = self._gathered(one)
                if name == "p" and self._is_code(one, line):
                    code.append("".join(run.text for run in line.runs).expandtabs(_TAB).rstrip())
                else:
                    self._end_code(code, add)
                    self._add_paragraph(one, line, add, depth)
                self._end(one, depth)
                continue
            self._end_code(code, add)
            if name == "list":  # one behind another may hold the inner items of its last one
                self._add_list(one, add, 0, "", goes_on=False)
            elif name == "table":
                self._lists.end()
                self._begin(one, depth)
                self._add_table(one, add)
                self._end(one, depth)
            elif name in CHANGES:
                self._changes.take(name, one)
            elif self.package.attribute(one, "display") == "none":
                self._marks.add(ReviewKind.HIDDEN, " ".join(one.itertext()))
            elif name in _HOLDERS:
                self.add_blocks(one, add, depth + 1)
            elif name not in _SKIPPED:
                self.add_shape(one, add, depth)
        self._end_code(code, add)

    def _is_code(self, element: Element, line: OdfLine) -> bool:
        """Whether a paragraph is a line of code: it has a style for that, and nothing but text."""
        has_more = line.pictures or line.notes or line.frames or any(run.look & RAW for run in line.runs)
        return not has_more and self.styles.is_code(self.package.attribute(element, "style-name"))

    def _end_code(self, code: list[str], add: Add) -> None:
        """Lines of code that followed each other are one block."""
        text = "\n".join(code).strip("\n")
        code.clear()
        if text.strip():
            add(MarkdownBlock(fenced("", text)))

    def _begin(self, element: Element, depth: int) -> None:
        """A paragraph or a table of the text itself begins, and with it perhaps a page."""
        if self.sections is not None and depth <= _DEEPEST_SECTION:
            self.sections.before(self.package.attribute(element, "style-name"))

    def _end_words(self) -> None:
        """The words that follow are of another paragraph."""
        self._marks.end_paragraph()
        self._changes.text(" ")

    def _end(self, element: Element, depth: int) -> None:
        self._end_words()
        if self.sections is not None and depth <= _DEEPEST_SECTION:
            self.sections.after(self.package.attribute(element, "style-name"))

    def add_shape(self, shape: Element, add: Add, depth: int) -> None:
        """A frame, a shape with text, or a group of them."""
        name = self.package.local[shape.tag]
        if name in _SKIPPED:
            return
        if depth > _MAX_DEPTH:
            self._add_words(shape, add)
        elif name == "frame":
            self._add_frame(shape, add, depth)
        elif name in ("g", "a"):
            for one in shape:
                self.add_shape(one, add, depth + 1)
        elif name in _SHAPES or name == "text-box":
            self.add_blocks(shape, add, depth + 1)

    def _add_words(self, holder: Element, add: Add) -> None:
        """What is nested deeper than anything real is one paragraph."""
        held = OdfLine()
        text = self.line_of(holder, held)
        if text:
            add(MarkdownBlock(block(text), pictures=tuple(held.pictures), notes=tuple(held.notes)))

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
        chart = frame_chart(package, frame)
        if formula:
            add(MarkdownBlock(display_formula(formula)))
        elif chart is not None:
            for shown in chart.blocks():
                add(shown)
        elif picture is not None:
            text, ref = picture
            add(MarkdownBlock(text, pictures=(ref,)))
        if file := frame_file(package, frame):
            add(MarkdownBlock(file))

    def _add_paragraph(self, element: Element, line: OdfLine, add: Add, depth: int) -> None:
        is_caption = self.styles.is_caption(self.package.attribute(element, "style-name"))
        parts = caption_parts(line.runs, line.pictures) if is_caption else CaptionParts(line.runs)
        has_apart = parts.above is not None or parts.below is not None
        text = render(parts.runs)
        pictures, notes = () if has_apart else tuple(line.pictures), tuple(line.notes)
        if parts.above is not None:
            add(parts.above)
        if text and self.package.local[element.tag] == "h":
            given = self.package.attribute(element, "outline-level", "1")
            level = min(max(int(given), 1), 6) if given.isdigit() and len(given) < 4 else 1
            words = " ".join(filter(None, (self._number(element, level), text.replace("\n", " "))))
            words = words.replace("**", "")
            add(MarkdownBlock(f"{'#' * level} {words}", level, pictures=pictures, notes=notes))
        elif text and self.styles.is_title(self.package.attribute(element, "style-name")):
            words = text.replace("\n", " ").replace("**", "")
            add(MarkdownBlock(f"# {words}", 1, pictures=pictures, notes=notes))
        elif text:
            caption = CaptionOf.UNKNOWN if is_caption else None
            words = block(text)
            if self.styles.is_quote(self.package.attribute(element, "style-name")):
                words = "> " + words.replace("\n", "\n> ")
            add(MarkdownBlock(words, pictures=pictures, notes=notes, caption=caption))
        if parts.below is not None:
            add(parts.below)
        for frame in line.frames:
            self.add_shape(frame, add, depth + 1)

    def _number(self, heading: Element, level: int) -> str:
        """The number of a heading, "" for none."""
        if self.package.attribute(heading, "is-list-header") == "true":
            return ""
        start = self.package.attribute(heading, "start-value")
        return self._numbers.label("", level - 1, start)[1]

    def _add_list(self, element: Element, add: Add, depth: int, style: str, *, goes_on: bool) -> None:
        """A list; `goes_on` says that it has the numbers that follow those of one before."""
        package = self.package
        style = package.attribute(element, "style-name") or style
        goes_on = goes_on or package.attribute(element, "continue-numbering") == "true"
        goes_on = goes_on or bool(package.attribute(element, "continue-list"))
        self._numbers.begin(style, depth, goes_on=goes_on)
        for item in element:
            texts: list[str] = []
            held = OdfLine()
            start = package.attribute(item, "start-value")
            for one in item:
                name = package.local[one.tag]
                if name == "list" and depth < _MAX_DEPTH:
                    has_own = self._add_item(texts, (style, depth, start), add, held)
                    goes_on, start = goes_on and not has_own, "" if has_own else start
                    self._add_list(one, add, depth + 1, style, goes_on=goes_on)
                elif name == "list":
                    texts.append(self.line_of(one, held))
                elif name in ("p", "h"):
                    self._begin(one, 0)
                    line = self._gathered(one)
                    texts.append(render(line.runs))
                    held.pictures += line.pictures
                    held.notes += line.notes
                    self._end_words()
                    for frame in line.frames:
                        self.add_shape(frame, add, depth + 1)
                elif name in CHANGES:
                    self._changes.take(name, one)
            goes_on = not self._add_item(texts, (style, depth, start), add, held) and goes_on

    def _add_item(self, texts: list[str], place: tuple[str, int, str], add: Add, held: OdfLine) -> bool:
        """Adds an item of the texts gathered, and forgets them; whether there was one to add.

        `place` is the style of its list, its depth, and the number that it is given, "" for the next.
        """
        text = "\n".join(filter(None, texts))
        if text:
            marker, shown = self._numbers.label(*place)
            text = block(f"{shown} {text}" if marker == "-" and shown else text)
            item = self._lists.item(place[1], marker, text)
            add(MarkdownBlock(item, tight=True, pictures=tuple(held.pictures), notes=tuple(held.notes)))
        for gathered in (texts, held.pictures, held.notes):
            gathered.clear()
        return bool(text)

    def _add_table(self, table: Element, add: Add) -> None:
        held = OdfLine()
        rows, spans = read_table(self.package, table, lambda one: self.line_of(one, held))
        pager = Pager(TABLE_PAGE_CHARS)
        pager.add_table(rows, spans=spans)
        pages = pager.finish()
        for at, page in enumerate(pages, 1):
            notes, pictures = (held.notes, held.pictures) if at == len(pages) else ([], [])
            shown = page.spans[0] if page.spans else ()
            add(MarkdownBlock(page.markdown, spans=shown, notes=tuple(notes), pictures=tuple(pictures)))

    def line_of(self, holder: Element, held: OdfLine | None = None, *, with_frames: bool = True) -> str:
        """The paragraphs of an element, of its lists and frames too, in one line.

        Their notes and pictures go into `held`; without it, pictures are left out.
        """
        parts: list[str] = []
        for one, is_item in self._paragraphs(holder, with_frames=with_frames):
            line = self._gathered(one)
            if held is None:
                line.runs = [run for run in line.runs if not PLACEHOLDER.fullmatch(run.text)]
            else:
                held.notes += line.notes
                held.pictures += line.pictures
            text = render(line.runs)
            parts.append(f"• {text}" if is_item and text else text)
            self._end_words()
        return " ".join(filter(None, parts))

    def _paragraphs(
        self, holder: Element, *, with_frames: bool = True, is_item: bool = False
    ) -> Iterator[tuple[Element, bool]]:
        """The paragraphs in an element, and whether they begin an item; not those of its notes and comments."""
        for one in holder:
            name = self.package.local[one.tag]
            if name in ("p", "h"):
                yield one, is_item
                is_item = False
            if name in CHANGES:
                self._changes.take(name, one)
            elif name not in ("annotation", "note") and (with_frames or name not in FRAMES):
                inner = name in ("list-item", "list-header")
                yield from self._paragraphs(one, with_frames=with_frames, is_item=inner)

    def comment(self, annotation: Element) -> tuple[str, str]:
        """Author and text of a comment, both plain."""
        author = self.package.child(annotation, "creator")
        texts = ["".join(one.itertext()) for one, _ in self._paragraphs(annotation)]
        return (author.text or "") if author is not None else "", " ".join(texts)

    def _gathered(self, paragraph: Element) -> OdfLine:
        line = OdfLine()
        look = self.styles.looks.get(self.package.attribute(paragraph, "style-name"), 0)
        if self.package.local[paragraph.tag] == "h":
            look &= ~BOLD
        self._gather(paragraph, line, look, "")
        return line

    def _gather(self, element: Element, line: OdfLine, look: int, href: str) -> None:
        package = self.package
        self._add_text(element.text, line, look, href)
        for one in element:
            name = package.local[one.tag]
            if name in ("span", "a", "bookmark-ref", "ruby", "ruby-base", "meta"):
                inner = look | self.styles.looks.get(package.attribute(one, "style-name"), 0)
                self._gather(one, line, inner, package.attribute(one, "href") if name == "a" else href)
            elif name in _SPACES:
                count = package.attribute(one, "c") if name == "s" else ""
                times = min(int(count), _MOST_SPACES) if count.isdigit() and len(count) < 6 else 1
                self._add_text(_SPACES[name] * times, line, look, "")
            elif name in CHANGES:
                self._changes.take(name, one)
            elif name == "note":
                self._note(one, line)
            elif name == "annotation":
                self._refer_to_comment(one, line)
            elif name == "frame" and package.child(one, "text-box") is None and self._object(one, line):
                pass
            elif name in ("frame", "g") or name in _SHAPES:
                line.frames.append(one)
            elif name not in _SKIPPED:
                self._add_text(one.text, line, look, href)  # a field: a date, a page number
            self._add_text(one.tail, line, look, href)

    def _add_text(self, text: str | None, line: OdfLine, look: int, href: str) -> None:
        if not text:
            return
        if look & HIDDEN:
            self._marks.add(ReviewKind.HIDDEN, text)
            return
        line.runs.append(Run(text if text == "\n" else " ".join(text.split("\n")), look, href))
        self._marks.is_open = False
        self._changes.text(text)

    def _object(self, frame: Element, line: OdfLine) -> bool:
        """Whether the frame has a formula or a picture, which belongs to the line."""
        formula, picture = frame_formula(self.package, frame), frame_picture(self.package, frame)
        if formula:
            line.runs.append(Run(inline_formula(formula), RAW))
        elif picture is not None:
            line.runs.append(Run(picture[0], RAW))
            line.pictures.append(picture[1])
        return bool(formula) or picture is not None

    def _note(self, note: Element, line: OdfLine) -> None:
        body = self.package.child(note, "note-body")
        text = self.line_of(body, OdfLine()).replace("\n", " ") if body is not None else ""
        if text:
            self._noted += 1
            line.runs.append(Run(f"[^{self._noted}]", RAW))
            line.notes.append(f"[^{self._noted}]: {text}")

    def _refer_to_comment(self, annotation: Element, line: OdfLine) -> None:
        author, text = self.comment(annotation)
        if text.strip():
            self._commented += 1
            mark = f"[^{NoteKind.COMMENT}{self._commented}]"
            line.runs.append(Run(mark, RAW))
            line.notes.append(f"{mark}: {comment_text(author, cell(text))}")
            date = self.package.child(annotation, "date")
            given = (date.text or "").strip() if date is not None else ""
            self._marks.add(ReviewKind.COMMENT, text, author, given)
