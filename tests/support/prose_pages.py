"""Pages of drawn prose for the reading tests: lines and columns that can be told from one another."""

from __future__ import annotations

from typing import Any

from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import write

WORDS = str.split(
    "the members of the society met in the hall and heard the long report of the secretary who had been to the "
    "harbour and had counted the boats that were left there after the storm of the autumn "
)
LEADING = 12.0


def lines_of(tag: str, count: int, width: int) -> list[str]:
    """Lines of prose, of about `width` letters each; the first begins with the tag, the last ends a sentence."""
    found, line, at = [], tag, 0
    while len(found) < count:
        word = WORDS[at % len(WORDS)]
        at += 1
        if len(line) + len(word) >= width:
            found.append(line)
            line = word
        else:
            line = f"{line} {word}"
    found[-1] = f"{found[-1]}."
    return found


def column(page: Any, x: float, y: float, tag: str, count: int, width: int) -> float:
    """Writes the lines below each other and answers where the next one would be."""
    for line in lines_of(tag, count, width):
        write(page, x, y, line, size=9)
        y += LEADING
    return y


def page_of(document: Any) -> Any:
    return document.new_page(width=612, height=792)


def markdown(path: str) -> str:
    reading = read_pages(path, None, [1])[0]
    assert reading.words_missing == 0
    return reading.markdown


def places(text: str, *tags: str) -> list[int]:
    found = [text.find(tag) for tag in tags]
    assert -1 not in found, dict(zip(tags, found, strict=True))
    return found
