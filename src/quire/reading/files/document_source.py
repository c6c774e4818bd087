"""One opened document: what it is, how many pages it has, and the handle that successive chunks share."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from quire.errors import (
    DamagedError,
    EmptyError,
    PageError,
    PasswordRequiredError,
    PasswordWrongError,
    QuireError,
    TooManyPagesError,
    UnsupportedTypeError,
)
from quire.reading.files.file_kinds import EMPTY, SNIFF_BYTES, FileKind, sniff
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.mupdf import mupdf

_KEPT_OPEN = 2
_METADATA_MAX_CHARS = 500


@dataclass(frozen=True, slots=True)
class AttachedInfo:
    """A file that hangs on a mail. `converted` says whether it is to become a document of its own."""

    name: str
    mime: str
    size: int
    converted: bool
    is_mail: bool = False


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What is known of a document before its pages are read."""

    mime: str
    page_count: int
    encrypted: bool = False
    title: str | None = None
    author: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    attachments: tuple[AttachedInfo, ...] = ()


class DocumentSource(Protocol):
    """A document held open. The kinds of source (PDF, image, text, office) have nothing else in common."""

    @property
    def page_count(self) -> int: ...

    def info(self) -> DocumentInfo: ...

    def close(self) -> None: ...


class PdfSource:
    """A PDF held open by MuPDF. `kept` is for what reading wants to remember as long as the document is open."""

    def __init__(self, path: str | None, password: str | None = None, *, data: bytes | None = None) -> None:
        """Opens the PDF at `path`, or the one in `data`. Raises the DocumentError that says why it can't be read."""

        self.kept: dict[str, Any] = {}
        try:
            self.handle: Any = mupdf().open(path, stream=data, filetype="pdf")
        except MemoryError:
            raise
        except Exception as error:
            raise _damaged() from error
        try:
            self.encrypted = bool(self.handle.needs_pass)
            if self.encrypted:
                self._unlock(password)
            self.page_count: int = self.handle.page_count
        except QuireError:
            self.handle.close()
            raise
        except MemoryError:
            raise
        except Exception as error:
            self.handle.close()
            raise _damaged() from error
        if self.page_count == 0:
            self.handle.close()
            raise EmptyError(
                "The PDF has no pages. It may be damaged: open it in a PDF viewer and save it anew."
            )

    def _unlock(self, password: str | None) -> None:
        if not password:
            raise PasswordRequiredError("The PDF is protected. Send it again with its password.")
        if not self.handle.authenticate(password):
            raise PasswordWrongError(
                "The password does not open this PDF. Check it and send the document again."
            )

    def info(self) -> DocumentInfo:
        metadata = _clean_metadata(self.handle)
        return DocumentInfo(
            mime="application/pdf",
            page_count=self.page_count,
            encrypted=self.encrypted,
            title=metadata.get("title"),
            author=metadata.get("author"),
            metadata=metadata,
        )

    def page(self, number: int) -> Any:
        """MuPDF's page `number` (from 1). Raises PageError where there is no such page or it can't be loaded."""
        if not 1 <= number <= self.page_count:
            raise PageError(f"There is no page {number}: the document has {self.page_count}.")
        with_page: Callable[[int], Any] = page_errors(number)(self.handle.load_page)
        return with_page(number - 1)

    def close(self) -> None:
        self.handle.close()


_Result = TypeVar("_Result")


def page_errors(number: int) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """A wrapper under which whatever a parser raises about page `number` becomes a PageError.

    Errors of our own tree pass as they are, and so does MemoryError, which the child pool tells apart.
    """

    def wrap(call: Callable[..., _Result]) -> Callable[..., _Result]:
        @functools.wraps(call)
        def guarded(*args: Any, **kwargs: Any) -> _Result:
            try:
                return call(*args, **kwargs)
            except (QuireError, MemoryError):
                raise
            except Exception as error:
                raise PageError(f"Page {number} is damaged and could not be read.") from error

        return guarded

    return wrap


