"""Files inside an Office document: workbooks, other documents, and packages of any file. Each gets a line on its page.

They are listed, not read: the page shows a picture of each, which its reader treats as a picture.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quire.domain.element import Element, ElementKind, FileFacts
from quire.errors import DamagedError, TooLargeError
from quire.reading.files.attachment_notes import AttachmentNote
from quire.reading.files.file_kinds import DOC, PPT, SNIFF_BYTES, XLS
from quire.reading.office.compound_file import CompoundFile
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.zip_container import ZipContainer

_MOST_FILES = 1_000
_MOST_READ = 16 << 20
"""Of a compound file, which says only inside what it holds."""
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NATIVE = "\x01Ole10Native"
_WHOLE = ("Package", "CONTENTS")
"""Streams that are the file itself: a newer Office document, a PDF."""
_EMBEDDED = 2
_ITEM = "-"
_OBJECT = re.compile(r"ObjectPool/_\d+|MBD[0-9A-F]{8}")
"""Storages of embedded objects: in a Word document, in a workbook."""
_PROGRAM, _CHART = "\x01CompObj", b"MSGraph"
_OLDER = {"WordDocument": DOC, "Workbook": XLS, "Book": XLS, "PowerPoint Document": PPT}
_ENDINGS = {DOC: ".doc", XLS: ".xls", PPT: ".ppt"}


class EmbeddedFiles:
    """Makes the lines of one document's embedded files, and keeps what is known of each by its line."""

    def __init__(self, archive: ZipContainer) -> None:
        self._archive = archive
        self._lines: dict[str, str] = {}
        self.by_line: dict[str, FileFacts] = {}

    def line(self, part: str) -> str:
        """The Markdown of the file that the member holds, "" where there is none or too many were listed."""
        if part not in self._lines:
            is_there = part in self._archive and len(self._lines) < _MOST_FILES
            self._lines[part] = self._said(self._note(part)) if is_there else ""
        return self._lines[part]

    def folder_line(self, folder: str, name: str, mime: str, label: str) -> str:
        """The same of a document that is a folder of the archive."""
        size = sum(self._archive.size(one) for one in self._archive.names() if one.startswith(f"{folder}/"))
        return self._said(AttachmentNote.of_kind(name, mime, label, size)) if size else ""

    def _said(self, note: AttachmentNote) -> str:
        self.by_line[note.markdown] = note.facts
        return note.markdown

    def _note(self, part: str) -> AttachmentNote:
        name, size = part.rpartition("/")[2], self._archive.size(part)
        try:
            head = self._archive.head(part, SNIFF_BYTES)
            if head.startswith(_COMPOUND) and size <= _MOST_READ:
                return _inner(self._archive.head(part, _MOST_READ)) or AttachmentNote.of(name, head, size)
        except (DamagedError, TooLargeError):
            head = b""
        return AttachmentNote.of(name, head, size)


def stored_files(file: CompoundFile) -> list[AttachmentNote]:
    """The files that a Word document or an Excel workbook of before 2007 has in storages of their own.

    Where a page shows each is not looked for.
    """
    storages: dict[str, dict[str, int]] = {}
    for path, size in file.sizes().items():
        storage, _, name = path.rpartition("/")
        if _OBJECT.fullmatch(storage):
            storages.setdefault(storage, {})[name] = size
    found = (_stored(file, storage, streams) for storage, streams in list(storages.items())[:_MOST_FILES])
    return [note for note in found if note is not None]


def object_note(data: bytes) -> AttachmentNote | None:
    """The file in the compound file of an embedded object; None for a chart, or where nothing can be told."""
    if not data.startswith(_COMPOUND) or len(data) > _MOST_READ:
        return None
    if (found := _inner(data)) is not None:
        return found
    import olefile  # type: ignore[import-untyped]

    try:
        with olefile.OleFileIO(data) as held:
            is_chart = held.exists(_PROGRAM) and _CHART in _stream(held, _PROGRAM)
            kind = next((kind for name, kind in _OLDER.items() if held.exists(name) and not is_chart), None)
    except MemoryError:
        raise
    except Exception:  # one broken object costs its own line
        return None
    return (
        AttachmentNote.of_kind(f"object{_ENDINGS[kind]}", kind.mime, kind.label, len(data)) if kind else None
    )


