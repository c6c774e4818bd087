"""Owns the details that a caller may include in the JSON of a document: `include=lines,words,links …`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quire.errors import RequestError


class DocumentDetail(StrEnum):
    """The first two are parts of elements; the others are read from the file of the document."""

    LINES = "lines"
    WORDS = "words"
    LINKS = "links"
    OUTLINE = "outline"
    FORM_FIELDS = "form_fields"
    EMBEDDED_FILES = "embedded_files"
    HIDDEN_TEXT = "hidden_text"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class IncludedDetails:
    lines: bool = False
    words: bool = False
    of_file: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.lines or self.words or bool(self.of_file)

    @classmethod
    def parse(cls, text: str | None, *, lines: bool = False) -> IncludedDetails:
        """The names in `text`, separated by commas. Raises RequestError for one that does not exist."""
        names = {name.strip().lower() for name in (text or "").split(",")} - {""}
        unknown = sorted(names - set(DocumentDetail))
        if unknown:
            known = ", ".join(DocumentDetail)
            raise RequestError(f"include: there is no {unknown[0][:40]!r}; there are {known}.")
        parts = {DocumentDetail.LINES, DocumentDetail.WORDS}
        return cls(
            lines or DocumentDetail.LINES in names,
            DocumentDetail.WORDS in names,
            tuple(sorted(names - parts)),
        )
