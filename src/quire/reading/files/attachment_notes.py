"""Owns what a page says of a file that is attached to it: an element with its name, its size and its type.

Types are told by content. Names are the file's own claim: one path part is left of them, without anything that a
terminal, a browser or a reader's eye could be misled by. Bytes are never in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quire.domain.element import Box, Element, ElementKind, FileFacts
from quire.reading.files.file_kinds import EMPTY, SNIFF_BYTES, UNKNOWN, FileKind, sniff
from quire.reading.office.inline_markdown import plain

_NOTE = "Attachment"
_MISLEADING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class AttachmentNote:
    """A file that a page has: its facts, the kind of its content, where it is on the page, and what its author says of
    it, as far as these are known."""

    facts: FileFacts
    label: str
    box: Box | None = None
    description: str = ""

    @classmethod
    def of(
        cls, name: str, head: bytes, size: int | None, box: Box | None = None, description: str = ""
    ) -> AttachmentNote:
        """A file of whose content `head` is the beginning, by which its kind is told."""
        kind = sniff(head[:SNIFF_BYTES]) if head else EMPTY if size == 0 else UNKNOWN
        return cls(FileFacts(safe_name(name), size, kind.mime), shown_kind(kind), box, description)

    @classmethod
    def of_kind(cls, name: str, mime: str, label: str, size: int | None) -> AttachmentNote:
        """A file whose kind is known already."""
        return cls(FileFacts(safe_name(name), size, mime), label)

    @property
    def text(self) -> str:
        """The line without markup."""
        about = [self.label] if self.facts.size is None else [self.label, size_text(self.facts.size)]
        return f"{_NOTE}: {self.facts.name} ({', '.join(about)})"

    @property
    def markdown(self) -> str:
        """The same line as Markdown, in square brackets as what is not the page's own text."""
        return f"[{plain(self.text.translate(_BRACKETS))}]"

    def element(self) -> Element:
        """The element, without an id yet."""
        return Element(
            "",
            ElementKind.ATTACHMENT,
            self.text,
            self.box,
            markdown=self.markdown,
            file=self.facts,
        )


_BRACKETS = str.maketrans("[]", "()")


def shown_kind(kind: FileKind) -> str:
    """The kind of a file for people."""
    return kind.label or kind.mime


def size_text(size: int) -> str:
    """A size for people."""
    return f"{size / 1024:,.0f} kB" if size >= 1024 else f"{size} bytes"


def with_attachments(elements: Sequence[Element], notes: Sequence[AttachmentNote]) -> list[Element]:
    """The elements with those of the attachments: in place of a paragraph that says the same, else behind them all."""
    left = {note.markdown: note for note in notes}
    found: list[Element] = []
    for one in elements:
        said = one.markdown or one.text
        note = left.pop(said, None) if one.kind is ElementKind.PARAGRAPH else None
        found.append(one if note is None else replace(note.element(), id=one.id, parent=one.parent))
    return [*found, *(note.element() for note in notes if note.markdown in left)]


def safe_name(name: str) -> str:
    """One path part, printable, without characters that turn the writing direction, at most 150 bytes."""
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    kept = "".join(
        "_" if c in '<>:"|?*' else c
        for c in unicodedata.normalize("NFC", last)
        if unicodedata.category(c) not in _MISLEADING
    )
    kept = " ".join(kept.split()).strip(" .")
    stem, dot, ending = kept.rpartition(".")
    if not stem or len(ending.encode()) > 20:
        stem, dot, ending = kept, "", ""
    stem = stem.encode()[:120].decode("utf-8", "ignore").rstrip(" .")
    return f"{stem}{dot}{ending}" or "file"
