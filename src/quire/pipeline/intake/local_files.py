"""Files of this machine that `file://` sources name: opened once, and only below FILES_BASE.

The file that is checked is the file that is read: each folder on the way is opened without following links, so a link
that is put in place after the check leads nowhere.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit

from quire.errors import DownloadError, LinkRefusedError, RequestError, TooLargeError

_PIECE_BYTES = 1 << 20
_OWN_HOSTS = frozenset({"", "localhost"})


@dataclass(slots=True)
class LocalFile:
    """An open regular file. Use it in a `with` block, which closes it."""

    name: str
    size: int
    fd: int

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    async def pieces(self) -> AsyncIterator[bytes]:
        at = 0
        while piece := await asyncio.to_thread(os.pread, self.fd, _PIECE_BYTES, at):
            yield piece
            at += len(piece)


def open_local_file(url: str, base: Path | None, max_bytes: int) -> LocalFile:
    """Opens the file of a `file://` address. Raises RequestError, LinkRefusedError, DownloadError or TooLargeError."""
    if base is None:
        raise LinkRefusedError(
            "file:// sources are switched off. The operator can allow a folder by FILES_BASE."
        )
    path, root = _resolved(url), base.resolve()
    if not path.is_relative_to(root):
        raise LinkRefusedError("The file is not under FILES_BASE.")
    fd = _open_below(root, path.relative_to(root).parts)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise DownloadError("There is no such file.", retryable=False)
        if found.st_size > max_bytes:
            raise TooLargeError(
                f"The file is larger than the {max_bytes // 2**20} MB allowed (MAX_UPLOAD_MB)."
            )
    except BaseException:
        os.close(fd)
        raise
    return LocalFile(path.name, found.st_size, fd)


def _resolved(url: str) -> Path:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise RequestError("source: the address is malformed.") from None
    if host not in _OWN_HOSTS:
        raise LinkRefusedError("A file:// source names a file of this machine: write file:///folder/name.")
    plain = unquote(parts.path)
    if "\0" in plain:
        raise RequestError("source: the path has a zero byte in it.")
    try:
        return Path(plain).resolve()
    except (OSError, RuntimeError):  # a circle of links
        raise DownloadError("There is no such file.", retryable=False) from None


def _open_below(root: Path, names: tuple[str, ...]) -> int:
    """Opens root/names without following a link at any step. Raises DownloadError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    at = -1
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for number, name in enumerate(names):
            is_last = number == len(names) - 1
            below = os.open(name, flags if is_last else flags | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
    except OSError:
        if at >= 0:
            os.close(at)
        raise DownloadError("There is no such file.", retryable=False) from None
    return at
