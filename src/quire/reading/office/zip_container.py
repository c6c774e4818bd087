"""An untrusted zip file: nothing is written to disk, and no more is unpacked than was allowed.

Names inside are only ever looked up, never joined to a path. What a member says of its size is checked before it is
unpacked, and the library stops at that size whatever the data would go on to give.

How much a document may unpack to before it is refused.
"""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from quire.errors import DamagedError, TooLargeError


@dataclass(frozen=True, slots=True)
class OfficeLimits:
    """`max_attachments` is what this mail may still turn into documents of their own; 0 turns none into one."""

    max_archive_bytes: int = 512 << 20
    max_archive_members: int = 20_000
    max_attachments: int = 100


_END = b"PK\x05\x06"
_END_BYTES = 22
_LOCATOR = b"PK\x06\x07"
_LOCATOR_BYTES = 20
_END64_BYTES = 56
_LONGEST_COMMENT = 1 << 16
_ENTRY_BYTES = 400
"""What an entry of the directory takes on the average, at most: a fixed part and a long name."""
_PIECE_BYTES = 1 << 16
_ENCRYPTED = 0x1


class ZipContainer:
    """The members of a zip file, each unpacked when it is wanted."""

    def __init__(self, path: str, limits: OfficeLimits) -> None:
        """Raises DamagedError, or TooLargeError for a directory with more entries than allowed."""
        self._limits = limits
        self._unpacked: dict[str, int] = {}
        try:
            _check_directory(path, limits.max_archive_members)
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, struct.error, NotImplementedError) as error:
            raise _damaged() from error
        members = self._zip.infolist()
        if len(members) > limits.max_archive_members:
            self._zip.close()
            raise _too_many(limits.max_archive_members)
        self._members = {one.filename: one for one in members}

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def names(self) -> list[str]:
        return list(self._members)

    def size(self, name: str) -> int:
        """What the member says it unpacks to; 0 if there is none of that name."""
        found = self._members.get(name)
        return found.file_size if found else 0

    def read(self, name: str) -> bytes:
        """The whole member, empty if there is none. Raises DamagedError or TooLargeError."""
        return b"".join(self.pieces(name))

    def head(self, name: str, most: int) -> bytes:
        """The member's first bytes, however large it is. Raises DamagedError or TooLargeError."""
        found = self._members.get(name)
        if found is None:
            return b""
        self._account(found, min(most, found.file_size))
        with _damage_named(), self._zip.open(found) as file:
            return file.read(most)

    def pieces(self, name: str) -> Iterator[bytes]:
        """The member bit by bit, so that a large one is never whole in memory."""
        found = self._members.get(name)
        if found is None:
            return
        self._account(found, found.file_size)
        with _damage_named(), self._zip.open(found) as file:
            yield from iter(lambda: file.read(_PIECE_BYTES), b"")

    def close(self) -> None:
        self._zip.close()

    def _account(self, member: zipfile.ZipInfo, size: int) -> None:
        if member.flag_bits & _ENCRYPTED:
            raise DamagedError("The document is protected inside. Save it without protection and send that.")
        self._unpacked[member.filename] = max(size, self._unpacked.get(member.filename, 0))
        most = self._limits.max_archive_bytes
        if sum(self._unpacked.values()) > most:
            raise TooLargeError(
                f"The document unpacks to more than the {most // 2**20} MB allowed (MAX_ARCHIVE_MB)."
            )


@contextmanager
def _damage_named() -> Iterator[None]:
    """Whatever the library says of a broken member is that it is damaged."""
    try:
        yield
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,
        NotImplementedError,
    ) as error:
        raise _damaged() from error


def resolve(base: str, target: str) -> str:
    """The member that a part named `base` means by `target`; "" for what leads out of the archive."""
    joined = target.lstrip("/") if target.startswith("/") else posixpath.join(posixpath.dirname(base), target)
    name = posixpath.normpath(joined)
    return "" if name.startswith("..") or name == "." else name


def _check_directory(path: str, max_members: int) -> None:
    """Looks at the end of the file for what its directory claims, before a library reads all of it."""
    with io.FileIO(path) as file:
        size = file.seek(0, io.SEEK_END)
        tail_at = max(0, size - _LONGEST_COMMENT - _END_BYTES)
        file.seek(tail_at)
        tail = _all(file)
    at = tail.rfind(_END)
    if at < 0:
        raise zipfile.BadZipFile("no directory")
    count, length = struct.unpack("<HI", tail[at + 10 : at + 16])
    locator = tail[max(0, at - _LOCATOR_BYTES) : at]
    if locator.startswith(_LOCATOR):
        big = at - _LOCATOR_BYTES - _END64_BYTES
        if big < 0:
            raise zipfile.BadZipFile("no large directory")
        count, length = struct.unpack("<QQ", tail[big + 32 : big + 48])
    if count > max_members or length > max_members * _ENTRY_BYTES:
        raise _too_many(max_members)


def _all(file: IO[bytes]) -> bytes:
    return file.read(-1)


def _damaged() -> DamagedError:
    return DamagedError("The document is damaged and can't be unpacked. Save it anew and send that copy.")


def _too_many(most: int) -> TooLargeError:
    return TooLargeError(
        f"The document has more than the {most:,} parts inside that are allowed (MAX_ARCHIVE_MEMBERS)."
    )
