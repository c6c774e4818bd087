"""Reading pages: text, Markdown, and what kind of page each one is."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quire.domain.element import Element, ElementKind, element_id, has_point
from quire.domain.page import PageClass, PageReading, PageSignals
from quire.reading.files.attachment_notes import AttachmentNote
from quire.reading.files.document_source import PdfSource, open_documents, page_errors
from quire.reading.files.file_pages import READER_TEXT, read_image, read_office_page, read_text_page
from quire.reading.files.image_source import ImageSource
from quire.reading.files.text_source import TextSource, paragraph_elements
from quire.reading.office.office_source import OfficeSource
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.aligned_tables import could_be_aligned
from quire.reading.pdf.attached_files import attached_files, with_files
from quire.reading.pdf.block_elements import ComposeStyle, PageBuilder, prose_size
from quire.reading.pdf.block_matching import FilledBlock, compact
from quire.reading.pdf.compose import (
    compose,
    compose_lines,
    outside,
    place_lines,
    with_figures,
    with_tables_between,
    with_whole_lines,
)
from quire.reading.pdf.contents_page import is_contents_page
from quire.reading.pdf.contents_rows import find_contents
from quire.reading.pdf.drawn_marks import with_drawn_marks
from quire.reading.pdf.drawn_rules import NO_RULES, Box, Rules, crosses_bars, rules_of, slanted_strokes
from quire.reading.pdf.drop_caps import with_drop_caps
from quire.reading.pdf.facing_pages import facing_blocks, fold_of, parts_of
from quire.reading.pdf.form_fields import FormField, form_fields
from quire.reading.pdf.headed_tables import could_be_headed, find_headed, with_headed
from quire.reading.pdf.hidden_text import HIDDEN_TEXT, HiddenText, take_hidden, without_texts
from quire.reading.pdf.layer_words import with_corrections
from quire.reading.pdf.layout_blocks import LayoutBlock, lay_out, make_parser
from quire.reading.pdf.line_pieces import PageWord
from quire.reading.pdf.list_columns import are_list_cells, is_index
from quire.reading.pdf.missing_words import lines_with, missing_words
from quire.reading.pdf.mupdf import text_flags
from quire.reading.pdf.narrow_gutters import cut_at_gutter
from quire.reading.pdf.numbered_lines import find_numbered_lines
from quire.reading.pdf.outline import Titles, outline_titles
from quire.reading.pdf.page_figures import figure_boxes
from quire.reading.pdf.page_margins import PageMargins, with_margins_in_order
from quire.reading.pdf.page_signals import Thresholds, classify, garbled_ratio, is_within, measure_marks
from quire.reading.pdf.picture_damage import has_damage, picture_boxes, with_damage
from quire.reading.pdf.prose_columns import prose_columns
from quire.reading.pdf.reading_direction import View, view_of
from quire.reading.pdf.ruled_tables import Table, could_be_grid, find_grids, in_reading_order
from quire.reading.pdf.running_lines import EdgeLine, Edges, RunningLines, edge_lines, running
from quire.reading.pdf.slide_titles import with_slide_title
from quire.reading.pdf.structure_tags import NO_TAGS, PageTags, is_tagged, page_tags
from quire.reading.pdf.table_places import with_places
from quire.reading.pdf.text_flow import flow
from quire.reading.pdf.text_lines import TextLine, body_size, layer_text, lines_of
from quire.reading.pdf.texts_ahead import may_have, text_ahead, text_of
from quire.reading.pdf.turned_heads import find_with_turned
from quire.reading.pdf.unseen_text import is_unseen
from quire.rendering.markdown_writer import clean, hyphenated_words
from quire.rendering.page_markdown import render_markdown

READER_LAYOUT = "liteparse"
READER_MUPDF = "mupdf"
MARKUP_READERS = frozenset(
    {READER_TEXT, "docx", "pptx", "xlsx", "odt", "ods", "odp", "html", "epub", "csv", "eml", "msg"}
)
"""Readers of documents that have no picture of their pages."""

_CHART_LINES = 2
"""The head of a table may have one slanted line, which divides its first cell."""
_KEPT_AT_LEAST = 0.85
"""Markdown with fewer of the page's letters and digits than this has lost something; MuPDF's lines have not."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How pages become Markdown."""

    strip_running: bool = True
    join_hyphens: bool = True
    thresholds: Thresholds = field(default_factory=Thresholds)
    office: OfficeLimits = field(default_factory=OfficeLimits)
    turn_s: float | None = None
    """CPU time after which no further page of a PDF is begun; those that are left are not in the answer."""


