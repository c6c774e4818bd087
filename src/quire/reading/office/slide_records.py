"""The records of a PowerPoint file of before 2007 ([MS-PPT], [MS-ODRAW]): slides, notes, shapes and their paragraphs.

A record that says it is longer than what holds it is cut off there; records nested too deep are left out.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from quire.errors import DamagedError, PasswordRequiredError
from quire.reading.office.compound_file import CompoundFile
from quire.reading.office.shape_order import ShapeBox, reading_order, reads_leftward
from quire.reading.office.slide_numbers import AutoNumber, auto_numbers, letter_runs

TITLES = frozenset({0, 6})
BODIES = frozenset({1, 7, 8})
"""Kinds of text that are lists by default."""
RUNNING = {7: "dt", 8: "sldNum", 9: "ftr", 10: "hdr"}
"""Places that hold a date, a slide's number, a footer or a header, by their names in newer files."""

_ENCRYPTED = 0xF3D1C4DF
_DOCUMENT, _SLIDE_LIST, _SLIDE_PLACE = 1000, 4080, 1011
_NOTES_ATOM, _DRAWING, _SHOW_INFO = 1009, 1036, 1017
_HIDDEN_FLAG = 1 << 2
_TEXT_KIND, _WIDE_TEXT, _NARROW_TEXT, _STYLE, _OUTLINE_TEXT = 3999, 4000, 4008, 4001, 3998
_PLACEHOLDER, _TAGS, _TAG_DATA, _FURTHER_STYLE = 3011, 5000, 5003, 4012
_GROUP, _SHAPE, _SHAPE_ATOM, _ANCHOR, _CLIENT_ANCHOR = 0xF003, 0xF004, 0xF00A, 0xF00F, 0xF010
_OBJECT_LIST, _EMBEDDED_OBJECT, _OBJECT_ATOM, _OBJECT_BYTES, _OBJECT_REFERENCE = 1033, 4044, 4035, 4113, 3009
_MOST_OBJECT_BYTES = 64 << 20
_TEXT_BOX, _CLIENT_DATA = 0xF00D, 0xF011
_PROPERTIES = (0xF00B, 0xF122)
_TABLE_PROPERTY, _PICTURE_PROPERTY = 0x039F, 0x0104
_USER_EDIT, _DIRECTORY = 4085, 6002
_MOST_EDITS, _DEEPEST = 10_000, 12
_PARAGRAPH_FIELDS = (
    (0x0F, 2),
    (0x80, 2),
    (0x10, 2),
    (0x40, 2),
    (0x20, 4),
    (0x800, 2),
    (0x1000, 2),
    (0x2000, 2),
    (0x4000, 2),
    (0x100, 2),
    (0x400, 2),
    (0x8000, 2),
)
"""Optional fields of a paragraph's properties, in their order: (bits that say there is one, bytes)."""


class Record(NamedTuple):
    kind: int
    instance: int
    data: bytes


class SlideParagraph(NamedTuple):
    """`has_bullet` is None where only the slide's master says it."""

    text: str
    depth: int = 0
    has_bullet: bool | None = None
    number: AutoNumber | None = None


@dataclass(slots=True)
class SlideShape:
    """`text_kind` is -1 without a text. `cells` are the shapes of a table's cells."""

    text_kind: int = -1
    placeholder: int = 0
    paragraphs: list[SlideParagraph] = field(default_factory=list)
    box: tuple[int, int, int, int] = (0, 0, 0, 0)
    is_picture: bool = False
    object_id: int = 0
    """Of the embedded object that it shows, 0 for none."""
    cells: list[SlideShape] | None = None


@dataclass(slots=True)
class Slide:
    shapes: list[SlideShape]
    notes: list[SlideShape] = field(default_factory=list)
    is_hidden: bool = False


