"""Tells pages whose text layer is not what they show: its letters are not drawn, or a picture is drawn over them.

Such a layer was made for searching. It may be that of another page, and no viewer shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quire.domain.element import Box, has_point

_DRAWN = 16 | 32
"""MuPDF's signs of letters that are filled and of letters that have an outline."""
_TRANSPARENT = 12
"""Of 255."""
LEAST_LETTERS = 20
"""Of fewer letters nothing is said."""
_LARGE = 0.3
"""Of the page: what such a picture covers is worth a look."""
_PICTURES, _TEXTS = frozenset(("fill-image", "fill-imgmask")), frozenset(("fill-text", "stroke-text"))


def is_unseen(page: Any, content: dict[str, Any], largest_picture: float) -> bool:
    """Whether most letters of the text layer of MuPDF's `page` are not drawn, or are under a picture.

    `content` is MuPDF's dictionary of its text, `largest_picture` a share of the page.
    """
    if largest_picture < _LARGE and all(
        span["char_flags"] & _DRAWN and span["alpha"] > _TRANSPARENT
        for block in content["blocks"]
        for line in block.get("lines", ())
        for span in line["spans"]
    ):
        return False  # most pages, and letters need not be counted
    total = drawn = 0
    for block in content["blocks"]:
        for line in block.get("lines", ()):
            for span in line["spans"]:
                letters = len(span["text"]) - span["text"].count(" ")
                total += letters
                if span["char_flags"] & _DRAWN and span["alpha"] > _TRANSPARENT:
                    drawn += letters
    if total < LEAST_LETTERS:
        return False
    return 2 * drawn <= total or (largest_picture >= _LARGE and _is_covered(page))


def _is_covered(page: Any) -> bool:
    """Whether most pieces of drawn text have their middle under a large picture that is drawn later."""
    area = _LARGE * abs(page.rect)
    pictures: list[Box] = []
    texts = covered = 0
    marks: Iterable[tuple[str, Box]] = page.get_bboxlog()
    for kind, box in reversed(list(marks)):
        if kind in _PICTURES and (box[2] - box[0]) * (box[3] - box[1]) >= area:
            pictures.append(box)
        elif kind in _TEXTS:
            texts += 1
            middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
            covered += any(has_point(other, middle) for other in pictures)
    return texts > 0 and 2 * covered > texts
