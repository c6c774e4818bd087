"""Footnotes, endnotes and comments of a Word document (DOCX), read before the text that refers to them."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import Element

from quire.reading.office.flow_text import NoteKind, comment_text
from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_marks import ReviewKind, ReviewMark, ReviewMarks

NOTE_KINDS = {"footnote": NoteKind.FOOTNOTE, "endnote": NoteKind.ENDNOTE, "comment": NoteKind.COMMENT}
_SEPARATORS = ("separator", "continuationSeparator")


class DocxNotes:
    """`text_of` gives all text of a note in one line; `marks` gets the comments, and the changes in notes."""

    def __init__(self, package: Package, marks: ReviewMarks, text_of: Callable[[Element], str]) -> None:
        self._package = package
        self._marks = marks
        self._text_of = text_of
        self._texts: dict[str, str] = {}
        self._held: dict[str, tuple[ReviewMark, ...]] = {}

    def read(self, kind: str, root: Element | None) -> None:
        """Reads the part that has all notes of a kind."""
        package = self._package
        for one in package.children(root, kind):
            number = package.attribute(one, "id")
            if not number.isdigit() or package.attribute(one, "type") in _SEPARATORS:
                continue
            text = self._text_of(one)
            if kind == "comment" and text:
                author, words = package.attribute(one, "author"), " ".join(self._paragraphs(one))
                self._marks.add(ReviewKind.COMMENT, words, author, package.attribute(one, "date"))
                text = comment_text(author, text)
            self._texts[f"{kind}{number}"] = text
            self._held[f"{kind}{number}"] = self._marks.taken()

    def referred(self, kind: str, number: str) -> tuple[str, str]:
        """The mark in the text and the note itself; "" for a note that has no text."""
        text = self._texts.get(f"{kind}{number}")
        if not text:
            return "", ""
        self._marks.put_back(self._held.pop(f"{kind}{number}", ()))
        mark = f"[^{NOTE_KINDS[kind]}{number}]"
        return mark, f"{mark}: {text}"

    def _paragraphs(self, note: Element) -> list[str]:
        return [self._package.texts(one) for one in self._package.children(note, "p")]
