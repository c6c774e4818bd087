"""Web pages (HTML) as Markdown, by events and without a tree: depth costs nothing and nothing active comes through."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from quire.errors import DamagedError, TooLargeError
from quire.reading.office.charsets import declared_in_markup, decode
from quire.reading.office.html_captions import HtmlCaptions
from quire.reading.office.html_code import CodeLanguage, fenced
from quire.reading.office.html_inserts import MathInsert, SelectInsert, input_text
from quire.reading.office.html_layout import layout_tables
from quire.reading.office.html_lists import LISTS, HtmlList
from quire.reading.office.html_tables import HtmlTable
from quire.reading.office.html_tags import (
    BLOCKS,
    LOOKS,
    VOID,
    HtmlSkip,
    attributes,
    is_beacon,
    is_hidden,
    tokens,
)
from quire.reading.office.inline_markdown import (
    BOLD,
    RAW,
    Run,
    block,
    placeholder,
    render,
)
from quire.reading.office.math_markup import display_formula, inline_formula
from quire.reading.office.office_pages import Lists, MarkdownBlock, OfficePage, Pager
from quire.reading.office.office_source import Opened
from quire.reading.office.picture_sheet import HeldPictures
from quire.reading.office.zip_container import OfficeLimits

READER = "html"
_MOST_BYTES = 64 << 20
_SKIPPED = frozenset(
    {*("script", "style", "template", "noscript", "svg", "iframe", "object", "datalist", "canvas")}
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_ROW_GROUPS = ("thead", "tbody", "tfoot")
_SPACE = re.compile(r"\s+")
_MAX_LIST_DEPTH = 20
_MAX_TABLE_DEPTH = 6
_MAX_LAYOUT_DEPTH = 50

Resolve = Callable[[str], str]


def open_hypertext(path: str, limits: OfficeLimits) -> Opened:
    """Raises DamagedError, TooLargeError."""
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise TooLargeError(f"The HTML page is larger than {_MOST_BYTES >> 20} MB. Send it in parts.")
        data = Path(path).read_bytes()
    except OSError as error:
        raise DamagedError("The document's file can't be read.") from error
    held = HeldPictures()
    found = convert(decode(data, declared_in_markup(data[:4096])), held=held)
    return Opened(READER, found.pages, found.title, fetch=held.get)


@dataclass(frozen=True, slots=True)
class Hypertext:
    pages: list[OfficePage]
    title: str | None


def convert(text: str, *, resolve: Resolve | None = None, held: HeldPictures | None = None) -> Hypertext:
    """`resolve` turns a picture's address into its place, "" for none; pictures in the page go into `held`."""
    writer = _Writer(resolve or (lambda _src: ""), held or HeldPictures(), layout_tables(text))
    for name, inner, is_end in tokens(text):
        if not name:
            writer.data(inner)
        elif is_end:
            writer.end(name)
        else:
            writer.start(name, inner)
    return Hypertext(writer.finish(), writer.title)


