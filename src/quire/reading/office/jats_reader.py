"""Articles in JATS, the XML of scientific publishers: front matter, sections, tables, back matter, references.

Data about the journal, identifiers, dates and permissions are left out; pictures are placeholders without a picture.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element

from quire.errors import DamagedError, TooLargeError
from quire.reading.office.inline_markdown import block, placeholder
from quire.reading.office.jats_text import (
    child,
    children,
    chosen_form,
    found,
    latex_text,
    line_of,
    local_name,
    table_rows,
)
from quire.reading.office.math_markup import display_formula
from quire.reading.office.mathml_markup import mathml_latex
from quire.reading.office.office_pages import CaptionOf, Lists, MarkdownBlock, OfficePage, Pager, kept_spans
from quire.reading.office.office_source import Opened
from quire.reading.office.ooxml_package import MAX_DEPTH, parse
from quire.reading.office.zip_container import OfficeLimits

READER = "jats"
_SECTIONS = frozenset(
    {"sec", "app", "app-group", "boxed-text", "ack", "glossary", "notes", "bio", "fn-group"}
)
_TITLES = {"ack": "Acknowledgements"}
"""Titles of sections that have none of their own."""
_FLOATS = frozenset({"table-wrap", "fig"})
_GROUPS = frozenset(
    {"table-wrap-group", "fig-group", "disp-quote", "disp-formula-group", "floats-group", "statement"}
)
_BLOCKS = (
    _SECTIONS | _FLOATS | _GROUPS | {"p", "list", "def-list", "disp-formula", "preformat", "code", "ref-list"}
)
_ITEMS = ("list-item", "def-item")
_LEFT_OUT = frozenset({"label", "title", "object-id", "permissions", "sec-meta"})
_BACKTICKS = re.compile(r"`+")
_NUMBER = re.compile(r"\W*(\d{1,6})\W*")
_TAG = re.compile(r"[\w.-]{1,20}")
"""What a label may have to be the tag of a formula: letters, digits, points and hyphens."""


def open_jats(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    file = Path(path)
    if file.stat().st_size > limits.max_archive_bytes:
        raise TooLargeError("The article is larger than this service reads. Send it in parts.")
    root = parse(file.read_bytes(), "text")
    if local_name(root) != "article":
        raise DamagedError("The XML document is no JATS article.")
    article = _Article()
    return Opened(READER, article.pages(root), article.title or None, article.authors or None)


class _Article:
    def __init__(self) -> None:
        self.title = ""
        self.authors = ""
        self._pager = Pager()

    def pages(self, root: Element) -> list[OfficePage]:
        self._article(root, 1)
        return self._pager.finish()

    def _article(self, root: Element, level: int) -> None:
        """An article, or one inside it: a translation, a reviewer's report, a response."""
        front = child(root, "front")
        self._front(child(front, "article-meta") if front is not None else child(root, "front-stub"), level)
        for part in children(root, "body", "back", "floats-group"):
            self._contents(part, level, 0)
        for inner in children(root, "sub-article", "response") if level < MAX_DEPTH else ():
            self._article(inner, level + 1)

    def _front(self, meta: Element | None, level: int) -> None:
        if meta is None:
            return
        group = child(meta, "title-group")
        title = line_of(child(group, "article-title"))
        self._heading(title, level)
        for one in children(group, "subtitle", "trans-title-group"):
            self._add(block(line_of(one)))
        names = [
            _person(one) for one in found(meta, "contrib") if one.get("contrib-type", "author") == "author"
        ]
        authors = ", ".join(filter(None, names))
        if level == 1:
            self.title, self.authors = title, authors
        self._add(block(authors))
        for one in found(meta, "aff"):
            self._add(block(line_of(one)))
        for notes in children(meta, "author-notes"):
            self._contents(notes, level, 0)
        for abstract in children(meta, "abstract", "trans-abstract"):
            self._heading(line_of(child(abstract, "title")) or "Abstract", level + 1)
            self._contents(abstract, level + 1, 0)
        for words in children(meta, "kwd-group"):
            self._keywords(words)

    def _keywords(self, group: Element) -> None:
        words = filter(None, (line_of(one) for one in children(group, "kwd", "compound-kwd")))
        title = line_of(child(group, "title")).rstrip(":") or "Keywords"
        shown = ", ".join(words)
        self._add(block(f"{title}: {shown}") if shown else "")

    # ---- contents of sections ------------------------------------------------------------------------------

    def _section(self, section: Element, level: int, depth: int) -> None:
        title = line_of(child(section, "title")) or _TITLES.get(local_name(section), "")
        label = line_of(child(section, "label"))
        self._heading(" ".join(filter(None, (label, title))), level)
        self._contents(section, level if title or label else level - 1, depth)

    def _contents(self, holder: Element, level: int, depth: int) -> None:
        for one in holder:
            self._block(one, local_name(one), level, depth)

    def _block(self, one: Element, name: str, level: int, depth: int) -> None:
        if depth >= MAX_DEPTH:
            self._add(block(line_of(one)))
        elif name in _SECTIONS:
            self._section(one, level + 1, depth + 1)
        elif name == "p":
            self._paragraph(one, level, depth)
        elif name in ("list", "def-list"):
            self._list(one, Lists(), 0)
        elif name in _FLOATS:
            self._float(one)
        elif name in _GROUPS:
            self._group(one, level, depth)
        elif name == "ref-list":
            self._references(one, level + 1, depth)
        else:
            self._rarity(one, name, level, depth)

    def _rarity(self, one: Element, name: str, level: int, depth: int) -> None:
        if name == "disp-formula":
            self._formula(one)
        elif name == "alternatives":
            form = chosen_form(one)
            if form is not None:
                self._block(form, local_name(form), level, depth + 1)
        elif name in ("preformat", "code"):
            self._code(one)
        elif name == "graphic":
            self._pager.add(MarkdownBlock(placeholder(), pictures=("",)))
        elif name and name not in _LEFT_OUT:
            self._add(block(line_of(one)))

    def _group(self, group: Element, level: int, depth: int) -> None:
        """Blocks without a heading of their own; what names them is a line before them."""
        named = (line_of(child(group, name)) for name in ("label", "title", "caption"))
        self._add(block(" ".join(filter(None, named))))
        for one in group:
            if local_name(one) != "caption":
                self._block(one, local_name(one), level, depth + 1)

    def _paragraph(self, paragraph: Element, level: int, depth: int) -> None:
        """A paragraph may hold lists, tables and figures: they follow the words before them."""
        inline = Element("p")
        inline.text = paragraph.text
        for one in paragraph:
            name = local_name(one)
            if name in _BLOCKS:
                self._add(block(line_of(inline)))
                self._block(one, name, level, depth + 1)
                inline = Element("p")
                inline.text = one.tail
            else:
                inline.append(one)
        self._add(block(line_of(inline)))

    def _list(self, element: Element, lists: Lists, depth: int) -> None:
        names = (line_of(one) for one in element if local_name(one) not in _ITEMS)
        self._add(block(" ".join(filter(None, names))))
        is_numbered = element.get("list-type") in ("order", "arabic")
        for count, item in enumerate(children(element, *_ITEMS), 1):
            inner = list(children(item, "list", "def-list"))
            label = line_of(child(item, "label"))
            words = [line_of(one) for one in item if one not in inner and local_name(one) != "label"]
            number = _NUMBER.fullmatch(label)
            if is_numbered or number:
                marker, label = f"{int(number[1]) if number else count}.", "" if number else label
            else:
                marker = "-"
            text = " ".join(filter(None, (label if label not in ("•", "-", "–") else "", *words)))
            self._add(lists.item(depth, marker, block(text or " ")), tight=True)
            for one in inner if depth < MAX_DEPTH else ():
                self._list(one, lists, depth + 1)

    def _float(self, element: Element) -> None:
        label, caption = line_of(child(element, "label")), line_of(child(element, "caption"))
        named = block(" ".join(filter(None, (label, caption))))
        self._pager.add(MarkdownBlock(named, caption=CaptionOf.NEXT))
        tables = list(found(element, "table"))
        for table in tables:
            rows, spans = table_rows(table)
            kept, merged = kept_spans(spans, rows)
            self._pager.add_table(kept, spans=merged)
        if (not tables and next(found(element, "graphic"), None) is not None) or local_name(element) == "fig":
            self._pager.add(MarkdownBlock(placeholder(), pictures=("",)))
        shown = ("label", "caption", "graphic", "table", "alternatives", *_LEFT_OUT)
        for one in element:
            if local_name(one) not in shown:
                self._add(block(line_of(one)))

    def _formula(self, element: Element) -> None:
        label = line_of(child(element, "label"))
        tex = next(found(element, "tex-math"), None)
        math = next(found(element, "math"), None)
        latex = latex_text(tex) if tex is not None else mathml_latex(math) if math is not None else ""
        number = label.strip("() ")
        if latex and (not label or _TAG.fullmatch(number)):
            self._add(display_formula(f"{latex} \\tag{{{number}}}" if number else latex))
        else:
            self._add(display_formula(latex) if latex else "")
            self._add(
                block(" ".join(filter(None, ("" if latex else line_of(_without_label(element)), label))))
            )

    def _code(self, element: Element) -> None:
        text = "".join(element.itertext()).strip("\n")
        fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
        self._add(f"{fence}\n{text}\n{fence}" if text.strip() else "")

    def _references(self, references: Element, level: int, depth: int) -> None:
        self._heading(line_of(child(references, "title")) or "References", level)
        lists = Lists()
        count = 0
        for one in references:
            name = local_name(one)
            if name == "ref":
                count += 1
                self._add(_reference(one, count, lists), tight=True)
            elif name == "ref-list" and depth < MAX_DEPTH:
                self._references(one, level + 1, depth + 1)
            elif name and name not in _LEFT_OUT:
                self._block(one, name, level, depth + 1)

    def _heading(self, title: str, level: int) -> None:
        self._add(f"{'#' * min(level, 6)} {title}" if title else "", level)

    def _add(self, text: str, heading: int = 0, *, tight: bool = False) -> None:
        self._pager.add(MarkdownBlock(text, heading, tight))