class OpenDocuments:
    """The last documents this process opened, so that chunks of one document don't open it again and again."""

    def __init__(self, limit: int = _KEPT_OPEN) -> None:
        self._limit = limit
        self._open: dict[tuple[str, int, int, str | None], DocumentSource] = {}

    def get(self, path: str, password: str | None, limits: OfficeLimits | None = None) -> DocumentSource:
        """The document at `path`, opened now or before. Raises DocumentError, UnsupportedTypeError, TooLargeError."""
        try:
            status = Path(path).stat()
        except OSError as error:
            raise DamagedError("The document's file is no longer there.") from error
        key = (path, status.st_size, status.st_mtime_ns, password)
        source = self._open.pop(key, None)
        if source is None:
            self._make_room()
            source = _open_source(path, password, limits or OfficeLimits())
        self._open[key] = source
        return source

    def _make_room(self) -> None:
        # A document that fills the memory would take it from the next one.
        for key in [key for key, source in self._open.items() if getattr(source, "holds_much", False)]:
            self._open.pop(key).close()
        while len(self._open) >= self._limit:
            self._open.pop(next(iter(self._open))).close()

    def forget(self) -> None:
        """Close everything."""
        while self._open:
            self._open.popitem()[1].close()


@functools.cache
def open_documents() -> OpenDocuments:
    """The one cache of this process: children are single-threaded, and a document can't cross processes."""
    return OpenDocuments()


def inspect(
    path: str, password: str | None, max_pages: int, limits: OfficeLimits | None = None
) -> DocumentInfo:
    """What the document at `path` is, without reading its pages.

    Raises UnsupportedTypeError, EmptyError, DamagedError, PasswordRequiredError, PasswordWrongError,
    TooLargeError or TooManyPagesError; no other exception but MemoryError.
    """
    source = open_documents().get(path, password, limits)
    if source.page_count > max_pages:
        raise TooManyPagesError(
            f"The document has {source.page_count:,} pages; at most {max_pages:,} are allowed. Send it in parts."
        )
    return source.info()


def sha256_of(path: str) -> str:
    """Raises DamagedError if the file can't be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedError("The document's file can't be read.") from error


def kind_of(path: str) -> FileKind:
    """The kind of the file at `path`, from its first bytes. Raises DamagedError if it can't be read at all."""
    try:
        with Path(path).open("rb") as file:
            return sniff(file.read(SNIFF_BYTES))
    except OSError as error:
        raise DamagedError("The document's file can't be read.") from error


def _open_source(path: str, password: str | None, limits: OfficeLimits) -> DocumentSource:
    from quire.reading.files.image_source import ImageSource
    from quire.reading.files.kind_guessing import finer_kind
    from quire.reading.files.text_source import TextSource
    from quire.reading.office.office_readers import open_office, reads

    kind = kind_of(path)
    if kind == EMPTY:
        raise EmptyError("The file is empty (0 bytes). Send it again.")
    kind = finer_kind(path, kind)
    if not kind.supported:
        raise UnsupportedTypeError(
            f"This is a file of type {kind.mime} ({kind.label}), which Quire can't read."
        )
    if kind.is_pdf:
        return PdfSource(path, password)
    if kind.is_image:
        return ImageSource(path, kind)
    if reads(kind):
        return open_office(path, kind, limits)
    return TextSource(path, kind)


def _damaged() -> DamagedError:
    return DamagedError(
        "The PDF is damaged and can't be opened. Open it in a PDF viewer, save it anew, and send that copy."
    )


def _clean_metadata(handle: Any) -> dict[str, str]:
    try:
        raw = dict(handle.metadata or {})
    except Exception:  # metadata is a courtesy: a broken Info dictionary must not cost the document
        return {}
    clean: dict[str, str] = {}
    for key, value in raw.items():
        if key == "encryption" or not isinstance(value, str):
            continue
        text = "".join(
            c if c.isprintable() else " " for c in value.encode("utf-8", "replace").decode("utf-8")
        )
        text = " ".join(text.split())[:_METADATA_MAX_CHARS]
        if text:
            clean[key] = text
    return clean