class _Writer:
    def __init__(self, resolve: Resolve, held: HeldPictures, layout: set[int]) -> None:
        self.title: str | None = None
        self._resolve = resolve
        self._held = held
        self._pager = Pager()
        self._runs: list[Run] = []
        self._pictures: list[str] = []
        self._looks: list[tuple[str, int]] = []
        self._look = 0
        self._hrefs: list[str] = []
        self._heading = 0
        self._quotes = 0
        self._lists: list[HtmlList] = []
        self._items = Lists()
        self._marker = ""
        self._label = ""
        self._begins = False
        self._tables: list[HtmlTable] = []
        self._layout = layout
        self._table_count = 0
        """Of all that have begun, those too that are not shown: by it a table is known for one of the layout."""
        self._pre = 0
        self._pre_at = 0
        self._skip = HtmlSkip()
        self._too_deep = 0
        self._in_title = False
        self._insert: MathInsert | SelectInsert | None = None
        self._language = CodeLanguage()
        self._captions = HtmlCaptions()

    def finish(self) -> list[OfficePage]:
        self._end_insert()
        self._flush()
        self._too_deep = 0
        while self._tables:
            self._end_table()
        return self._pager.finish()

    # ---- events --------------------------------------------------------------------------------------------

    def start(self, tag: str, inner: str) -> None:
        """A tag begins; `inner` is what it has beside its name."""
        self._table_count += tag == "table"
        if self._skip.starts(tag, inner):
            return
        if self._insert is not None:
            self._insert.start(tag, inner)
            return
        given = attributes(inner) if inner else {}
        if tag in _SKIPPED or (tag not in VOID and is_hidden(given)):
            self._skip.begin(tag, inner)
        elif tag == "title":
            self._in_title = self.title is None
        elif not self._start_inline(tag, given):
            self._start_block(tag, given)

    def _start_inline(self, tag: str, given: dict[str, str]) -> bool:
        """Whether the tag is one of those inside of a text."""
        if tag in LOOKS:
            if self._pre:
                self._language.note_code(given)
            self._looks.append((tag, self._look))
            self._look |= LOOKS[tag]
        elif tag == "a":
            self._hrefs.append(given.get("href") or "")
        elif tag == "q":
            self.data("“")
        elif tag == "br":
            self._runs.append(Run("\n", RAW))
        elif tag in ("img", "image"):
            self._image(given)
        elif tag in ("math", "select"):
            self._insert = MathInsert(given) if tag == "math" else SelectInsert()
        elif tag == "hr":
            self._flush()
            if not self._tables:
                self._pager.add(MarkdownBlock("* * *"))
        elif tag == "input":
            if not is_hidden(given):
                self._runs.append(Run(f" {input_text(given)} "))
        else:
            return False
        return True

    def end(self, tag: str) -> None:
        if self._skip.ends(tag):
            return
        if self._insert is not None:
            if self._insert.end(tag):
                self._end_insert()
            return
        if tag == "title":
            self._in_title = False
        elif tag in LOOKS:
            self._end_look(tag)
        elif tag == "a":
            if self._hrefs:
                self._hrefs.pop()
        elif tag == "q":
            self.data("”")
        elif tag in _ENDS:
            _ENDS[tag](self)
            self._captions.end(tag)
        elif tag in _HEADINGS or tag in BLOCKS:
            self._flush()
            self._heading = 0
            self._captions.end(tag)
            if tag == "blockquote":
                self._quotes = max(0, self._quotes - 1)

    def data(self, data: str) -> None:
        if self._in_title:
            self.title = (" ".join(f"{self.title or ''}{data}".split()))[:500] or None
        elif self._insert is not None:
            self._insert.data(data)
        elif not self._skip.is_on:
            text = data if self._pre else _SPACE.sub(" ", data)
            look = 0 if self._pre else self._look & ~BOLD if self._heading else self._look
            self._runs.append(Run(text, look, self._hrefs[-1] if self._hrefs and not self._pre else ""))

    # ---- blocks --------------------------------------------------------------------------------------------

    def _start_block(self, tag: str, given: dict[str, str]) -> None:
        if tag in _HEADINGS:
            self._flush()
            self._heading = _HEADINGS[tag]
        elif tag in LISTS:
            self._start_list(tag, given)
        elif tag == "li":
            self._start_item(given.get("value") or "")
        elif tag == "table":
            self._start_table()
        elif tag == "tr":
            self._end_row()
            if self._tables:
                self._tables[-1].row = []
        elif tag in _ROW_GROUPS:
            self._end_group()
        elif tag in ("td", "th"):
            self._start_cell(given)
        elif tag == "pre":
            self._flush()
            self._pre += 1
            self._pre_at = len(self._runs)
            self._language.note_code(given)
        elif tag in BLOCKS:
            self._start_paragraph(tag)
            self._language.note_block(given)

    def _start_paragraph(self, tag: str) -> None:
        self._flush()
        self._captions.start(tag, self._pager.added)
        if tag == "blockquote":
            self._quotes += 1
        if tag == "dd" and not (self._tables and self._tables[-1].in_cell):
            self._marker = self._marker or "-"
            self._label = ""
        if tag in ("dt", "dd") and self._lists:
            self._lists[-1].in_item = tag == "dd"
            if tag == "dt" and len(self._lists) == 1:
                self._items.end()

    def _start_list(self, tag: str, given: dict[str, str]) -> None:
        self._flush()
        self._begins = not self._lists
        self._lists.append(HtmlList.of(tag, given))

    def _start_item(self, value: str) -> None:
        self._flush()
        in_cell = bool(self._tables) and self._tables[-1].in_cell
        if not self._lists:
            if in_cell:
                self._runs.append(Run(" • ", RAW))
                return
            self._lists.append(HtmlList("ul"))
        held = self._lists[-1]
        marker, label = held.next_item(value)
        if in_cell:
            self._runs.append(Run(f" {label or (marker if held.is_numbered else '•')} ", RAW))
            return
        self._marker, self._label = marker, label
        held.in_item = True

    def _end_item(self) -> None:
        self._flush()
        self._marker = ""
        if self._lists:
            self._lists[-1].in_item = False

    def _end_list(self) -> None:
        self._flush()
        self._lists, self._marker = self._lists[:-1], ""
        if not self._lists:
            self._items.end()

    def _end_look(self, tag: str) -> None:
        """An end without a beginning is nothing; one that ends several ends them all."""
        for place in range(len(self._looks) - 1, max(-1, len(self._looks) - 50), -1):
            if self._looks[place][0] == tag:
                self._look = self._looks[place][1]
                del self._looks[place:]
                return

    def _flush(self) -> None:
        """What has been gathered becomes a block."""
        runs, pictures = self._runs, tuple(self._pictures)
        if not runs:
            return
        self._runs = []
        if any(table.in_cell for table in self._tables):
            self._runs = [*runs, Run(" ", RAW)]  # blocks in a cell stay in its line
            return
        self._pictures = []
        text = render(runs)
        if not text:
            return
        self._language.end_text()
        if self._heading:
            level = self._heading
            self._pager.add(
                MarkdownBlock(f"{'#' * level} {text}".replace("\n", " "), level, pictures=pictures)
            )
            return
        if self._marker:
            depth = min(max(len(self._lists) - 1, 0), _MAX_LIST_DEPTH)
            words = f"{self._label} {block(text)}" if self._label else block(text)
            line = self._quoted(self._items.item(depth, self._marker, words))
            self._pager.add(MarkdownBlock(line, tight=True, pictures=pictures, begins=self._begins))
            self._marker, self._label, self._begins = "", "", False
            return
        text, caption = block(text), self._captions.of
        if depth := sum(one.in_item for one in self._lists[:_MAX_LIST_DEPTH]):
            indent = " " * self._items.column(depth)
            text = indent + text.replace("\n", f"\n{indent}")
        self._pager.add(MarkdownBlock(self._quoted(text), pictures=pictures, caption=caption))

    def _quoted(self, text: str) -> str:
        if not self._quotes:
            return text
        mark = "> " * min(self._quotes, 5)
        return mark + text.replace("\n", f"\n{mark}")

    def _end_pre(self) -> None:
        self._pre = max(0, self._pre - 1)
        if self._pre:
            return
        text = "".join(run.text for run in self._runs[self._pre_at :]).strip("\n")
        language = self._language.taken()
        if self._tables and self._tables[-1].in_cell:
            self._tables[-1].code = (language, text)
            return
        self._runs = []
        if text.strip():
            self._pager.add(MarkdownBlock(fenced(language, text)))

    # ---- tables --------------------------------------------------------------------------------------------

    def _start_table(self) -> None:
        """Tables far inside others are only their text. One that is there for its look has no cells."""
        self._flush()
        is_layout = self._table_count in self._layout
        count = sum(one.is_layout is is_layout for one in self._tables)
        if not self._too_deep and count < (_MAX_LAYOUT_DEPTH if is_layout else _MAX_TABLE_DEPTH):
            self._tables.append(HtmlTable(is_layout=is_layout))
        else:
            self._too_deep += 1

    def _start_cell(self, given: dict[str, str]) -> None:
        if not self._tables or self._tables[-1].is_layout:
            self._flush()
            return
        self._end_cell()
        self._flush()  # words of a table outside of its cells come before it
        self._captions.end("table")
        self._tables[-1].begin_cell(given)

    def _end_cell(self) -> None:
        if self._tables and self._tables[-1].is_layout:
            self._flush()
        if not self._tables or not self._tables[-1].in_cell:
            return
        table = self._tables[-1]
        if table.code is not None:
            table.keep_code("".join(run.text for run in self._runs))
        text = render(self._runs).replace("\n", " ")
        self._runs = []
        table.pictures += self._pictures
        self._pictures = []
        table.in_cell = False
        table.add_cell(text)

    def _end_row(self) -> None:
        self._end_cell()
        if self._tables:
            self._tables[-1].end_row()

    def _end_group(self) -> None:
        self._end_row()
        if self._tables:
            self._tables[-1].end_group()

    def _end_table(self) -> None:
        """A table in a cell of another one becomes part of that cell's text; one of one column is layout."""
        if self._too_deep:
            self._too_deep -= 1
            return
        if not self._tables:
            return
        self._end_row()
        table = self._tables.pop()
        if table.is_layout:
            return
        if self._tables and self._tables[-1].in_cell:
            self._pictures += table.pictures
            self._runs.append(Run(f" {table.line} ", RAW))
        else:
            table.add_to(self._pager)

    # ---- formulas, forms, code ---------------------------------------------------------------------------

    def _end_insert(self) -> None:
        insert, self._insert = self._insert, None
        if isinstance(insert, SelectInsert):
            self._runs.append(Run(f" {insert.text} "))
        elif insert is not None and insert.latex:
            if insert.is_block and not (self._tables or self._lists or self._quotes or self._heading):
                self._flush()
                self._pager.add(MarkdownBlock(display_formula(insert.latex)))
            else:
                self._runs.append(Run(inline_formula(insert.latex), RAW))

    # ---- pictures ------------------------------------------------------------------------------------------

    def _image(self, given: dict[str, str]) -> None:
        source, alt = (given.get("src") or given.get("href") or "").strip(), given.get("alt") or ""
        if not source and not alt:
            return
        is_data = source[:5].lower() == "data:"
        ref = self._held.hold(source) if is_data else self._resolve(source)
        if not ref and not alt and not is_data and is_beacon(given):
            return
        self._pictures.append(ref)
        self._runs.append(Run(placeholder(alt), RAW))


_ENDS: dict[str, Callable[[_Writer], None]] = {
    "td": _Writer._end_cell,
    "th": _Writer._end_cell,
    "tr": _Writer._end_row,
    "table": _Writer._end_table,
    **dict.fromkeys(_ROW_GROUPS, _Writer._end_group),
    **dict.fromkeys(LISTS, _Writer._end_list),
    "li": _Writer._end_item,
    "pre": _Writer._end_pre,
}