def _reference(reference: Element, count: int, lists: Lists) -> str:
    """A reference as an item: all that is cited, with its number or, where that is none, its label."""
    label = line_of(child(reference, "label"))
    cited = filter(None, (line_of(one) for one in _wrapped(reference) if local_name(one) != "label"))
    number = _NUMBER.fullmatch(label) if label else None
    marker = f"{int(number[1]) if number else count}." if number or not label else "-"
    words = " ".join([*([label] if label and not number else []), *cited])
    return lists.item(0, marker, block(words) or " ")


def _without_label(element: Element) -> Element:
    """The element with the words after its label, but not the label itself."""
    copy = Element(element.tag, element.attrib)
    copy.text = element.text
    for one in element:
        if local_name(one) != "label":
            copy.append(one)
        elif len(copy):
            copy.append(_plain_tail(one))
        else:
            copy.text = f"{copy.text or ''} {one.tail or ''}"
    return copy


def _plain_tail(element: Element) -> Element:
    tail = Element("styled-content")
    tail.text = element.tail
    return tail


def _wrapped(element: Element) -> list[Element]:
    """The children of an element, each in an element of its own, so that its form is chosen and its tail left out."""
    holders: list[Element] = []
    for one in element:
        if local_name(one):
            holder = Element(local_name(one))
            copy = Element(one.tag, one.attrib)
            copy.text = one.text
            copy.extend(one)
            holder.append(copy)
            holders.append(holder)
    return holders


def _person(contributor: Element) -> str:
    name = child(contributor, "name")
    if name is None:
        return line_of(child(contributor, "collab")) or line_of(child(contributor, "string-name"))
    return " ".join(filter(None, (line_of(child(name, "given-names")), line_of(child(name, "surname")))))