def read_pages(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions | None = None
) -> list[PageReading]:
    """One reading for every number asked (from 1), in the order asked.

    A page without text has empty Markdown and a reason (`blank_page`, `no_text_layer`, `scan`). Raises what
    `inspect` raises for a document that can't be opened, and PageError for the whole call when a page fails.
    """
    options = options or ReadOptions()
    source = open_documents().get(path, password, options.office)
    if isinstance(source, PdfSource):
        return read_pdf(source, numbers, options)
    if isinstance(source, ImageSource):
        return [read_image(source, number) for number in numbers]
    if isinstance(source, OfficeSource):
        return [page_errors(number)(read_office_page)(source, number) for number in numbers]
    return [read_text_page(source, number) for number in numbers] if isinstance(source, TextSource) else []


def read_text(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions | None = None
) -> list[PageReading]:
    """The quick fallback: MuPDF's plain text of each page and nothing else. Raises as `read_pages` does."""
    source = open_documents().get(path, password, options.office if options else None)
    if isinstance(source, PdfSource):
        return [page_errors(number)(_plain)(source, number) for number in numbers]
    return read_pages(path, password, numbers, options)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A page as analysis leaves it: the reading without Markdown, and what to make it from.

    `plain` is for a page that needs no layout reader.
    """

    reading: PageReading
    view: View
    lines: list[TextLine]
    tables: list[Table]
    margins: PageMargins
    figures: list[Box] = field(default_factory=list)
    fields: list[FormField] = field(default_factory=list)
    tags: PageTags = NO_TAGS
    rules: Rules = NO_RULES
    plain: list[FilledBlock] | None = None
    hidden: Sequence[HiddenText] = ()
    corrected: Mapping[str, str] = field(default_factory=dict)
    fold: float | None = None
    """Where two pages on one sheet meet; `plain` has their tables then."""
    files: Sequence[AttachmentNote] = ()


def read_pdf(source: PdfSource, numbers: Sequence[int], options: ReadOptions) -> list[PageReading]:
    """As `read_pages`, for a PDF that is open already."""
    until = math.inf if options.turn_s is None else time.process_time() + options.turn_s
    seen: dict[int, _Seen] = {}
    for n in dict.fromkeys(numbers):
        if seen and time.process_time() > until:
            break
        seen[n] = page_errors(n)(_analyse)(source, n, options)
    for n, page in seen.items():
        _edges(source).put(n, tuple(page.margins.edges.values()))
    seen = {n: page_errors(n)(_ordered)(source, page, options) for n, page in seen.items()}
    hard = {n: page.view.rotation for n, page in sorted(seen.items()) if page.lines and page.plain is None}
    blocks = lay_out(source.handle, hard, layout_parser()) if hard else {}
    done = {n: page_errors(n)(_compose)(page, blocks.get(n), options) for n, page in seen.items()}
    return [with_files(done[n], seen[n].files) for n in numbers if n in done]


@functools.cache
def layout_parser() -> Any:
    """One parser of page layouts per process: it holds no document, only its settings."""
    return make_parser()


def _ordered(source: PdfSource, seen: _Seen, options: ReadOptions) -> _Seen:
    """The page with its running lines known, and with its blocks if they are plain to see."""
    running = replace(_running_lines(source, seen), are_kept=not options.strip_running)
    margins = replace(seen.margins, running=running)
    gone = set(map(id, margins.taken()))
    rest = [line for line in outside(seen.lines, seen.tables) if id(line) not in gone]
    if seen.fold is not None:
        blocks = facing_blocks(rest, seen.tables, seen.fold, seen.view.height, items=seen.tags.items)
        return replace(seen, margins=margins, plain=blocks)
    boxes = [table.box for table in seen.tables]
    plain = flow(rest, boxes, seen.view.height, has_grid=could_be_grid(seen.rules), items=seen.tags.items)
    return replace(seen, margins=margins, plain=plain)


def _compose(seen: _Seen, blocks: list[LayoutBlock] | None, options: ReadOptions) -> PageReading:
    reading = seen.reading
    if not seen.lines:
        return _unplaced(reading)
    hyphenated = hyphenated_words(reading.text) if options.join_hyphens else frozenset[str]()
    style = ComposeStyle(
        *(body_size(seen.lines), seen.view.height, options.join_hyphens, seen.tags.titles, hyphenated)
    )
    reader, filled, elements, lost = _best_attempt(seen, blocks, style)
    if lost:
        place_lines(filled, lines_with(lost, seen.lines, style.body_size, elements))
        elements = _elements(seen, filled, style)
        lost = missing_words(reading.text, elements)
    text = render_markdown(elements)
    return replace(
        reading,
        markdown=text,
        reader=reader,
        reasons=reading.reasons if text else (*reading.reasons, "no_readable_text"),
        elements=tuple(elements),
        words_missing=len(lost),
    )


def _best_attempt(
    seen: _Seen, blocks: list[LayoutBlock] | None, style: ComposeStyle
) -> tuple[str, list[FilledBlock], list[Element], list[str]]:
    """The reader, the blocks, the elements and the missing words of the first attempt that keeps the page's text."""
    text = seen.reading.text
    for reader, compose_blocks in _attempts(seen, blocks):
        filled = compose_blocks()
        elements = _elements(seen, filled, style)
        found = reader, filled, elements, missing_words(text, elements)
        if not found[-1] or _keeps_enough(text, elements):
            break
    return found


