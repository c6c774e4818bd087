"""Tracked changes of an OpenDocument text: the text is as if all were accepted, the changes are beside it."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_marks import LONGEST_MARK, ReviewKind, ReviewMark, ReviewMarks

_KINDS = {"insertion": ReviewKind.INSERTION, "deletion": ReviewKind.DELETION}
_MOST_OPEN = 50
NAMES = frozenset({"tracked-changes", "change", "change-start", "change-end"})


class OdfChanges:
    """The file has deleted text in a list before the document, and marks where what was inserted begins and ends."""

    def __init__(self, package: Package, marks: ReviewMarks) -> None:
        self._package = package
        self._marks = marks
        self._known: dict[str, ReviewMark] = {}
        self._open: dict[str, list[str]] = {}

    def take(self, name: str, element: Element) -> None:
        """An element with one of `NAMES`."""
        if name == "tracked-changes":
            for region in self._package.children(element, "changed-region"):
                self._define(region)
            return
        key = self._package.attribute(element, "change-id")
        known = self._known.get(key)
        if known is None:
            return
        if name == "change" and known.kind is ReviewKind.DELETION:
            self._add(known, known.text)
        elif name == "change-start" and len(self._open) < _MOST_OPEN:
            self._open.setdefault(key, [])
        elif name == "change-end" and key in self._open:
            self._add(known, "".join(self._open.pop(key)))

    def text(self, text: str) -> None:
        """Text of the document, which may be inside of insertions."""
        for pieces in self._open.values():
            if len(pieces) < LONGEST_MARK:
                pieces.append(text[:LONGEST_MARK])

    def _define(self, region: Element) -> None:
        package = self._package
        for one in region:
            kind = _KINDS.get(package.local[one.tag])
            if kind is None:
                continue
            about = package.child(one, "change-info")
            author, date = (self._words(package.child(about, name)) for name in ("creator", "date"))
            parts = (" ".join(part.itertext()) for part in one if part is not about)
            self._known[package.attribute(region, "id")] = ReviewMark(kind, " ".join(parts), author, date)

    def _words(self, element: Element | None) -> str:
        return (element.text or "").strip() if element is not None else ""

    def _add(self, known: ReviewMark, text: str) -> None:
        self._marks.add(known.kind, text, known.author, known.date)
        self._marks.is_open = False
