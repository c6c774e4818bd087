"""Takes text out of a page that can't be seen on it, and the copies of text that is drawn several times.

Text may be hidden if it is drawn invisibly, in type that nobody can read, or nearly in the colour of what is below or
above it. Whether it is, the picture of the page says: nothing can be read where all is of one colour. So the text layer
of a scan stays, and so does text that a clip, a shade or a picture makes visible. Text that is drawn invisibly over
other text is hidden too. Where most of the text is hidden, all of it stays: such a page shows its words as shapes, and
the hidden ones say which they are. Letters that are drawn again within their own strokes are a shadow, or bold type
made of light type.

Weakness: text under a drawing of another colour than its own, text under a picture, and hidden text on a page with
thousands of drawings is not found. Answers of models are compared with what the page's picture shows (`seen_words`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from quire.domain.element import Box, has_point, hull
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.mupdf import mupdf

HIDDEN_TEXT = "hidden_text"
"""The reason of a page that has text that can't be seen."""

_DRAWN = 16 | 32
"""MuPDF's signs of letters that are filled and of letters that have an outline."""
_TRANSPARENT = 12
"""Of 255."""
_WHITE, _NEARLY_WHITE = 0xFFFFFF, 0.97
_LEAST_TYPE_PT = 1.0
_OPAQUE = 0.9
_LEAST_AREA_PT = 4.0
_MOST_DRAWINGS = 2_000
"""Of a page whose picture is made: that of a map may take seconds."""
_SAME_COLOUR = 10
"""Of 255 shades. Letters this near to what is around them can't be seen on paper or on a screen."""
_MOST_PIXELS = 4_000_000
_MOST_PAIRS = 1_000_000
"""Of invisible and drawn texts, whose places are compared."""
_SHADOW_EM = 0.1
_INNER = 0.15
"""What of a line's height is left out at its edges: a rule or a neighbour may be there."""

Span = dict[str, Any]
RawLine = dict[str, Any]


class HiddenText(NamedTuple):
    """Text that was taken out, and where it is; a copy can be seen once."""

    text: str
    box: Box
    is_copy: bool


def take_hidden(
    page: Any, content: dict[str, Any], drawings: Sequence[dict[str, Any]], pictures: Sequence[Box]
) -> list[HiddenText]:
    """Takes hidden text and copies out of MuPDF's dictionary of a page, and returns them.

    Drawings and boxes of pictures are those of the page as it is stored.
    """
    lines = [line for block in content["blocks"] for line in block.get("lines", ())]
    spans = [span for line in lines for span in line["spans"]]
    looks = {
        (
            span["char_flags"] & _DRAWN,
            span["alpha"],
            span["color"],
            span["size"] < _LEAST_TYPE_PT and _is_tiny(span),
        )
        for span in spans
    }
    colours = {
        colour for drawn, alpha, colour, small in looks if drawn and alpha > _TRANSPARENT and not small
    }
    may_hide = len(colours) < len(looks) or any(map(_is_whitish, colours)) or _are_filled(drawings, colours)
    hidden = _hidden_spans(page, spans, drawings, pictures) if may_hide else set()
    return [*_take(content, hidden, is_copy=False), *_take(content, _copies(lines), is_copy=True)]


def _are_filled(drawings: Sequence[dict[str, Any]], colours: set[int]) -> bool:
    """Whether an area is filled with one of the colours that text has."""
    tried: set[Any] = set()
    for one in drawings[:_MOST_DRAWINGS]:
        fill = one.get("fill")
        if fill is not None and fill not in tried and _is_area(one["rect"]):
            colour = _colour(one)
            if colour is not None and any(_are_alike(colour, other) for other in colours):
                return True
            tried.add(fill)
    return False


def _is_whitish(colour: int) -> bool:
    return _are_alike(colour, _WHITE)


def _are_alike(colour: int, other: int) -> bool:
    """Whether letters in the one colour can't be told from a ground in the other."""
    if colour == other:
        return True
    return all(abs((colour >> at & 255) - (other >> at & 255)) <= _SAME_COLOUR for at in (16, 8, 0))


def _areas(drawings: Sequence[dict[str, Any]]) -> list[tuple[Box, int]]:
    """The filled areas with their colours, in the order in which they are drawn."""
    found = ((one["rect"], _colour(one)) for one in drawings if _is_area(one["rect"]))
    return [(box, colour) for box, colour in found if colour is not None]


def _colour(drawing: dict[str, Any]) -> int | None:
    """The colour of a filled drawing; None for others, and for those that let something through."""
    fill = drawing.get("fill")
    if fill is None or drawing.get("fill_opacity", 1.0) < _OPAQUE:
        return None
    if min(fill) >= _NEARLY_WHITE:
        return _WHITE
    red, green, blue = (round(255 * part) for part in fill)
    return int(red << 16 | green << 8 | blue)


def _is_area(box: Box) -> bool:
    return min(box[2] - box[0], box[3] - box[1]) >= _LEAST_AREA_PT