def slides(file: CompoundFile) -> tuple[list[Slide], dict[int, bytes]]:
    """The slides in the order of the show, and the embedded objects by their ids.

    Raises DamagedError or PasswordRequiredError.
    """
    user, data = file.stream("Current User"), file.stream("PowerPoint Document")
    if len(user) < 20 or not data:
        raise DamagedError("The presentation is damaged: its slides can't be found.")
    if _u32(user, 12) == _ENCRYPTED:
        raise PasswordRequiredError(
            "The presentation is protected by a password, which Quire can't use for office files. "
            "Save it without one and send that copy."
        )
    places, document = _directory(data, _u32(user, 16))
    lists = [one for one in _at(data, document) if one.kind == _SLIDE_LIST]
    notes: dict[int, list[SlideShape]] = {}
    for _, offset, _ in _objects(lists, 2, places):
        held = _at(data, offset)
        owner = next((_u32(one.data, 0) for one in held if one.kind == _NOTES_ATOM), 0)
        notes[owner] = _shapes(held, _Outline([]))
    found: list[Slide] = []
    for name, offset, texts in _objects(lists, 0, places):
        outline = _Outline(texts)
        held = _at(data, offset)
        shapes = _shapes(held, outline)
        found.append(Slide(shapes + outline.unused(), notes.get(name, []), _is_hidden(held)))
    return found, _embedded(data, document, places)


def _embedded(data: bytes, document: int, places: dict[int, int]) -> dict[int, bytes]:
    """The bytes of each embedded object by its id."""
    found: dict[int, bytes] = {}
    left = _MOST_OBJECT_BYTES
    listed = (one for held in _at(data, document) if held.kind == _OBJECT_LIST for one in records(held.data))
    for entry in listed:
        about = next((one.data for one in records(entry.data) if one.kind == _OBJECT_ATOM), b"")
        offset = places.get(_u32(about, 16), -1)
        if entry.kind != _EMBEDDED_OBJECT or len(about) < 20 or not 0 <= offset <= len(data) - 8:
            continue
        stored = next(records(data[offset : offset + 8 + _u32(data, offset + 4)]))
        if stored.kind == _OBJECT_BYTES:
            found[_u32(about, 8)] = inner = _unpacked(stored, left)
            left -= len(inner)
    return found


def _unpacked(stored: Record, most: int) -> bytes:
    """An object that may be compressed; empty where it is larger than that, or damaged."""
    if not stored.instance:
        return stored.data if len(stored.data) <= most else b""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(stored.data[4:], most) if most > 0 else b""
    except zlib.error:
        return b""
    return b"" if unpacker.unconsumed_tail else found


def _is_hidden(held: list[Record]) -> bool:
    """Whether the slide is not shown in the show."""
    flags = next(
        (_u32(one.data, 8) >> 16 for one in held if one.kind == _SHOW_INFO and len(one.data) > 11), 0
    )
    return bool(flags & _HIDDEN_FLAG)


class _Outline:
    """The texts of a slide in the outline, to which its shapes refer."""

    def __init__(self, texts: list[list[Record]]) -> None:
        self._texts = texts
        self._used: set[int] = set()

    def text(self, place: int) -> list[Record] | None:
        if place >= len(self._texts):
            return None
        self._used.add(place)
        return self._texts[place]

    def unused(self) -> list[SlideShape]:
        """A shape for each text that no shape refers to."""
        texts = (_text(held) for place, held in enumerate(self._texts) if place not in self._used)
        return [SlideShape(kind, paragraphs=paragraphs) for kind, paragraphs in texts]


def _objects(
    lists: list[Record], instance: int, places: dict[int, int]
) -> Iterator[tuple[int, int, list[list[Record]]]]:
    """(id, offset in the file, texts of the outline) of each slide or page of notes, each once."""
    seen: set[int] = set()
    for name, persist, texts in (
        entry for one in lists if one.instance == instance for entry in _entries(one)
    ):
        if persist not in seen:
            seen.add(persist)
            yield name, places.get(persist, -1), texts


def records(data: bytes) -> Iterator[Record]:
    at = 0
    while at + 8 <= len(data):
        version, kind, size = struct.unpack_from("<HHI", data, at)
        yield Record(kind, version >> 4, data[at + 8 : at + 8 + size])
        at += 8 + size


def _at(data: bytes, offset: int) -> list[Record]:
    """The records in the container at that offset of the file."""
    if not 0 <= offset <= len(data) - 8:
        return []
    return list(records(data[offset + 8 : offset + 8 + _u32(data, offset + 4)]))


