"""Streams of the compound files (OLE) that office programs wrote before 2007, and their title and author.

Streams are read whole, bounded by the limit for unpacked bytes.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from quire.errors import DamagedError, TooLargeError
from quire.reading.office.zip_container import OfficeLimits


class CompoundFile:
    """Raises DamagedError where the file is no such file."""

    def __init__(self, path: str, limits: OfficeLimits) -> None:
        import olefile  # type: ignore[import-untyped]

        try:
            self._file: Any = olefile.OleFileIO(path)
        except MemoryError:
            raise
        except Exception as error:
            raise DamagedError("The document is damaged and can't be opened.") from error
        self._most = limits.max_archive_bytes

    def __enter__(self) -> CompoundFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def stream(self, name: str) -> bytes:
        """The bytes of a stream, b"" where there is none. Raises TooLargeError."""
        if not self._file.exists(name):
            return b""
        if self._file.get_size(name) > self._most:
            raise TooLargeError("The document is larger than this service reads. Send it in parts.")
        with self._file.openstream(name) as stream:
            data: bytes = stream.read()
        return data

    def credits(self) -> tuple[str | None, str | None]:
        """Title and author, None where the file does not have them."""
        try:
            found = self._file.get_metadata()
        except MemoryError:
            raise
        except Exception:  # metadata is a courtesy: a broken property set must not cost the document
            return None, None
        encoding = f"cp{found.codepage}" if found.codepage and found.codepage > 0 else "cp1252"
        if found.codepage in (65001, -535):
            encoding = "utf-8"
        return _text(found.title, encoding), _text(found.author, encoding)


def _text(value: Any, encoding: str) -> str | None:
    if isinstance(value, bytes):
        try:
            value = value.decode(encoding, "replace")
        except LookupError:
            value = value.decode("latin-1")
    if not isinstance(value, str):
        return None
    return " ".join("".join(c if c.isprintable() else " " for c in value).split()) or None
