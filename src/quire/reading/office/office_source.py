"""A document of pages that are Markdown from the start, held open for successive chunks."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from quire.domain.element import FileFacts
from quire.errors import EmptyError, PageError
from quire.reading.files.document_source import AttachedInfo, DocumentInfo
from quire.reading.files.file_kinds import EML, MSG, FileKind
from quire.reading.office.office_pages import OfficePage

_MUCH = 16 << 20
_LEAST_PX = 48
"""Smaller pictures are bullets, rules and tracking pixels: nothing to describe."""
_MOST_PIXELS = 100_000_000
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")
PLACEHOLDER = re.compile(r"(?<!\\)\[Picture(?:: (?:[^\]\\\n]|\\.)*)?\]")


@dataclass(frozen=True, slots=True)
class Opened:
    """What a reader of one format makes of a document. `fetch` gives the bytes of a picture."""

    reader: str
    pages: Sequence[OfficePage]
    title: str | None = None
    author: str | None = None
    fetch: Callable[[str], bytes] = lambda _ref: b""
    close: Callable[[], None] = lambda: None
    attachments: tuple[AttachedFile, ...] = field(default=())
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    """What is known of files inside, by the line of Markdown that their page has of them."""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file in a mail. `name` is one safe path part, different from those of the others; `data` its bytes."""

    name: str
    kind: FileKind
    data: bytes = field(repr=False)
    converted: bool


class OfficeSource:
    """The `Source` of every format that this package reads."""

    def __init__(self, kind: FileKind, opened: Opened) -> None:
        """Raises EmptyError where there is nothing to read."""
        self.kind = kind
        self._opened = opened
        self._worth: dict[str, bool] = {}
        if not opened.pages:
            opened.close()
            raise EmptyError(f"The {kind.label} is empty: there is no text in it.")

    @property
    def page_count(self) -> int:
        return len(self._opened.pages)

    @property
    def holds_much(self) -> bool:
        """Whether it is better closed than kept open beside another document."""
        opened = self._opened
        chars = sum(len(page.markdown) for page in opened.pages)
        return chars + sum(len(one.data) for one in opened.attachments) > _MUCH

    @property
    def reader(self) -> str:
        return self._opened.reader

    @property
    def files(self) -> Mapping[str, FileFacts]:
        """Files inside the document, by the line that a page has of each."""
        return self._opened.files

    @property
    def attachments(self) -> tuple[AttachedFile, ...]:
        return self._opened.attachments

    def info(self) -> DocumentInfo:
        opened = self._opened
        attached = tuple(
            AttachedInfo(one.name, one.kind.mime, len(one.data), one.converted, one.kind in (EML, MSG))
            for one in opened.attachments
        )
        return DocumentInfo(
            mime=self.kind.mime,
            page_count=self.page_count,
            title=opened.title,
            author=opened.author,
            attachments=attached,
        )

    def page(self, number: int) -> OfficePage:
        """Raises PageError where there is no such page."""
        if not 1 <= number <= self.page_count:
            raise PageError(f"There is no page {number}: the document has {self.page_count}.")
        return self._opened.pages[number - 1]

    def pictures(self, number: int) -> dict[str, bytes]:
        """The pictures of a page that are worth describing, by their place in the file."""
        found: dict[str, bytes] = {}
        for ref in dict.fromkeys(self.page(number).pictures):
            if ref and ref not in found and self._worth.get(ref, True):
                data = self._opened.fetch(ref)
                self._worth[ref] = bool(data) and _worth_describing(data)
                if self._worth[ref]:
                    found[ref] = data
        return found

    def has_pictures(self, number: int) -> bool:
        refs = [ref for ref in self.page(number).pictures if ref]
        if any(self._worth.get(ref) for ref in refs):
            return True
        return bool(refs) and bool(self.pictures(number))

    def close(self) -> None:
        self._opened.close()


def fill_placeholders(markdown: str, texts: Sequence[str | None]) -> str:
    """The page with the n-th placeholder saying texts[n]; one without a text stays as it is."""
    left = iter(texts)

    def filled(found: re.Match[str]) -> str:
        text = next(left, None)
        return found[0] if text is None else f"[Picture: {text}]"

    return PLACEHOLDER.sub(filled, markdown)


def _worth_describing(data: bytes) -> bool:
    """Whether it is a picture that can be decoded and is large enough to show something."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
            width, height = picture.size
    except MemoryError:
        raise
    except Exception:
        return False
    return min(width, height) >= _LEAST_PX and width * height <= _MOST_PIXELS
