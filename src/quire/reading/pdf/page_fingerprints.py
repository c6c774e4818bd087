"""Fingerprints of the pages of a PDF: of content stream, resources, boxes, rotation, fields, links and tags.

Objects are hashed by what is in them, not by their numbers, which change when a file is saved. A program that writes
the whole file anew (fonts cut to other letters, streams compressed otherwise) makes other fingerprints of equal pages;
`content_fingerprints` finds these again where reading them costs more than comparing them.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from quire.reading.files.document_source import PdfSource
from quire.reading.pdf.attached_files import attached_files
from quire.reading.pdf.structure_tags import is_tagged, page_tags

_REFERENCE = re.compile(r"\b(\d{1,9}) \d{1,5} R\b")
_DEEPEST = 30
_DEEPEST_PARENT = 50


def page_fingerprints(path: str) -> list[str]:
    """One for each page; "" for a page that can't be examined. Raises DocumentError for a file that can't be opened."""
    source = PdfSource(path)
    try:
        tagged = is_tagged(source.handle)
        objects = _ObjectHashes(source.handle)
        return [_fingerprint(source.handle, number, objects, tagged) for number in range(source.page_count)]
    finally:
        source.handle.close()


def _fingerprint(handle: Any, number: int, objects: _ObjectHashes, tagged: bool) -> str:
    try:
        page = handle[number]
        digest = hashlib.sha256(page.read_contents())
        seen = [page.mediabox, page.cropbox, page.rotation, objects.of_text(_resources(handle, page.xref))]
        seen += page_notes(handle, page, tagged)
    except MemoryError:
        raise
    except Exception:  # a damaged page is read again
        return ""
    digest.update(repr(seen).encode("utf-8", "replace"))
    return digest.hexdigest()


def page_notes(handle: Any, page: Any, tagged: bool) -> list[Any]:
    """What is about a page and not in its content: fields, annotations, links, files, and tags of a tagged PDF."""
    seen: list[Any] = []
    if handle.xref_get_key(page.xref, "Annots")[0] != "null":
        seen += [
            (one.field_type, one.rect, one.field_name, one.field_value, one.field_label)
            for one in page.widgets()
        ]
        seen += [(one.type, one.rect, sorted(one.info.items())) for one in page.annots()]
        seen += [(one.get("uri"), one["from"]) for one in page.get_links()]
    seen += [(one.facts, one.box) for one in attached_files(handle, page, lambda box: box)]
    if tagged:
        tags = page_tags(page)
        seen += [sorted(tags.titles.items()), sorted(tags.items)]
    return seen


def _resources(handle: Any, xref: int) -> str:
    """The resources of a page, its own or those of a node above it."""
    for _ in range(_DEEPEST_PARENT):
        kind, value = handle.xref_get_key(xref, "Resources")
        if kind != "null":
            return str(value)
        kind, value = handle.xref_get_key(xref, "Parent")
        if kind != "xref":
            break
        xref = int(value.split()[0])
    return ""


class _ObjectHashes:
    """Hashes of objects with all that they refer to. A hash that was cut short at a cycle is not kept.

    Raises what MuPDF raises for a damaged object, and RecursionError.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._count = handle.xref_length()
        self._known: dict[int, str] = {}
        self._open: set[int] = set()
        self._is_cut = False

    def of_text(self, text: str, depth: int = 0) -> str:
        """The text of an object with the hashes of other objects in place of their numbers."""
        return _REFERENCE.sub(lambda found: self._of(int(found[1]), depth), text)

    def _of(self, xref: int, depth: int) -> str:
        known = self._known.get(xref)
        if known is not None:
            return known
        if depth > _DEEPEST:  # what is below would not be in the hash
            raise RecursionError(f"Objects refer to others more than {_DEEPEST} deep.")
        if xref in self._open or not 0 < xref < self._count:
            self._is_cut = True
            return "cycle"
        was_cut, self._is_cut = self._is_cut, False
        self._open.add(xref)
        try:
            text = self.of_text(self._handle.xref_object(xref, compressed=True), depth + 1)
            digest = hashlib.sha256(text.encode("utf-8", "replace"))
            if self._handle.xref_is_stream(xref):
                digest.update(self._handle.xref_stream_raw(xref))
        finally:
            self._open.discard(xref)
        if not self._is_cut:
            self._known[xref] = digest.hexdigest()
        self._is_cut = self._is_cut or was_cut
        return digest.hexdigest()