def _keeps_enough(text: str, elements: Sequence[Element]) -> bool:
    kept = sum(len(compact(element.plain_text)) for element in elements)
    return kept >= _KEPT_AT_LEAST * len(compact(text))


def _attempts(
    seen: _Seen, blocks: list[LayoutBlock] | None
) -> Iterator[tuple[str, Callable[[], list[FilledBlock]]]]:
    """The ways to put the page together, the best first; a later one is for a page where text was lost."""
    lines, tables, plain = seen.lines, seen.tables, seen.plain
    dropped = seen.margins.taken()
    if plain is not None:
        own = [] if seen.fold is not None else tables
        yield READER_MUPDF, lambda: with_tables_between(plain, own)
    elif blocks:
        visible = without_texts(blocks, seen.hidden) if seen.hidden else blocks
        visible = with_corrections(visible, seen.corrected, seen.reading.text) if seen.corrected else visible
        items = seen.tags.items
        yield READER_LAYOUT, lambda: compose(visible, lines, tables, dropped, seen.rules, items=items)
    yield READER_MUPDF, lambda: compose_lines(lines, tables, dropped)
    yield READER_MUPDF, lambda: compose_lines(lines, [], dropped)


def _elements(seen: _Seen, filled: Sequence[FilledBlock], style: ComposeStyle) -> list[Element]:
    """The page's elements: running lines of the top first, then the blocks, then running lines of the bottom."""
    margins = seen.margins
    tables = [item.block for item in filled if item.block.kind == "table"]
    if tables:
        style = replace(style, body_size=max(style.body_size, prose_size(filled)))
    page = PageBuilder(seen.reading.number, style, margins.kinds())
    margins.add_left_out(page, at_top=True)
    filled = with_slide_title(with_whole_lines(filled, seen.lines), seen.view.size)
    blocks = with_figures(filled, seen.figures) if seen.figures else filled
    top, bottom = (margins.blocks(tables, at_top=at_top) for at_top in (True, False))
    page.add_blocks([*top, *blocks, *bottom])
    margins.add_left_out(page, at_top=False)
    page.add_fields(seen.fields)
    # Nothing but running lines: better these than a page that is silently empty.
    found = with_places(page.finished(show_running=not filled), seen.lines)
    return with_margins_in_order(found, seen.reading.number)


