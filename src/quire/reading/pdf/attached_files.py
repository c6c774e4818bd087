"""Finds the files in a PDF: those of the whole document, which are on its first page, and those attached to a place.

Weakness: a file that only the associated files (`AF`) of an object name is not found; the ones of invoices (ZUGFeRD,
Factur-X) are files of the document too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from quire.domain.element import Box
from quire.domain.element_tree import renumbered
from quire.domain.page import PageReading
from quire.errors import DamagedError
from quire.reading.files.attachment_notes import AttachmentNote, with_attachments
from quire.reading.files.document_source import PdfSource
from quire.reading.files.file_kinds import SNIFF_BYTES
from quire.reading.pdf.mupdf import mupdf
from quire.rendering.page_markdown import render_markdown

_MOST_FILES = 1_000
_MOST_STORED = 32 << 20
"""Of one file, as it is in the PDF: a larger one is not unpacked to see what it is."""
_MOST_STORED_OF_ALL = 256 << 20
"""A thousand entries may name one stream."""
_MOST_UNPACKED = 64 << 20
"""Of all files of a document: beyond that, sizes are those that the PDF claims."""
_PIECE = 1 << 20
_LONGEST = 4_000
_ATTACHED_TO_PLACE = 17
_NAMES = ("UF", "F", "Unix", "DOS", "Mac")


def attached_files(handle: Any, page: Any, turn: Callable[[Box], Box]) -> list[AttachmentNote]:
    """The files of MuPDF's `page` of the document `handle`; `turn` brings a box of it to the page as read."""
    files = _FileReader(handle)
    found = _guarded(files.of_document) if page.number == 0 else []
    return [*found, *_guarded(lambda: files.of_page(page, turn))]


def listed_files(handle: Any, pages: Sequence[Any]) -> Iterator[tuple[int | None, AttachmentNote]]:
    """All files of the document, and those of the pages with the number of their page (from 1).

    Raises DamagedError, or what MuPDF raises, at the end of a list that is damaged.
    """
    files = _FileReader(handle)
    yield from ((None, note) for note in files.of_document())
    for page in pages:
        yield from ((page.number + 1, note) for note in files.of_page(page, lambda box: box))
    if files.is_damaged:
        raise DamagedError("The list of the files in this PDF is damaged.")


def turned_left(turns: int, size: tuple[float, float]) -> Callable[[Box], Box]:
    """Brings a box of a page of this size to the page after `turns` quarter turns to the left."""
    width, height = size
    return {
        1: lambda box: (box[1], width - box[2], box[3], width - box[0]),
        2: lambda box: (width - box[2], height - box[3], width - box[0], height - box[1]),
        3: lambda box: (height - box[3], box[0], height - box[1], box[2]),
    }.get(turns % 4, lambda box: box)


def shown_files(source: PdfSource, number: int, turns: int = 0) -> list[AttachmentNote]:
    """The files of page `number` where a viewer shows them, after `turns` quarter turns to the left."""
    page = source.page(number)
    turn = turned_left(turns, (page.rect.width, page.rect.height))
    return attached_files(
        source.handle, page, lambda box: turn(tuple(mupdf().Rect(box) * page.rotation_matrix))
    )


def with_files(reading: PageReading, files: Sequence[AttachmentNote]) -> PageReading:
    """The reading with the files that are attached to its page."""
    if not files:
        return reading
    elements = renumbered(with_attachments(reading.elements, files), reading.number)
    return replace(reading, elements=elements, markdown=render_markdown(elements))


def _guarded(find: Callable[[], Iterator[AttachmentNote]]) -> list[AttachmentNote]:
    """A damaged list of files costs what is behind the damage, never the page."""
    found: list[AttachmentNote] = []
    try:
        for note in find():
            found.append(note)
    except MemoryError:
        raise
    except Exception:
        return found
    return found


