"""Changes that Word tracked (DOCX): what they put in and took away, with their authors and dates."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_marks import ReviewKind, ReviewMarks

CHANGES = {
    "ins": ReviewKind.INSERTION,
    "del": ReviewKind.DELETION,
    "moveFrom": ReviewKind.MOVED_FROM,
    "moveTo": ReviewKind.MOVED_TO,
}
GONE = frozenset({"del", "moveFrom"})
"""Changes whose text the document no longer has."""
_SPACES = frozenset({"tab", "br", "cr", "p", "tc"})


class WordChanges:
    """Puts the changes that it is shown into `marks`."""

    def __init__(self, package: Package, marks: ReviewMarks) -> None:
        self._package = package
        self._marks = marks

    def add(self, name: str, change: Element) -> None:
        """A change inside a paragraph, by the name of its element. One inside it is its own, and is not added here."""
        self._add(name, change, "".join(self._words(change)))

    def removes_row(self, row: Element) -> bool:
        """Whether a change removes the row of a table; adds it if one removes or makes the row."""
        properties = self._package.child(row, "trPr")
        for one in properties if properties is not None else ():
            name = self._package.local[one.tag]
            if name in ("ins", "del"):
                words = " ".join("".join(self._words(row)).split())
                if name == "del":
                    self._add(name, one, words)
                    return True
        return False

    def joins_next(self, properties: Element | None) -> bool:
        """Whether a change removes the end of the paragraph, so that the next one goes on with it."""
        package = self._package
        own = package.child(properties, "rPr")
        return own is not None and any(package.child(own, name) is not None for name in GONE)

    def _add(self, name: str, change: Element, text: str) -> None:
        author = self._package.attribute(change, "author")
        self._marks.add(CHANGES[name], text, author, self._package.attribute(change, "date"))

    def _words(self, element: Element) -> Iterator[str]:
        for one in element.iter():
            name = self._package.local[one.tag]
            if name in ("t", "delText"):
                yield one.text or ""
            elif name in _SPACES:
                yield " "
