"""Untrusted text as Markdown inside a line: bold, italic, links, pictures, and nothing else active."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple
from urllib.parse import urlsplit

from quire.reading.raised_figures import raised_text

BOLD, ITALIC, STRIKE, CODE, RAW, RAISED = 1, 2, 4, 8, 16, 32
"""RAW marks a run that is Markdown of our own: a placeholder, the mark of a footnote."""
HIDDEN, MONO = 256, 512
"""HIDDEN is text that its author has hidden, which no run has, for readers leave it out. MONO is type of one width."""

_SPECIAL = re.compile(
    r"[*`]|(?<![^\W_])_|_(?![^\W_])|\\(?=[!-/:-@\[-`{-~])|<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)"
    r"|\[(?=[^\]\n]{0,1000}\][(\[])|\[(?=\^|Picture\b|Attachment\b)|~(?=~)"
)
_SPACE = re.compile(r"[ \t\r\f\v\u00a0]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
_MAYBE = re.compile(f"[*`_\\\\<&\\[~{_CONTROL.pattern[1:]}")
"""Most texts have none of these, and need no closer look."""
_BLOCK_START = re.compile(r"^(\s*)(#{1,6}(?=\s|$)|[-+](?=\s|$)|>|={3,}\s*$|-{3,}\s*$|~{3,}|\|)", re.MULTILINE)
_NUMBER_START = re.compile(r"^(\s*\d{1,9})([.)])(?=\s|$)", re.MULTILINE)
_SCHEMES = frozenset({"http", "https", "mailto", "tel", "ftp"})
_MARKS = ((STRIKE, "~~"), (ITALIC, "*"), (BOLD, "**"))
_LONGEST_ALT = 500
_LONGEST_URL = 2_000
_AROUND_BREAK = re.compile(r" ?\n ?")
_FILE_NAME = re.compile(r"\S+\.(?:png|jpe?g|gif|bmp|tiff?|webp|svg|emf|wmf)", re.IGNORECASE)
_EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


class Run(NamedTuple):
    """Text of one look. `href` makes it a link."""

    text: str
    look: int = 0
    href: str = ""


def is_plain(text: str) -> bool:
    """Whether nothing in it could be markup, as in most texts."""
    return _MAYBE.search(text) is None


def plain(text: str) -> str:
    """Text in which nothing is markup."""
    if is_plain(text):
        return text
    return _SPECIAL.sub(_escaped, _CONTROL.sub("", text))


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character == "<":
        return "&lt;"
    return "&amp;" if character == "&" else f"\\{character}"


def render(runs: Iterable[Run]) -> str:
    """The runs as one line (or several, where one of them has a line break)."""
    runs = list(runs)
    if any(run.look & MONO for run in runs):  # it is not shown, and parts no marks
        runs = [run._replace(look=run.look & ~MONO) for run in runs]
    if any(run.look & RAISED for run in runs):
        runs = _lowered(runs)
    if len(runs) == 1 and not runs[0].look and not runs[0].href:
        return _tidy(plain(runs[0].text))
    parts: list[str] = []
    for href, linked in groupby(runs, key=lambda run: run.href):
        inner = "".join(
            _dressed("".join(run.text for run in alike), look)
            for look, alike in groupby(linked, key=lambda run: run.look)
        )
        address = safe_address(href) if href else ""
        if address and inner.strip():
            before, text, after = _around(inner)
            parts.append(f"{before}[{text}]({address}){after}")
        else:
            parts.append(inner)
    return _tidy("".join(parts))


def _lowered(runs: Sequence[Run]) -> list[Run]:
    """The runs with raised ones written as raised figures where there are such; links are set apart as they are."""
    groups = [
        (is_raised, list(alike))
        for is_raised, alike in groupby(runs, key=lambda run: bool(run.look & RAISED))
    ]
    found: list[Run] = []
    for place, (is_raised, alike) in enumerate(groups):
        if not is_raised:
            found += alike
            continue
        look = alike[0].look & ~RAISED
        if any(run.href and safe_address(run.href) for run in alike):
            found += [run._replace(look=run.look & ~RAISED) for run in alike]
            continue
        before = next((run.text for run in reversed(found) if run.text), "")
        after = groups[place + 1][1][0].text if place + 1 < len(groups) else ""
        found.append(Run(raised_text("".join(run.text for run in alike), before, after), look))
    return found


def _tidy(text: str) -> str:
    if "\n" not in text:
        return " ".join(text.split())
    return _AROUND_BREAK.sub("\n", _SPACE.sub(" ", text)).strip()


def _dressed(text: str, look: int) -> str:
    if look & RAW:
        return text
    if look & CODE:
        return _code(text)
    text = plain(text)
    if not look or not text.strip():
        return text
    before, inner, after = _around(text)
    for bit, mark in _MARKS:
        if look & bit:
            inner = f"{mark}{inner}{mark}"
    return f"{before}{inner}{after}"


def _around(text: str) -> tuple[str, str, str]:
    """Space before, text, space after: marks must touch their words."""
    found = _EDGES.fullmatch(text)
    return (found[1], found[2], found[3]) if found else ("", text, "")


def _code(text: str) -> str:
    text = " ".join(_CONTROL.sub("", text).split())
    if not text:
        return ""
    if "`" in text:
        fence = "`" * (max(map(len, re.findall(r"`+", text))) + 1)
        return f"{fence} {text} {fence}"
    return f"`{text}`"


def block(text: str) -> str:
    """A paragraph's text, none of whose lines begins a heading, a list, a quotation, a table or a rule."""
    return _NUMBER_START.sub(r"\1\\\2", _BLOCK_START.sub(r"\1\\\2", text))


def safe_address(href: str) -> str:
    """A link's address as Markdown may have it; "" for what a click should not start."""
    address = "".join(href.split())[:_LONGEST_URL]
    address = _CONTROL.sub("", address)
    try:
        scheme = urlsplit(address).scheme.lower()
    except ValueError:
        return ""
    if not address or (scheme and scheme not in _SCHEMES) or (not scheme and ":" in address.split("/")[0]):
        return ""
    return re.sub(r"[<>()\\`*\[\]\"|]", lambda found: f"%{ord(found[0]):02X}", address)


def placeholder(alt: str = "") -> str:
    """The placeholder of a picture in the text."""
    words = " ".join(_CONTROL.sub("", alt).replace("[", "(").replace("]", ")").split())[:_LONGEST_ALT]
    return f"[Picture: {plain(words)}]" if words and not _FILE_NAME.fullmatch(words) else "[Picture]"