class _FileReader:
    """Reads names, sizes and beginnings of files of one PDF, and unpacks no more than it has to."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._binding = mupdf().mupdf
        self._left = _MOST_UNPACKED
        self._left_stored = _MOST_STORED_OF_ALL
        self.is_damaged = False
        """Whether an entry says nothing of a file."""

    def of_document(self) -> Iterator[AttachmentNote]:
        binding = self._binding
        pdf = mupdf()._as_pdf_document(self._handle)
        tree = binding.pdf_load_name_tree(pdf, binding.pdf_new_name("EmbeddedFiles"))
        for at in range(min(binding.pdf_dict_len(tree), _MOST_FILES)):
            yield from self._note(binding.pdf_dict_get_val(tree, at))

    def of_page(self, page: Any, turn: Callable[[Box], Box]) -> Iterator[AttachmentNote]:
        binding = self._binding
        if self._handle.xref_get_key(page.xref, "Annots")[0] == "null":
            return  # asking for the first one loads them all, .1 ms for a page that has none
        annotation, count = page.first_annot, 0
        while annotation is not None and count < _MOST_FILES:
            if annotation.type[0] == _ATTACHED_TO_PLACE:
                held = binding.pdf_annot_obj(mupdf().mupdf.PdfAnnot(annotation.this))
                yield from self._note(binding.pdf_dict_gets(held, "FS"), turn(tuple(annotation.rect)))
                count += 1
            annotation = annotation.next

    def _note(self, spec: Any, box: Box | None = None) -> Iterator[AttachmentNote]:
        binding = self._binding
        if not binding.pdf_is_dict(spec):
            self.is_damaged = True
            return
        names = (binding.pdf_to_text_string(binding.pdf_dict_gets(spec, key)) for key in _NAMES)
        held = binding.pdf_dict_gets(spec, "EF")
        streams = (binding.pdf_dict_gets(held, key) for key in _NAMES)
        stream = next((one for one in streams if binding.pdf_is_stream(one)), None)
        head, size = (b"", None) if stream is None else self._head(stream)
        said = " ".join(binding.pdf_to_text_string(binding.pdf_dict_gets(spec, "Desc")).split())
        yield AttachmentNote.of(next(filter(None, names), ""), head, size, box, said[:_LONGEST])

    def _head(self, stream: Any) -> tuple[bytes, int | None]:
        """The beginning of a file and its size; the size that the PDF claims where counting would be dear."""
        binding = self._binding
        claimed = binding.pdf_dict_getp(stream, "Params/Size")
        size = int(binding.pdf_to_int64(claimed)) if binding.pdf_is_int(claimed) else -1
        known = size if size >= 0 else None
        stored = int(binding.pdf_to_int64(binding.pdf_dict_gets(stream, "Length")))
        if not 0 < stored <= min(_MOST_STORED, self._left_stored):
            return b"", known
        self._left_stored -= stored
        number = binding.pdf_to_num(stream)
        filters = self._filters(stream)
        if filters not in ([], ["FlateDecode"]):
            return b"", known
        raw: bytes = self._handle.xref_stream_raw(number) or b""
        if not filters:
            return raw[:SNIFF_BYTES], len(raw)
        return self._unpacked(raw, known)

    def _filters(self, stream: Any) -> Sequence[str]:
        binding = self._binding
        held = binding.pdf_dict_gets(stream, "Filter")
        if binding.pdf_is_array(held):
            count = binding.pdf_array_len(held)
            return [binding.pdf_to_name(binding.pdf_array_get(held, at)) for at in range(min(count, 8))]
        return [binding.pdf_to_name(held)] if binding.pdf_is_name(held) else []

    def _unpacked(self, raw: bytes, claimed: int | None) -> tuple[bytes, int | None]:
        unpacking = zlib.decompressobj()
        try:
            head = unpacking.decompress(raw, SNIFF_BYTES)
            size = len(head)
            while unpacking.unconsumed_tail and size < self._left:
                size += len(unpacking.decompress(unpacking.unconsumed_tail, _PIECE))
        except zlib.error:
            return b"", claimed
        self._left -= size
        return head, size if unpacking.eof else claimed