def linked_object_note(data: bytes) -> AttachmentNote | None:
    """The file in an object as the first version of OLE wrote it, which RTF still does; None where there is none."""
    try:
        form, at = struct.unpack_from("<I", data, 4)[0], 8
        for _ in range(3):  # its class, and what a link would lead to
            at += 4 + struct.unpack_from("<I", data, at)[0]
        (size,) = struct.unpack_from("<I", data, at)
        inner = data[at + 4 : at + 4 + size]
        if form != _EMBEDDED or not inner:
            return None
        return object_note(inner) if inner.startswith(_COMPOUND) else _packaged(bytes(4) + inner)
    except (struct.error, ValueError):
        return None


def with_last_lines(
    pages: Sequence[OfficePage], notes: Sequence[AttachmentNote]
) -> tuple[list[OfficePage], dict[str, FileFacts]]:
    """The pages with the lines of these files at the end of the last, and what is known of each by its line."""
    if not notes:
        return list(pages), {}
    lines = "\n\n".join(note.markdown for note in notes)
    last = pages[-1] if pages else OfficePage("")
    ended = replace(last, markdown=f"{last.markdown}\n\n{lines}".lstrip())
    return [*pages[:-1], ended], {note.markdown: note.facts for note in notes}


def _stored(file: CompoundFile, storage: str, streams: Mapping[str, int]) -> AttachmentNote | None:
    try:
        if _NATIVE in streams and streams[_NATIVE] <= _MOST_READ:
            return _packaged(file.stream(f"{storage}/{_NATIVE}"))
        for name in _WHOLE:
            if 0 < streams.get(name, 0) <= _MOST_READ:
                inner = file.stream(f"{storage}/{name}")
                return AttachmentNote.of(name.lower(), inner, len(inner))
        is_chart = _CHART in file.stream(f"{storage}/{_PROGRAM}") if _PROGRAM in streams else False
    except MemoryError:
        raise
    except Exception:  # one broken storage costs its own line
        return None
    kinds = (kind for name, kind in _OLDER.items() if name in streams and not is_chart)
    kind = next(kinds, None)
    if kind is None:
        return None
    return AttachmentNote.of_kind(f"object{_ENDINGS[kind]}", kind.mime, kind.label, sum(streams.values()))


def with_files(elements: Sequence[Element], by_line: Mapping[str, FileFacts]) -> tuple[Element, ...]:
    """The elements, those that are lines of attached files as attachments."""
    if not by_line:
        return tuple(elements)
    return tuple(_as_attachment(one, by_line) for one in elements)


def _as_attachment(element: Element, by_line: Mapping[str, FileFacts]) -> Element:
    is_line = element.kind is ElementKind.PARAGRAPH or (
        element.kind is ElementKind.LIST_ITEM and element.marker == _ITEM and not element.depth
    )
    line = element.markdown or element.text
    facts = by_line.get(line) if is_line else None
    if facts is None:
        return element
    text = element.text.removeprefix("[").removesuffix("]") if not element.marker else element.text
    return replace(element, kind=ElementKind.ATTACHMENT, text=text, markdown=line, file=facts)


def _inner(data: bytes) -> AttachmentNote | None:
    """The file in a compound file that only wraps it."""
    import olefile

    try:
        with olefile.OleFileIO(data) as held:
            if held.exists(_NATIVE):
                return _packaged(_stream(held, _NATIVE))
            for name in _WHOLE:
                if held.exists(name):
                    inner = _stream(held, name)
                    return AttachmentNote.of(name.lower(), inner, len(inner))
    except MemoryError:
        raise
    except Exception:  # what the wrapper is stays known
        return None
    return None


def _stream(held: Any, name: str) -> bytes:
    with held.openstream(name) as stream:
        data: bytes = stream.read(_MOST_READ)
    return data


def _packaged(data: bytes) -> AttachmentNote | None:
    """The file that the Windows packager has wrapped: its label, two paths, and its bytes."""
    at = 6
    texts: list[bytes] = []
    for _ in range(2):
        end = data.index(b"\x00", at)
        texts.append(data[at:end])
        at = end + 1
    (length,) = struct.unpack_from("<I", data, at + 4)
    at += 8 + length
    (size,) = struct.unpack_from("<I", data, at)
    inner = data[at + 4 : at + 4 + size]
    name = (texts[0] or texts[1]).decode("cp1252", "replace")
    return AttachmentNote.of(name, inner, len(inner))