def _hidden_spans(
    page: Any, spans: Sequence[Span], drawings: Sequence[dict[str, Any]], pictures: Sequence[Box]
) -> set[int]:
    """The spans that may be hidden and have one colour in the picture of the page; none if most text may be hidden."""
    if len(drawings) > _MOST_DRAWINGS:
        return set()
    areas = _areas(drawings)
    grounds = {_WHITE, *(colour for _, colour in areas)}
    lost = {
        colour
        for colour in {span["color"] for span in spans}
        if any(_are_alike(colour, ground) for ground in grounds)
    }
    doubtful = [
        span
        for span in spans
        if (span["color"] in lost or _is_invisible(span) or _is_tiny(span))  # most spans are none of these
        and span["text"].strip()
        and _is_doubtful(span, areas, pictures)
    ]
    if not doubtful or 2 * _letters(doubtful) >= _letters(spans):
        return set()
    sheet = _Picture(page, [span["bbox"] for span in doubtful])
    below = _below_text(doubtful, spans)
    return {
        id(span) for span in doubtful if id(span) in below or _is_tiny(span) or sheet.is_empty(span["bbox"])
    }


def _below_text(doubtful: Sequence[Span], spans: Sequence[Span]) -> set[int]:
    """The invisible spans where other text is drawn: what the picture shows there is the other text."""
    invisible = [span for span in doubtful if _is_invisible(span)]
    drawn = [span["bbox"] for span in spans if not _is_invisible(span)] if invisible else []
    if len(invisible) * len(drawn) > _MOST_PAIRS:
        return set()
    return {id(span) for span in invisible if any(has_point(box, _middle(span["bbox"])) for box in drawn)}


def _is_invisible(span: Span) -> bool:
    return bool(not span["char_flags"] & _DRAWN or span["alpha"] <= _TRANSPARENT)


def _is_tiny(span: Span) -> bool:
    """Some fonts have a size that says nothing of their letters, so the box is asked as well."""
    if span["size"] >= _LEAST_TYPE_PT:
        return False
    x0, y0, x1, y1 = span["bbox"]
    return bool(min(x1 - x0, y1 - y0) < 2 * _LEAST_TYPE_PT)


