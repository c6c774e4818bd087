"""Reads what a PDF has beside its visible text: outline, links, form fields, embedded files, hidden text.

Runs in the child pool. Weakness: text under a drawing of another colour than its own is not found to be hidden.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from quire.domain.element import Box, has_point, hull
from quire.domain.included_details import DocumentDetail
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.pdf.attached_files import listed_files
from quire.reading.pdf.form_fields import form_fields
from quire.reading.pdf.hidden_text import take_hidden
from quire.reading.pdf.mupdf import mupdf, text_flags

_MOST_ENTRIES = 10_000
_MOST_TEXT = 4_000
_WHITE = 0.97
_TRANSPARENT = 0.05
_TINY_PT = 1.0
_INVISIBLE_MODE = 3
_PICTURES = ("fill-image", "fill-imgmask")
_GROUNDS = ("fill-path", "fill-image", "fill-imgmask", "fill-shade")


def pdf_details(path: str, password: str | None, wanted: Sequence[str], pages: Sequence[int]) -> str:
    """A JSON object with a list for each name in `wanted`, of `pages` (from 1); empty lists if it is no PDF.

    `truncated` names the lists that are not complete: they were cut at 10,000 entries, or ended at a part of the file
    that is damaged. Raises what `inspect` raises for a document that can't be opened.
    """
    source = open_documents().get(path, password)
    found: dict[str, Any] = {name: [] for name in wanted}
    cut: list[str] = []
    if isinstance(source, PdfSource):
        readers = {
            DocumentDetail.OUTLINE: _outline,
            DocumentDetail.LINKS: _links,
            DocumentDetail.FORM_FIELDS: _fields,
            DocumentDetail.EMBEDDED_FILES: _files,
            DocumentDetail.HIDDEN_TEXT: _hidden,
        }
        numbers = [number for number in pages if 1 <= number <= source.handle.page_count]
        for name in wanted:
            read = readers.get(DocumentDetail(name))
            if read is not None and not _is_complete(found[name], read(source.handle, numbers)):
                cut.append(name)
    return json.dumps({**found, **({"truncated": cut} if cut else {})})


def _is_complete(into: list[dict[str, Any]], entries: Iterable[dict[str, Any]]) -> bool:
    """Adds the entries to the list; False if there are too many, or if a damaged part of the file ends them."""
    try:
        for entry in entries:
            if len(into) == _MOST_ENTRIES:
                return False
            into.append(entry)
    except MemoryError:
        raise
    except Exception:  # a damaged part costs its own list, never the others
        return False
    return True


def _outline(document: Any, _numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    for level, title, page in document.get_toc(simple=True):
        yield {"level": level, "title": str(title)[:_MOST_TEXT], "page": page if page > 0 else None}


def _links(document: Any, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    for number in numbers:
        for link in document[number - 1].get_links():
            entry: dict[str, Any] = {"page": number, "box": _rounded(tuple(link["from"]))}
            target = link.get("uri") or link.get("file")
            if target:
                yield {**entry, "address": str(target)[:_MOST_TEXT]}
            elif isinstance(link.get("page"), int) and link["page"] >= 0:
                yield {**entry, "to_page": link["page"] + 1}


def _fields(document: Any, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    for number in numbers:
        page = document[number - 1]
        for one in form_fields(page, functools.partial(_turned, matrix=page.rotation_matrix), ""):
            yield {
                "page": number,
                "box": _rounded(one.box),
                "name": one.name,
                "value": one.value[:_MOST_TEXT],
            }


def _files(document: Any, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    for number, note in listed_files(document, [document[number - 1] for number in numbers]):
        yield {
            "name": note.facts.name,
            "size": note.facts.size,
            "description": note.description or None,
            "page": number,
        }


def _hidden(document: Any, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Runs of hidden text; spans that are hidden for the same reason are one entry."""
    for number in numbers:
        page = document[number - 1]
        found = list(_hidden_runs(page, number))
        yield from found
        # What Markdown leaves out, and no single span says of itself: text in the colour of the drawing around it.
        known = "".join("".join(one["text"].split()) for one in found)
        content = page.get_textpage(flags=text_flags()).extractDICT()
        pictures = [image["bbox"] for image in page.get_image_info()]
        for one in take_hidden(page, content, page.get_cdrawings(), pictures):
            if not one.is_copy and "".join(one.text.split()) not in known:
                yield _run(number, "covered", [one.text], [_turned(one.box, page.rotation_matrix)])


def _hidden_runs(page: Any, number: int) -> Iterator[dict[str, Any]]:
    turned = page.rotation_matrix
    shown = page.rect
    drawn = [(kind, _turned(box, turned)) for kind, box, *_ in page.get_bboxlog()]
    reason, texts, boxes = "", list[str](), list[Box]()
    for span in page.get_texttrace():
        text = "".join(chr(char[0]) for char in span["chars"] if char[0] > 0)
        box = _turned(tuple(span["bbox"]), turned)
        why = _why_hidden(span, box, tuple(shown), drawn) if text.strip() else reason
        if why != reason and texts:
            yield _run(number, reason, texts, boxes)
            texts, boxes = [], []
        reason = why
        if why and text.strip():
            texts.append(text)
            boxes.append(box)
    if texts:
        yield _run(number, reason, texts, boxes)


def _run(number: int, reason: str, texts: list[str], boxes: list[Box]) -> dict[str, Any]:
    text = " ".join(" ".join(texts).split())
    return {"page": number, "reason": reason, "text": text[:_MOST_TEXT], "box": _rounded(hull(boxes))}


def _why_hidden(span: dict[str, Any], box: Box, shown: Box, drawn: Sequence[tuple[str, Box]]) -> str:
    """`invisible`, `transparent`, `outside`, `tiny`, `covered` or `white`; empty if the text can be seen."""
    place = span["seqno"]
    checks: dict[str, Callable[[], bool]] = {
        "invisible": lambda: span["type"] == _INVISIBLE_MODE,
        "transparent": lambda: span["opacity"] <= _TRANSPARENT,
        "outside": lambda: (
            box[2] <= shown[0] or box[0] >= shown[2] or box[3] <= shown[1] or box[1] >= shown[3]
        ),
        "tiny": lambda: span["size"] < _TINY_PT,
        "covered": lambda: any(kind in _PICTURES and _holds(one, box) for kind, one in drawn[place + 1 :]),
        "white": lambda: _is_white(span) and not _has_ground(box, drawn[:place]),
    }
    return next((reason for reason, holds in checks.items() if holds()), "")


def _is_white(span: dict[str, Any]) -> bool:
    return span["type"] == 0 and bool(span["color"]) and min(span["color"]) >= _WHITE


def _has_ground(box: Box, drawn: Sequence[tuple[str, Box]]) -> bool:
    """Whether something was drawn below the centre of the box."""
    centre = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    return any(kind in _GROUNDS and has_point(one, centre) for kind, one in drawn)


def _holds(outer: Box, inner: Box) -> bool:
    return (
        outer[0] <= inner[0] + 1
        and outer[1] <= inner[1] + 1
        and outer[2] >= inner[2] - 1
        and outer[3] >= inner[3] - 1
    )


def _turned(box: Any, matrix: Any) -> Box:
    found = mupdf().Rect(box) * matrix
    return (found.x0, found.y0, found.x1, found.y1)


def _rounded(box: Box) -> list[float]:
    return [round(value, 1) for value in box]
