"""Plain text and Markdown files as documents: a form feed ends a page, and so does a bound on its size."""

from __future__ import annotations

import re
from pathlib import Path

from quire.domain.element import Element, ElementKind, element_id
from quire.domain.element_tree import renumbered
from quire.errors import DamagedError, EmptyError, PageError, TooLargeError
from quire.reading.files.document_source import DocumentInfo
from quire.reading.files.file_kinds import MARKDOWN, FileKind, decode_text, legacy_text
from quire.rendering.markdown_writer import code

_FRONT_MATTER = re.compile(
    r"---[ \t]*+\n((?:#[^\n]*+\n|\n)*+[\w.-]++[ \t]*+:(?=\s)[^\n]*+\n(?:[^\n]*+\n)*?)(?:---|\.\.\.)[ \t]*+(?:\n|\Z)"
    r"|\+\+\+[ \t]*+\n((?:#[^\n]*+\n|\n)*+[\w.\"-]++[ \t]*+=[^\n]*+\n(?:[^\n]*+\n)*?)\+\+\+[ \t]*+(?:\n|\Z)"
)
"""What a Markdown file says of itself before its text, in YAML or TOML. Its first line names something."""
_EMPTY_LINES = re.compile(r"\n[ \t]*\n")
MAX_TEXT_BYTES = 64 * 1024 * 1024
MAX_PAGE_CHARS = 60_000
"""A page of text longer than this is cut at a paragraph, else at a line, else anywhere."""


class TextSource:
    """A text file, decoded and cut in pages."""

    def __init__(self, path: str, kind: FileKind) -> None:
        """Read the file, or raise DamagedError, EmptyError or TooLargeError."""
        self.kind = kind
        try:
            size = Path(path).stat().st_size
            if size > MAX_TEXT_BYTES:
                raise TooLargeError(
                    f"The text file is larger than {MAX_TEXT_BYTES // 1024 // 1024} MB. Send it in parts."
                )
            data = Path(path).read_bytes()
        except OSError as error:
            raise DamagedError("The document's file can't be read.") from error
        text = decode_text(data)
        if text is None:
            text = legacy_text(data)
        if text is None:
            raise DamagedError(
                "The text file is not valid UTF-8 or UTF-16. Save it as UTF-8 and send it again."
            )
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._pages = [page for part in text.split("\f") for page in _cut(part.strip("\n"))]
        while self._pages and not self._pages[-1].strip():
            self._pages.pop()
        if not self._pages:
            raise EmptyError("The file has no text in it. Send it again.")

    @property
    def page_count(self) -> int:
        return len(self._pages)

    def info(self) -> DocumentInfo:
        return DocumentInfo(mime=self.kind.mime, page_count=self.page_count)

    def page_text(self, number: int) -> str:
        """The text of page `number` (from 1), as it is in the file. Raises PageError where there is none."""
        if not 1 <= number <= len(self._pages):
            raise PageError(f"There is no page {number}: the document has {len(self._pages)}.")
        return self._pages[number - 1]

    def page_markdown(self, number: int) -> str:
        """The same as Markdown: source code is put between fences. Raises PageError where there is no such page."""
        text = self.page_text(number)
        if not self.kind.fence:
            return text.strip()
        fenced = code(text.strip("\n").split("\n"))
        at = fenced.index("\n")
        return f"{fenced[:at]}{self.kind.fence}{fenced[at:]}"

    def close(self) -> None:
        self._pages = []


def text_elements(text: str, number: int, kind: FileKind) -> tuple[Element, ...]:
    """The elements of page `number` of a text file: one of code, those of Markdown, or paragraphs."""
    if kind.fence:
        code_text = text.strip("\n")
        return (Element(element_id(number, 0), ElementKind.CODE, code_text, language=kind.fence),)
    if kind == MARKDOWN:
        from quire.reading.files.markdown_elements import markdown_elements

        front = _FRONT_MATTER.match(text) if number == 1 else None
        if front is None:
            return markdown_elements(text, number)
        language, held = ("yaml", front[1]) if front[1] is not None else ("toml", front[2])
        about = Element("", ElementKind.CODE, held.rstrip("\n"), language=language)
        return renumbered([about, *markdown_elements(text[front.end() :], number)], number)
    return paragraph_elements(text, number)


def paragraph_elements(text: str, number: int) -> tuple[Element, ...]:
    """A paragraph for each stretch of lines between empty ones."""
    parts = [part.strip("\n") for part in _EMPTY_LINES.split(text)]
    return tuple(
        Element(element_id(number, place), ElementKind.PARAGRAPH, part)
        for place, part in enumerate(part for part in parts if part.strip())
    )


def _cut(text: str) -> list[str]:
    pages: list[str] = []
    start = 0
    while len(text) - start > MAX_PAGE_CHARS:
        window = text[start : start + MAX_PAGE_CHARS]
        ends = [m.end() for m in re.finditer(r"\n\s*\n", window)] or [window.rfind("\n") + 1]
        at = ends[-1] if ends[-1] > MAX_PAGE_CHARS // 4 else MAX_PAGE_CHARS
        pages.append(window[:at].strip("\n"))
        start += at
    pages.append(text[start:])
    return pages