def _unplaced(reading: PageReading) -> PageReading:
    """A page whose text has no usable positions."""
    text = clean(reading.text)
    if not text:
        return replace(reading, markdown="")
    element = Element(element_id(reading.number, 0), ElementKind.PARAGRAPH, text)
    return replace(reading, markdown=render_markdown([element]), elements=(element,))


def _running_lines(source: PdfSource, seen: _Seen) -> RunningLines:
    if not (edges := seen.margins.edges):
        return RunningLines()
    found = running(seen.reading.number, seen.lines, edges, _edges(source))
    if not seen.tables:
        return found
    free = {id(line) for line in outside(seen.lines, seen.tables)}  # a table keeps all its rows
    return found.among(frozenset(i for i, line in enumerate(seen.lines) if id(line) in free))


def _edges(source: PdfSource) -> Edges:
    if "edges" not in source.kept:
        read, search = functools.partial(_read_edges, source), functools.partial(_may_have, source)
        source.kept["edges"] = Edges(source.page_count, read, search)
    edges: Edges = source.kept["edges"]
    return edges


def _read_edges(source: PdfSource, number: int) -> tuple[EdgeLine, ...]:
    """The edge lines of a neighbour. One that can't be read has none: that is its own failure, not this page's."""
    try:
        page, _, content = text_ahead(source, number)
        view = view_of(page, content)
        return tuple(edge_lines(lines_of(content, view.turn), view.height).values())
    except MemoryError:
        raise
    except Exception:
        return ()


def _may_have(source: PdfSource, number: int, lines: Sequence[Sequence[str]]) -> bool:
    """As `may_have`; a neighbour that can't be searched is one that has to be read."""
    try:
        return may_have(source, number, lines)
    except MemoryError:
        raise
    except Exception:
        return True


def _analyse(source: PdfSource, number: int, options: ReadOptions) -> _Seen:
    page, layer_words, content = text_of(source, number)
    cut_at_gutter(content, layer_words.found)
    drawings: list[dict[str, Any]] = page.get_cdrawings()
    pictures = picture_boxes(source, page, number)
    hidden = take_hidden(page, content, drawings, pictures)
    text = layer_text(content)
    view = view_of(page, content)
    turn = view.turn
    lines, drawn_marks = with_drawn_marks(with_drop_caps(lines_of(content, turn)), drawings, turn)
    rules = rules_of(drawings, turn)
    words = functools.partial(layer_words.placed, hidden, turn)
    fold = fold_of(lines, view.size)
    tables = _tables_of_sides(words, lines, rules, fold) if lines else []
    if tables:
        tables = without_charts(tables, slanted_strokes(drawings, turn), rules)
    paths = [box for drawing in drawings if (box := turn(drawing["rect"])) not in drawn_marks]
    images = list(map(turn, pictures))
    marks = measure_marks(
        images,
        [path for path in paths if not any(is_within(path, table.box) for table in tables)],
        [line.box for line in lines],
        view.size,
    )
    signals = PageSignals(
        chars=len("".join(text.split())),
        image_coverage=round(marks.image_coverage, 4),
        largest_image=round(marks.largest_image, 4),
        drawings=len(drawings),
        garbled_ratio=round(garbled_ratio(text), 4),
        width_pt=view.width,
        height_pt=view.height,
    )
    page_class, reasons = classify(signals, marks, options.thresholds)
    if has_damage(source, number):
        reasons = with_damage(reasons)
    if any(not one.is_copy for one in hidden):
        reasons = (*reasons, HIDDEN_TEXT)
    unseen = is_unseen(page, content, marks.largest_image)
    reading = PageReading(number, page_class, text, "", READER_MUPDF, reasons, signals, is_unseen=unseen)
    edges = edge_lines(lines, view.height) if source.page_count > 1 else {}
    figures = figure_boxes(images, marks.shapes, view.size) if images or marks.shapes else []
    fields = form_fields(page, turn, text) if _is_form(source) else []
    tags = _tags(source, page, number)
    covert = [one._replace(box=turn(one.box)) for one in hidden]
    margins = PageMargins(lines, edges, view.height)
    found = _Seen(
        reading, view, lines, tables, margins, figures, fields, tags, rules, hidden=covert, fold=fold
    )
    files = attached_files(source.handle, page, view.turn)
    return replace(found, corrected=layer_words.corrected_words(), files=files)