def _directory(data: bytes, edit: int) -> tuple[dict[int, int], int]:
    """(offsets of objects, offset of the document). Each save of the file added an edit; the last is read first."""
    places: dict[int, int] = {}
    document = None
    read: set[int] = set()
    for _ in range(_MOST_EDITS):
        if (
            not 0 < edit <= len(data) - 36
            or int.from_bytes(data[edit + 2 : edit + 4], "little") != _USER_EDIT
        ):
            break
        before, directory, first = _u32(data, edit + 16), _u32(data, edit + 20), _u32(data, edit + 24)
        document = first if document is None else document
        if directory not in read:
            read.add(directory)
            for name, offset in _directory_entries(data, directory):
                places.setdefault(name, offset)
        if before >= edit:  # an edit follows those before it
            break
        edit = before
    if document is None or document not in places:
        raise DamagedError("The presentation is damaged: its slides can't be found.")
    return places, places[document]


def _directory_entries(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    if at + 8 > len(data) or int.from_bytes(data[at + 2 : at + 4], "little") != _DIRECTORY:
        return
    end = min(len(data), at + 8 + _u32(data, at + 4))
    at += 8
    while at + 4 <= end:
        head = _u32(data, at)
        at += 4
        for place in range(head >> 20):
            if at + 4 > end:
                return
            yield (head & 0xFFFFF) + place, _u32(data, at)
            at += 4


def _entries(slide_list: Record) -> Iterator[tuple[int, int, list[list[Record]]]]:
    """(id, object, texts of the outline) of each slide; a text is its kind, its characters and their properties."""
    name, persist, texts = 0, -1, list[list[Record]]()
    for one in records(slide_list.data):
        if one.kind == _SLIDE_PLACE:
            if persist >= 0:
                yield name, persist, texts
            name, persist, texts = _u32(one.data, 12), _u32(one.data, 0), []
        elif one.kind == _TEXT_KIND:
            texts.append([one])
        elif texts:
            texts[-1].append(one)
    if persist >= 0:
        yield name, persist, texts


def _shapes(held: list[Record], outline: _Outline) -> list[SlideShape]:
    found: list[SlideShape] = []
    for one in held:
        if one.kind == _DRAWING:
            for drawing in records(one.data):
                found += _group(list(records(drawing.data)), outline, 0)
    return found


def _group(held: list[Record], outline: _Outline, depth: int) -> list[SlideShape]:
    """The shapes in the order in which they are read; those of a group stay together."""
    found: list[list[SlideShape]] = []
    boxes: list[ShapeBox | None] = []
    for one in held:
        if one.kind == _SHAPE:
            found.append([_shape(one, outline)])
            boxes.append(_box(one))
        elif one.kind == _GROUP and depth < _DEEPEST:
            inner = list(records(one.data))
            shapes = _group(inner, outline, depth + 1)
            is_table = bool(inner) and _TABLE_PROPERTY in _properties(inner[0])
            found.append([SlideShape(cells=shapes)] if is_table else shapes)
            boxes.append(_box(inner[0]) if inner else None)
    words = " ".join(line.text for shapes in found for shape in shapes for line in shape.paragraphs)
    order = reading_order(boxes, leftward=reads_leftward(words))
    return [shape for at in order for shape in found[at]]


def _box(shape: Record) -> ShapeBox | None:
    """Where a shape is in what holds it. The first shape of a group says it of the whole group."""
    for one in records(shape.data):
        if one.kind == _ANCHOR and len(one.data) >= 16:
            return ShapeBox(*struct.unpack_from("<4i", one.data))
        if one.kind == _CLIENT_ANCHOR and len(one.data) >= 8:
            is_wide = len(one.data) >= 16
            top, left, right, bottom = struct.unpack_from("<4i" if is_wide else "<4h", one.data)
            return ShapeBox(left, top, right, bottom)
    return None


def _shape(record: Record, outline: _Outline) -> SlideShape:
    shape = SlideShape(is_picture=_PICTURE_PROPERTY in _properties(record))
    held: list[Record] = []
    numbers: list[AutoNumber | None] = []
    for one in records(record.data):
        if one.kind == _ANCHOR and len(one.data) >= 16:
            left, top, right, bottom = struct.unpack_from("<4i", one.data)
            shape.box = (left, top, right, bottom)
        elif one.kind == _CLIENT_DATA:
            places = [
                inner.data[4]
                for inner in records(one.data)
                if inner.kind == _PLACEHOLDER and len(inner.data) > 4
            ]
            shape.placeholder = places[0] if places else 0
            shape.object_id = next(
                (_u32(inner.data, 0) for inner in records(one.data) if inner.kind == _OBJECT_REFERENCE), 0
            )
            numbers = _numbers(one.data)
        elif one.kind == _TEXT_BOX:
            held = list(records(one.data))
            shared = [_u32(inner.data, 0) for inner in held if inner.kind == _OUTLINE_TEXT]
            if shared:
                held = outline.text(shared[0]) or held
    if held:
        shape.text_kind, shape.paragraphs = _text(held, numbers)
    return shape


def _numbers(client_data: bytes) -> list[AutoNumber | None]:
    """How the paragraphs of a shape are numbered, which PowerPoint 2000 put into a tag of the shape."""
    tags = (one for one in records(client_data) if one.kind == _TAGS)
    held = (part for tag in tags for inner in records(tag.data) for part in records(inner.data))
    data = (one for part in held if part.kind == _TAG_DATA for one in records(part.data))
    found = (one.data for one in data if one.kind == _FURTHER_STYLE)
    return next((numbers for data in found if (numbers := auto_numbers(data))), [])


def _properties(shape: Record) -> set[int]:
    """Numbers of the properties that a shape sets to something."""
    found: set[int] = set()
    for one in records(shape.data):
        if one.kind in _PROPERTIES:
            for place in range(min(one.instance, len(one.data) // 6)):
                name, value = struct.unpack_from("<HI", one.data, 6 * place)
                if value:
                    found.add(name & 0x3FFF)
    return found


def _text(held: list[Record], numbers: Sequence[AutoNumber | None] = ()) -> tuple[int, list[SlideParagraph]]:
    kind, text, style = 4, "", b""
    for one in held:
        if one.kind == _TEXT_KIND:
            kind = _u32(one.data, 0)
        elif one.kind == _WIDE_TEXT:
            text = one.data.decode("utf-16-le", "replace")
        elif one.kind == _NARROW_TEXT:
            text = one.data.decode("latin-1")
        elif one.kind == _STYLE:
            style = one.data
    runs, letters_at = _paragraph_runs(style, len(text) + 1)
    letters = list(letter_runs(style, letters_at, len(text) + 1)) if numbers else []
    found: list[SlideParagraph] = []
    at, place, letter = 0, 0, 0
    for line in text.split("\r"):
        while place + 1 < len(runs) and runs[place][0] <= at:
            place += 1
        while letter + 1 < len(letters) and letters[letter][0] <= at:
            letter += 1
        _, depth, bullet = runs[place] if runs else (0, 0, None)
        entry = letters[letter][1] if letters else 0
        number = numbers[entry] if entry < len(numbers) else None
        found.append(SlideParagraph(line.replace("\x0b", "\n"), depth, bullet, number))
        at += len(line) + 1
    return kind, found


def _paragraph_runs(style: bytes, length: int) -> tuple[list[tuple[int, int, bool | None]], int]:
    """(end, depth, has a bullet) of each stretch of paragraphs with the same properties, and where these end."""
    found: list[tuple[int, int, bool | None]] = []
    at, end = 0, 0
    while end < length and at + 10 <= len(style):
        count, depth, mask = struct.unpack_from("<IHI", style, at)
        at += 10
        bullet = bool(_u32(style, at) & 1) if mask & 1 else None
        for bits, size in _PARAGRAPH_FIELDS:
            at += size if mask & bits else 0
        if mask & 0x100000:
            at += 2 + 4 * int.from_bytes(style[at : at + 2], "little")
        at += (2 if mask & 0x10000 else 0) + (2 if mask & 0xE0000 else 0) + (2 if mask & 0x200000 else 0)
        end += count
        found.append((end, min(depth, 4), bullet))
    return found, at


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
