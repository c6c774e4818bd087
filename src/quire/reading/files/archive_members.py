"""The files in a ZIP archive that was sent as a batch of documents. Runs in a child process."""

from __future__ import annotations

import posixpath

from quire.reading.office.zip_container import OfficeLimits, ZipContainer

_DOCUMENT_MARKS = ("[Content_Types].xml", "mimetype", "META-INF/MANIFEST.MF")


def archive_files(path: str, limits: OfficeLimits) -> list[tuple[str, int]]:
    """Names and sizes of the files in the archive; empty where the ZIP is itself a document (DOCX, EPUB …).

    Raises DamagedError or TooLargeError.
    """
    held = ZipContainer(path, limits)
    try:
        if any(mark in held for mark in _DOCUMENT_MARKS):
            return []
        return [(name, held.size(name)) for name in held.names() if _is_file(name)]
    finally:
        held.close()


def archive_piece(path: str, limits: OfficeLimits, name: str, start: int, most: int) -> bytes:
    """Up to `most` bytes of a file in the archive, from `start` on. Raises DamagedError or TooLargeError."""
    held = ZipContainer(path, limits)
    found = bytearray()
    at = 0
    try:
        for piece in held.pieces(name):
            if at + len(piece) > start:
                found += piece[max(0, start - at) :]
            at += len(piece)
            if len(found) >= most:
                break
        return bytes(found[:most])
    finally:
        held.close()


def _is_file(name: str) -> bool:
    """Not a folder, and not what systems add to archives by themselves."""
    last = posixpath.basename(name)
    return bool(last) and not last.startswith(".") and not name.startswith("__MACOSX/")
