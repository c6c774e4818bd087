"""Documents with headings in two types on pages whose text has different sizes."""

from __future__ import annotations

import pymupdf

_LINE = "The harbour office keeps a list of all boats and of the fees that they pay."


def headed_pdf(pages: int, *, sizes: tuple[float, float] = (16, 14)) -> bytes:
    """Each page has a heading in the first size, two in the second, and text in 9 or 13 points."""
    document = pymupdf.open()
    for number in range(1, pages + 1):
        page = document.new_page()
        body = 9 if number % 2 else 13
        y = 90.0
        for size, text in (
            (sizes[0], f"Chapter of page {number}"),
            (sizes[1], f"First section of page {number}"),
            (sizes[1], f"Second section of page {number}"),
        ):
            y += 2 * size
            page.insert_text((72, y), text, fontsize=size, fontname="hebo")
            for _ in range(5):
                y += 1.4 * body
                page.insert_text((72, y), _LINE[: 75 if body < 10 else 60], fontsize=body)
    content: bytes = document.tobytes()
    document.close()
    return content
