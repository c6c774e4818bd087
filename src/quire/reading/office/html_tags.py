"""HTML taken apart into tags and text, in one pass and in time that grows with the length alone.

The standard library's parser looks at the rest of the page again and again where constructs are never closed; a page
of half a megabyte keeps it busy for minutes. Here whatever is not closed lasts to the end, as in a browser.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from quire.reading.office.inline_markdown import BOLD, CODE, ITALIC, RAISED, STRIKE

RAW_TEXT = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
"""Elements that have text and no tags inside."""

BLOCKS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "caption",
            "center",
            "dd",
            "details",
            "dialog",
            "div",
            "dt",
        ),
        *(
            "fieldset",
            "figcaption",
            "figure",
            "footer",
            "form",
            "header",
            "hgroup",
            "html",
            "legend",
            "main",
            "menu",
        ),
        *("nav", "p", "section", "summary"),
    }
)
"""Elements that begin and end a paragraph."""

VOID = frozenset(
    {
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"),
        *("param", "source", "track", "wbr"),
    }
)
"""Elements that have no end."""

LOOKS = {
    **dict.fromkeys(("b", "strong"), BOLD),
    **dict.fromkeys(("i", "em", "cite", "var", "dfn"), ITALIC),
    **dict.fromkeys(("s", "del", "strike"), STRIKE),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), CODE),
    "sup": RAISED,
}
"""How the texts of elements look."""

_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)(?P<rest>(?>[^>\"']|\"[^\"]*\"|'[^']*')*+)>"
    r"|<(?P<loose_end>/?)(?P<loose>[A-Za-z][^\s/>]*+)(?P<loose_rest>[^>]*+)(?:>|\Z)"
    r"|<[!?/][^>]*+(?:>|\Z)",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([^\s=/>\"']++)(?:\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"']*+)))?", re.DOTALL)
_MOST_ATTRIBUTES = 100
_ENDING = frozenset({"ul", "ol", "dl", "table", "pre", "h1", "h2", "h3", "h4", "h5", "h6"})
"""Beside blocks, what ends a paragraph that has no end of its own."""


class HtmlTag(NamedTuple):
    """A tag, or text where there is no name. `text` is that, or what the tag has beside its name."""

    name: str
    text: str
    is_end: bool = False


def tokens(page: str) -> Iterator[HtmlTag]:
    """Tags and texts in order; names in lower case, references in texts resolved, comments left out."""
    at, length = 0, len(page)
    while at < length:
        start = page.find("<", at)
        if start < 0:
            yield HtmlTag("", html.unescape(page[at:]))
            return
        if start > at:
            yield HtmlTag("", html.unescape(page[at:start]))
        found = _TOKEN.match(page, start)
        if found is None:
            yield HtmlTag("", "<")
            at = start + 1
            continue
        at = found.end()
        name = (found["name"] or found["loose"] or "").lower()
        if not name:
            continue
        is_end = bool(found["end"] or found["loose_end"])
        yield HtmlTag(name, found["rest"] or found["loose_rest"] or "", is_end)
        if name in RAW_TEXT and not is_end:
            close = re.compile(f"</{re.escape(name)}(?=[\\s/>])", re.IGNORECASE).search(page, at)
            stop = close.start() if close else length
            yield HtmlTag("", html.unescape(page[at:stop]) if name == "title" else page[at:stop])
            at = stop
            if not close:
                yield HtmlTag(name, "", is_end=True)


def attributes(text: str) -> dict[str, str]:
    """What a tag has beside its name; the first of the same name counts."""
    found: dict[str, str] = {}
    for one in _ATTRIBUTE.finditer(text):
        if len(found) >= _MOST_ATTRIBUTES:
            break
        value = one[2] if one[2] is not None else one[3] if one[3] is not None else one[4] or ""
        found.setdefault(one[1].lower(), html.unescape(value) if "&" in value else value)
    return found


def is_hidden(given: dict[str, str]) -> bool:
    """Whether an element says that it is not shown."""
    style = (given.get("style") or "").replace(" ", "").lower()
    return "hidden" in given or "display:none" in style or "visibility:hidden" in style


def is_beacon(given: dict[str, str]) -> bool:
    """Whether a picture is there to be fetched, not to be seen."""
    return given.get("width") in ("0", "1") or given.get("height") in ("0", "1")


class HtmlSkip:
    """An element that is left out with all that is in it."""

    def __init__(self) -> None:
        self._tag = ""
        self._depth = 0

    @property
    def is_on(self) -> bool:
        return self._depth > 0

    def begin(self, tag: str, inner: str) -> None:
        """The element begins, unless the tag is its own end."""
        if not inner.endswith("/"):
            self._tag, self._depth = tag, 1

    def starts(self, tag: str, inner: str) -> bool:
        """Whether a tag that begins is in it. The end of a paragraph may be left out: a block ends it."""
        if self._depth and self._tag == "p" and (tag in BLOCKS or tag in _ENDING):
            self._depth = 0
        if self._depth and tag == self._tag and not inner.endswith("/"):
            self._depth += 1
        return self._depth > 0

    def ends(self, tag: str) -> bool:
        """Whether a tag that ends something is in it, or its own end."""
        if not self._depth:
            return False
        self._depth -= tag == self._tag
        return True
