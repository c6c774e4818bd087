"""PowerPoint presentations of before 2007 (PPT): a page for each slide, in the order of the show, with its notes.

Pictures are placeholders without a picture; charts are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from quire.domain.element import CellSpan
from quire.reading.files.attachment_notes import AttachmentNote
from quire.reading.office.compound_file import CompoundFile
from quire.reading.office.embedded_files import object_note
from quire.reading.office.inline_markdown import Run, block, placeholder, render
from quire.reading.office.office_pages import (
    Lists,
    MarkdownBlock,
    OfficePage,
    RunningText,
    kept_spans,
    table_lines,
)
from quire.reading.office.office_source import Opened
from quire.reading.office.slide_numbers import SlideNumbers
from quire.reading.office.slide_pages import running_line, slide_page
from quire.reading.office.slide_records import BODIES, RUNNING, TITLES, Slide, SlideShape, slides
from quire.reading.office.zip_container import OfficeLimits

READER = "ppt"
_NOTES_TEXT = 2
_MOST_FILES = 1_000
_FIELD_MARK = "*"
"""A text of nothing else is a field: a slide's number, a date."""


def open_ppt(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    with CompoundFile(path, limits) as file:
        found, objects = slides(file)
        title, author = file.credits()
    named = ((number, object_note(data)) for number, data in list(objects.items())[:_MOST_FILES])
    notes = {number: note for number, note in named if note is not None}
    pages = [_page(slide, notes) for slide in found]
    return Opened(
        *(READER, pages, title, author), files={note.markdown: note.facts for note in notes.values()}
    )


def _page(slide: Slide, files: Mapping[int, AttachmentNote]) -> OfficePage:
    title = ""
    blocks: list[MarkdownBlock] = []
    running: list[RunningText] = []
    for shape in slide.shapes:
        if shape.text_kind in TITLES and not title:
            title = _line(shape)
        elif shape.cells is not None:
            blocks += _table(shape.cells)
        elif shape.placeholder in RUNNING:
            line = running_line(RUNNING[shape.placeholder], "" if _is_field(shape) else _line(shape))
            running += [line] if line is not None else []
        else:
            blocks += _paragraphs(shape)
        if shape.is_picture:
            blocks.append(MarkdownBlock(placeholder(), pictures=("",)))
        if shape.object_id and shape.object_id in files:
            blocks.append(MarkdownBlock(files[shape.object_id].markdown))
    notes = [one for shape in slide.notes if shape.text_kind == _NOTES_TEXT for one in _paragraphs(shape)]
    return slide_page(title, blocks, notes=notes, running=running, is_hidden=slide.is_hidden)


def _is_field(shape: SlideShape) -> bool:
    """Whether it shows nothing but fields, whose values the file does not have."""
    return all(one.text.strip() in ("", _FIELD_MARK) for one in shape.paragraphs)


def _line(shape: SlideShape) -> str:
    texts = [render([Run(one.text)]).replace("\n", " ") for one in shape.paragraphs]
    return " ".join(filter(None, texts))


def _paragraphs(shape: SlideShape) -> list[MarkdownBlock]:
    found: list[MarkdownBlock] = []
    lists, numbers = Lists(), SlideNumbers()
    given = [
        (one, render([Run(one.text)]))
        for one in shape.paragraphs
        if one.text.strip() not in ("", _FIELD_MARK)
    ]
    is_list = shape.text_kind in BODIES and len(given) > 1
    for one, text in given:
        if one.number is not None or (one.has_bullet if one.has_bullet is not None else is_list):
            marker, shown = numbers.label(one.depth, one.number)
            words = block(f"{shown} {text}" if shown else text)
            item = lists.item(one.depth, marker, words)
            found.append(MarkdownBlock(item, tight=True, begins=not found))
        else:
            lists.end()
            found.append(MarkdownBlock(block(text)))
    return found


def _table(cells: list[SlideShape]) -> list[MarkdownBlock]:
    """A table from where its cells are. Shapes without a text are its lines."""
    cells = [one for one in cells if one.text_kind >= 0 and one.box[0] < one.box[2]]
    lefts, tops = sorted({one.box[0] for one in cells}), sorted({one.box[1] for one in cells})
    rows = [[""] * len(lefts) for _ in tops]
    spans: list[CellSpan] = []
    for one in cells:
        left, top, right, bottom = one.box
        row, column = bisect_right(tops, top) - 1, bisect_right(lefts, left) - 1
        high = max(1, bisect_right(tops, bottom - 1) - row)
        wide = max(1, bisect_right(lefts, right - 1) - column)
        rows[row][column] = " ".join(filter(None, (rows[row][column], _line(one))))
        if high > 1 or wide > 1:
            spans.append(CellSpan(row, column, high, wide))
    kept, merged = kept_spans(spans, rows)
    return [MarkdownBlock("\n".join(table_lines(kept)), spans=merged)] if kept else []