def _middle(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _letters(spans: Iterable[Span]) -> int:
    return sum(len(span["text"]) - span["text"].count(" ") for span in spans)


def _is_doubtful(span: Span, areas: Sequence[tuple[Box, int]], pictures: Sequence[Box]) -> bool:
    middle = _middle(span["bbox"])
    if any(has_point(box, middle) for box in pictures):
        return False  # the text layer of a scan, or words on a picture
    if _is_invisible(span) or _is_tiny(span):
        return True
    ground = next((colour for box, colour in reversed(areas) if has_point(box, middle)), _WHITE)
    return _are_alike(span["color"], ground)


class _Picture:
    """The part of a page's picture that has all the boxes given, in shades of grey."""

    def __init__(self, page: Any, boxes: Sequence[Box]) -> None:
        area = mupdf().Rect(hull(boxes)) * page.rotation_matrix & page.rect
        zoom = min(1.0, (_MOST_PIXELS / max(1.0, area.width * area.height)) ** 0.5)
        scale = mupdf().Matrix(zoom, zoom)
        self._place = page.rotation_matrix * scale
        grey = mupdf().csGRAY
        self._pixels = (
            page.get_pixmap(matrix=scale, clip=area, colorspace=grey, annots=False) if area.is_valid else None
        )

    def is_empty(self, box: Box) -> bool:
        """Whether all of the box is of one colour, or too small for letters that can be read."""
        pixels = self._pixels
        if pixels is None:
            return True
        rect = mupdf().Rect(box) * self._place
        inset = _INNER * min(rect.width, rect.height)
        left, right = (
            int(min(max(0, x - pixels.x), pixels.width)) for x in (rect.x0 + inset, rect.x1 - inset)
        )
        top, end = (int(min(max(0, y - pixels.y), pixels.height)) for y in (rect.y0 + inset, rect.y1 - inset))
        rows = [
            pixels.samples_mv[y * pixels.stride + left : y * pixels.stride + right].tobytes()
            for y in range(top, end)
        ]
        return not any(rows) or max(map(max, rows)) - min(map(min, rows)) <= _SAME_COLOUR


def seen_words(
    page: Any,
    words: Sequence[Any],
    content: dict[str, Any],
    drawings: Sequence[dict[str, Any]],
    pictures: Sequence[Box],
) -> list[Any]:
    """MuPDF's words without those whose place in the picture of the page is of one colour, whatever hides them.

    No picture is made of a page where nothing can hide text.
    """
    if not words or not (pictures or _may_cover(drawings) or _has_odd_looks(content)):
        return list(words)
    sheet = _Picture(page, [word[:4] for word in words])
    return [word for word in words if not sheet.is_empty(word[:4])]


def _may_cover(drawings: Sequence[dict[str, Any]]) -> bool:
    return any(one.get("fill") is not None and _is_area(one["rect"]) for one in drawings)


def _has_odd_looks(content: dict[str, Any]) -> bool:
    """Whether some letters are pale, tiny or invisible."""
    spans = (span for block in content["blocks"] for line in block.get("lines", ()) for span in line["spans"])
    return any(_is_invisible(span) or _is_tiny(span) or _is_whitish(span["color"]) for span in spans)


def shown_text(page: Any, text: str, flags: int) -> str:
    """The text of a page without what is hidden; `text` is all of it, `flags` are those of how it was taken."""
    content = page.get_textpage(flags=flags).extractDICT()
    pictures = [image["bbox"] for image in page.get_image_info()]
    hidden = take_hidden(page, content, page.get_cdrawings(), pictures)
    if all(one.is_copy for one in hidden):
        return text
    lines = (line for block in content["blocks"] for line in block.get("lines", ()))
    return "\n".join("".join(span["text"] for span in line["spans"]) for line in lines)


def _copies(lines: Sequence[RawLine]) -> set[int]:
    """The spans of lines that are drawn again within their own strokes; the first copy stays."""
    known: dict[str, list[RawLine]] = {}
    gone: set[int] = set()
    for line in lines:
        alike = known.setdefault(line["spans"][0]["text"], [])
        if alike and any(_are_one(line, other) for other in alike):
            gone |= {id(span) for span in line["spans"]}
        else:
            alike.append(line)
    return gone


def _are_one(line: RawLine, other: RawLine) -> bool:
    reach = _SHADOW_EM * line["spans"][0]["size"]
    x0, y0, x1, y1 = line["bbox"]
    left, top, right, bottom = other["bbox"]
    if abs(y0 - top) > reach or abs(x0 - left) > reach or abs(x1 - right) > reach or abs(y1 - bottom) > reach:
        return False
    text, of_other = ("".join(span["text"] for span in one["spans"]) for one in (line, other))
    return text == of_other and not text.isspace()


def _take(content: dict[str, Any], gone: set[int], *, is_copy: bool) -> list[HiddenText]:
    """Takes the spans out of their lines; lines without any text go too."""
    taken: list[HiddenText] = []
    for block in content["blocks"] if gone else ():
        kept: list[RawLine] = []
        for line in block.get("lines", ()):
            spans = [span for span in line["spans"] if id(span) in gone]
            if spans:
                text = "".join(span["text"] for span in spans)
                taken.append(HiddenText(text, hull([span["bbox"] for span in spans]), is_copy))
            if any(id(span) not in gone and span["text"].strip() for span in line["spans"]):
                kept.append(_rest(line, gone) if spans else line)
        if "lines" in block:
            block["lines"] = kept
    return taken


def _rest(line: RawLine, gone: set[int]) -> RawLine:
    """The line with a space for each span that goes."""
    spans = [{**span, "text": " "} if id(span) in gone else span for span in line["spans"]]
    box = hull([span["bbox"] for span in line["spans"] if id(span) not in gone])
    return {**line, "spans": spans, "bbox": box}


def without_words(words: Sequence[Any], hidden: Sequence[HiddenText]) -> Iterator[Any]:
    """MuPDF's words without those of hidden texts, each as often as it is hidden at its place."""
    left = [(list(one.text.split()), one.box) for one in hidden]
    for word in words:
        middle = (word[0] + word[2]) / 2, (word[1] + word[3]) / 2
        mine = next((texts for texts, box in left if word[4] in texts and has_point(box, middle)), None)
        if mine is None:
            yield word
        else:
            mine.remove(word[4])


def without_texts(blocks: Sequence[LayoutBlock], hidden: Sequence[HiddenText]) -> list[LayoutBlock]:
    """The layout reader's blocks without hidden texts; `hidden` has its places on the page as read, as they have.

    A block of text with a hidden one in it loses all its own text: the page's lines in its box are what can be seen.
    """
    middles = [((x0 + x1) / 2, (y0 + y1) / 2) for _, (x0, y0, x1, y1), _ in hidden]
    found: list[LayoutBlock] = []
    for block in blocks:
        inside = [one for one, middle in zip(hidden, middles, strict=True) if has_point(block.box, middle)]
        if inside and not (block.rows or block.lines):
            found.append(replace(block, text=""))
        else:
            found.append(_without_each(block, inside) if inside else block)
    return found


def _without_each(block: LayoutBlock, hidden: Sequence[HiddenText]) -> LayoutBlock:
    """The table or the code with each of the texts taken out once."""
    lines, cells = list(block.lines), [list(row) for row in block.rows]
    for one in hidden:
        words = re.compile(r"\s*".join(map(re.escape, "".join(one.text.split()))))
        for texts in (lines, *cells):
            place = next((at for at, text in enumerate(texts) if words.search(text)), None)
            if place is not None:
                texts[place] = " ".join(words.sub("", texts[place], count=1).split())
                break
    return replace(block, lines=tuple(lines), rows=tuple(map(tuple, cells)))