def _tags(source: PdfSource, page: Any, number: int) -> PageTags:
    """What the outline and the tags of the document say of a page."""
    if "outline" not in source.kept:
        source.kept["outline"] = outline_titles(source.handle)
        source.kept["tagged"] = is_tagged(source.handle)
    found: Titles = source.kept["outline"].get(number, {})
    if not source.kept["tagged"]:
        return PageTags(found)
    titles, items = page_tags(page)
    return PageTags({**titles, **found}, items)


def _is_form(source: PdfSource) -> bool:
    if "is_form" not in source.kept:
        source.kept["is_form"] = bool(source.handle.is_form_pdf)
    return bool(source.kept["is_form"])


def _tables_of_sides(
    find_words: Callable[[], list[PageWord]], lines: Sequence[TextLine], rules: Rules, fold: float | None
) -> list[Table]:
    """The tables of a page, or of the two pages on a sheet that has a fold."""
    if fold is None:
        return _tables(find_words, lines, rules)
    parts = parts_of(find_words(), lines, rules, fold)
    return [
        table
        for words, side, drawn in parts
        for table in _tables(functools.partial(list, words), side, drawn)
    ]


def _tables(find_words: Callable[[], list[PageWord]], lines: Sequence[TextLine], rules: Rules) -> list[Table]:
    """The tables of a page. Pages without rules and without figures set apart are not searched."""
    may_be_drawn, may_be_aligned = could_be_grid(rules), could_be_aligned(lines)
    words = find_words() if may_be_drawn or may_be_aligned or could_be_headed(rules) else []
    tables = find_grids(rules, words) if may_be_drawn else []
    tables += find_numbered_lines(outside(lines, tables))
    if may_be_aligned:
        tables += find_contents(outside(lines, tables))
        taken = [table.box for table in tables]
        found = find_with_turned(words, lines, rules, taken, prose_columns(lines))
        found = [table for table in found if not are_list_cells(table.rows)]
        tables += with_headed(found, rules, words, taken)
    else:
        tables += find_headed(rules, words, [table.box for table in tables])
    return [] if tables and (is_index(lines) or is_contents_page(lines)) else in_reading_order(tables)


def without_charts(tables: Sequence[Table], slanted: Sequence[Box], rules: Rules = NO_RULES) -> list[Table]:
    """The tables without slanted lines or bars in them: with some, figures in columns are the labels of a chart."""
    return [
        table
        for table in tables
        if sum(has_point(table.box, ((x0 + x1) / 2, (y0 + y1) / 2)) for x0, y0, x1, y1 in slanted)
        < _CHART_LINES
        and not crosses_bars(table.box, rules)
    ]


def _plain(source: PdfSource, number: int) -> PageReading:
    page = source.page(number)
    text: str = page.get_text("text", flags=text_flags())
    signals = PageSignals(
        chars=len("".join(text.split())),
        garbled_ratio=round(garbled_ratio(text), 4),
        width_pt=float(page.rect.width),
        height_pt=float(page.rect.height),
    )
    reasons = () if signals.chars else ("no_text_layer",)
    elements = paragraph_elements(text, number)
    return PageReading(
        number, PageClass.TEXT_ONLY, text, text.strip(), READER_MUPDF, reasons, signals, elements
    )
