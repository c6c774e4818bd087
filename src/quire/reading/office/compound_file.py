"""Streams of the compound files (OLE) that office programs wrote before 2007, and their title and author.

Streams are read whole, bounded by the limit for unpacked bytes. `compound_file_of` writes one stream into a new file,
for libraries that read compound files themselves and less carefully.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
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

    def sizes(self) -> dict[str, int]:
        """The size of each stream by its path, "storage/stream"; none where the directory is broken."""
        try:
            return {"/".join(path): self._file.get_size(path) for path in self._file.listdir()}
        except MemoryError:
            raise
        except Exception:
            return {}

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


_SECTOR, _SMALL_SECTOR = 4096, 64
_LINKS = _SECTOR // 4
_IN_HEADER = 109
_FREE, _END, _TABLE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_STREAM, _ROOT = 2, 5


def compound_file_of(name: str, data: bytes) -> bytes:
    """A compound file with this stream alone, which is not empty.

    Its sectors are the table of sectors, the directory, the table of small sectors, a sector for all small streams, and
    the data, unless that is short enough to be among the small streams. Raises TooLargeError.
    """
    is_small = len(data) < _SECTOR
    count = 0 if is_small else _sectors(len(data), _SECTOR)
    tables = 1
    while tables * _LINKS < tables + 3 + count:
        tables += 1
    if tables > _IN_HEADER:
        raise TooLargeError("The document is larger than this service reads. Send it in parts.")
    first = tables + 3
    head = struct.pack("<8s16x5H6x", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 4, 0xFFFE, 12, 6)
    head += struct.pack("<3I4x5I", 1, tables, tables, _SECTOR, tables + 1, 1, _END, 0)
    entries = _entry("Root Entry", _ROOT, 1, tables + 2, _SECTOR)
    entries += _entry(name, _STREAM, _FREE, 0 if is_small else first, len(data))
    parts = (
        head + _numbers(range(tables), _IN_HEADER),
        _numbers([*[_TABLE] * tables, _END, _END, _END, *_chain(first, count)], tables * _LINKS),
        entries,
        _numbers(_chain(0, _sectors(len(data), _SMALL_SECTOR) if is_small else 0), _LINKS),
        data if is_small else bytes(_SECTOR),
        b"" if is_small else data,
    )
    return b"".join(part + bytes(-len(part) % _SECTOR) for part in parts)


def _sectors(size: int, sector: int) -> int:
    return -(-size // sector)


def _chain(first: int, count: int) -> list[int]:
    return [*range(first + 1, first + count), _END] if count else []


def _numbers(used: Collection[int], count: int) -> bytes:
    return struct.pack(f"<{count}I", *used, *[_FREE] * (count - len(used)))


def _entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
    raw = (name + "\0").encode("utf-16-le")
    return raw.ljust(64, b"\0") + struct.pack(
        "<HBB3I36xIQ", len(raw), kind, 1, _FREE, _FREE, child, start, size
    )
