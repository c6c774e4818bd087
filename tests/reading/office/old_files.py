"""Office files of before 2007 as the tests want them, written record by record."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate

from tests.reading.office.outlook_files import compound_file


def word_file(
    text: str,
    looks: Sequence[tuple[int, bytes]],
    *,
    flags: int = 0x0200,
    borders: Sequence[int] = (),
    notes: Mapping[str, Sequence[tuple[int, str]]] | None = None,
) -> bytes:
    """A Word 97 file. `looks` has (style, properties) of each paragraph and cell; style 1 to 9 are headings.

    `borders` are those of the pieces of the text, all of which are stored at the same place. `notes` are "footnotes",
    "comments" (all by Ann) and "endnotes", each with the place of its mark in the text.
    """
    main, counts = len(text), [0] * 7
    tables: list[tuple[int, bytes]] = []
    for name, place, (marks_at, texts_at, width) in _NOTES:
        given = (notes or {}).get(name, ())
        tables += _note_tables(given, marks_at, texts_at, width) if given else ()
        counts[place] = sum(len(words) for _, words in given)
        text += "".join(words for _, words in given)
    borders = borders or (0, len(text))
    body = text.encode("utf-16-le")
    start = 1536
    page_at = (start + len(body) + 511) // 512 * 512
    head = bytearray(start)
    struct.pack_into("<H", head, 0, 0xA5EC)
    struct.pack_into("<H", head, 0x0A, flags)
    struct.pack_into("<7I", head, 0x4C, main, *counts[1:])
    pieces = struct.pack(f"<{len(borders)}I", *borders)
    pieces += struct.pack("<HIH", 0, start, 0) * (len(borders) - 1)
    clx = b"\x02" + struct.pack("<I", len(pieces)) + pieces
    pages = struct.pack("<2I", start, start + len(body)) + struct.pack("<I", page_at // 512)
    style = struct.pack("<5H", 0, 0xFFF1, 0, 0, 0) + b"\x04\0a\0b\0c\0d\0\0\0\0\0"
    styles = struct.pack("<HHH", 4, 11, 10) + (struct.pack("<H", len(style)) + style) * 11
    table = b""
    for place, data in ((1, styles), (13, pages), (33, clx), *tables):
        struct.pack_into("<2I", head, 0x9A + 8 * place, len(table), len(data))
        table += data
    ends = [at + 1 for at, c in enumerate(text) if c in "\r\x07"]
    page = bytearray(512)
    page[511] = len(ends)
    struct.pack_into(f"<{len(ends) + 1}I", page, 0, start, *(start + 2 * end for end in ends))
    free = 510
    for place, (number, properties) in enumerate(looks):
        look = struct.pack("<H", number) + properties
        look += bytes(1 - len(look) % 2)
        free -= len(look) + 1 & ~1
        page[free] = (len(look) + 1) // 2
        page[free + 1 : free + 1 + len(look)] = look
        page[4 * (len(ends) + 1) + 13 * place] = free // 2
    return compound_file(
        {"WordDocument": bytes(head) + body + bytes(page_at - start - len(body)) + page, "1Table": table}
    )


_NOTES = (("footnotes", 1, (2, 3, 2)), ("comments", 4, (4, 5, 30)), ("endnotes", 5, (46, 47, 2)))
"""Name, place in the counts, places of the tables of marks and texts, bytes for each mark."""


def _note_tables(
    notes: Sequence[tuple[int, str]], marks_at: int, texts_at: int, width: int
) -> list[tuple[int, bytes]]:
    marks = struct.pack(f"<{len(notes) + 1}I", *(at for at, _ in notes), 0xFFFF) + bytes(width * len(notes))
    ends = list(accumulate((len(words) for _, words in notes), initial=0))
    texts = struct.pack(f"<{len(ends) + 1}I", *ends, ends[-1] + 1)
    author = [(36, struct.pack("<H", 3) + "Ann".encode("utf-16-le"))] if width == 30 else []
    return [(marks_at, marks), (texts_at, texts), *author]


IN_TABLE = struct.pack("<HB", 0x2416, 1)
ROW_END = IN_TABLE + struct.pack("<HB", 0x2417, 1)


def slides_file(titles_and_texts: Sequence[tuple[str, str]], *, token: int = 0xE391C05F) -> bytes:
    """A PowerPoint 97 file; the texts of a slide are in the outline, paragraphs between line breaks."""
    outline = b""
    slides: list[bytes] = []
    for number, (title, text) in enumerate(titles_and_texts):
        outline += _record(1011, struct.pack("<5I", number + 2, 0, 2, 256 + number, 0))
        for kind, words in ((0, title), (1, text)):
            outline += _record(3999, struct.pack("<I", kind))
            outline += _record(4000, words.replace("\n", "\r").encode("utf-16-le"))
        shapes = [_record(0xF004, _record(0xF00D, _record(3998, struct.pack("<I", n)))) for n in (0, 1)]
        drawing = _record(0xF002, _record(0xF003, b"".join(shapes)))
        slides.append(_record(1006, _record(1036, drawing)))
    document = _record(1000, _record(4080, outline))
    offsets, data = [0], document
    for one in slides:
        offsets.append(len(data))
        data += one
    directory = len(data)
    head = 1 | len(offsets) << 20
    data += _record(6002, struct.pack(f"<{len(offsets) + 1}I", head, *offsets))
    edit = len(data)
    data += _record(4085, struct.pack("<IHBBIIIIHH", 0, 0, 0, 3, 0, directory, 1, 9, 0, 0))
    user = _record(4086, struct.pack("<III", 20, token, edit) + bytes(20))
    return compound_file({"PowerPoint Document": data, "Current User": user})


def _record(kind: int, data: bytes, instance: int = 0) -> bytes:
    return struct.pack("<HHI", instance << 4 | 0xF, kind, len(data)) + data


def workbook_file(
    rows: Sequence[Sequence[str | float]],
    *,
    first: tuple[int, int] = (0, 0),
    merged: Sequence[tuple[int, int, int, int]] = (),
) -> bytes:
    """An Excel 97 file with one sheet called "Sums". `merged` has first and last row and column of areas, from 0."""

    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    cells = b""
    for at, row in enumerate(rows):
        for column, value in enumerate(row):
            place = struct.pack("<3H", first[0] + at, first[1] + column, 0)
            if isinstance(value, str):
                text = struct.pack("<HB", len(value), 0) + value.encode("latin-1")
                cells += record(0x0204, place + text)
            else:
                cells += record(0x0203, place + struct.pack("<d", value))
    begin = record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0005, 0, 1997, 0, 0))
    sheet = record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0010, 0, 1997, 0, 0))
    high, wide = first[0] + len(rows), first[1] + max(map(len, rows))
    size = record(0x0200, struct.pack("<IIHHH", first[0], high, first[1], wide, 0))
    if merged:
        areas = b"".join(struct.pack("<4H", *area) for area in merged)
        cells += record(0x00E5, struct.pack("<H", len(merged)) + areas)
    end = record(0x000A, b"")
    name = struct.pack("<BB", 4, 0) + b"Sums"
    where = len(begin) + len(record(0x0085, bytes(6) + name)) + len(end)
    bound = record(0x0085, struct.pack("<IH", where, 0) + name)
    return compound_file({"Workbook": begin + bound + end + sheet + size + cells + end})
