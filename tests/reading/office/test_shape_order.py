"""Shapes are read as the page shows them: from above in a column, from the left in a row, else as the file has them."""

from __future__ import annotations

import io
import struct
import zipfile
from itertools import permutations

import pytest

from quire.reading.office.shape_order import ShapeBox, reading_order, reads_leftward
from tests.reading.office.conftest import ReadMarkdown
from tests.reading.office.outlook_files import compound_file
from tests.support.office_files import docx, odf, pptx, relations, shape, zipped

_ABOVE, _LEFT, _RIGHT, _BELOW = (
    ShapeBox(*one) for one in ((0, 0, 100, 20), (0, 30, 40, 80), (60, 35, 100, 80), (0, 90, 100, 99))
)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_any_order_of_the_file_gives_the_order_of_the_page(order: tuple[int, ...]) -> None:
    boxes = [_ABOVE, _LEFT, _RIGHT, _BELOW]
    found = reading_order([boxes[at] for at in order])
    assert [order[at] for at in found] == [0, 1, 2, 3]


def test_rows_begin_at_the_right_where_text_runs_to_the_left() -> None:
    assert reading_order([_LEFT, _RIGHT], leftward=True) == [1, 0]
    assert [reads_leftward(one) for one in ("שלום ab", "Ab ש", "", "12")] == [True, False, False, False]


def test_cards_that_are_drawn_one_after_the_other_stay_together() -> None:
    cards = [ShapeBox(x, y, x + 30, y + 20) for x in (0, 40, 80) for y in (0, 30)]
    assert reading_order(cards) == list(range(6))


def test_shapes_that_overlap_or_have_no_place_keep_theirs() -> None:
    boxes = [ShapeBox(0, 50, 100, 90), ShapeBox(0, 20, 100, 80), None, ShapeBox(5, 5, 5, 9)]
    assert reading_order(boxes) == [0, 1, 2, 3]
    assert reading_order([_BELOW, _ABOVE] * 150) == list(range(300))


def test_shapes_of_a_slide_are_read_from_above(markdown: ReadMarkdown) -> None:
    shapes = (
        shape("foot", box=(0, 900, 900, 50))
        + shape("right", box=(500, 300, 400, 500))
        + shape("left", box=(0, 310, 400, 500))
        + shape("Title", "title", box=(0, 0, 900, 200))
    )
    assert markdown(pptx([shapes])) == "# Title\n\nleft\n\nright\n\nfoot"


def test_a_placeholder_is_where_its_layout_or_its_master_has_it(markdown: ReadMarkdown) -> None:
    slide = (
        shape("drawn", box=(0, 600, 900, 100)) + shape("sub", "subTitle", name="4") + shape("body", "body")
    )
    names = (
        'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    )
    layout = shape("", "subTitle", (0, 0, 900, 100), "4")
    master = shape("", "subTitle", (0, 950, 900, 50), "4") + shape("", "body", (0, 200, 900, 300))
    held = "<p:{0} {1}><p:cSld><p:spTree>{2}</p:spTree></p:cSld></p:{0}>"
    parts = {
        "ppt/slides/_rels/slide1.xml.rels": relations(("a", "slideLayout", "../layouts/one.xml")),
        "ppt/layouts/_rels/one.xml.rels": relations(("b", "slideMaster", "../masters/one.xml")),
        "ppt/layouts/one.xml": held.format("sldLayout", names, layout),
        "ppt/masters/one.xml": held.format("sldMaster", names, master),
    }
    assert markdown(_with_parts(pptx([slide]), parts)) == "sub\n\nbody\n\ndrawn"
    parts["ppt/layouts/one.xml"] = "<broken"
    assert markdown(_with_parts(pptx([slide]), parts)) == "body\n\ndrawn\n\nsub"


def _with_parts(package: bytes, parts: dict[str, str]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    return zipped({**held, **parts})


def test_a_group_of_a_slide_stays_together(markdown: ReadMarkdown) -> None:
    frame = '<p:grpSpPr><a:xfrm><a:off x="0" y="100"/><a:ext cx="300" cy="100"/></a:xfrm></p:grpSpPr>'
    group = (
        f"<p:grpSp>{frame}{shape('two', box=(0, 900, 99, 99))}{shape('one', box=(0, 0, 99, 99))}</p:grpSp>"
    )
    shapes = shape("last", box=(0, 300, 300, 50)) + group + shape("first", box=(0, 0, 300, 50))
    assert markdown(pptx([shapes])) == "first\n\none\n\ntwo\n\nlast"


def test_shapes_of_an_open_slide_are_read_from_above(markdown: ReadMarkdown) -> None:
    def box(text: str, left: str, top: str) -> str:
        place = f'svg:x="{left}" svg:y="{top}" svg:width="4cm" svg:height="20mm"' if left else ""
        inner = f"<draw:text-box><text:p>{text}</text:p></draw:text-box>"
        return f"<draw:frame {place}>{inner}</draw:frame>"

    svg = "xmlns:svg='urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0'"
    group = f"<draw:g>{box('b', '1in', '4cm')}{box('c', '1in', '6cm')}</draw:g>"
    shapes = box("foot", "0cm", "9cm") + group + box("a", "0pt", "-1cm") + box("nowhere", "", "")
    body = f"<draw:page {svg}>{shapes}</draw:page>"
    assert markdown(odf("presentation", body)) == "a\n\nb\n\nc\n\nfoot\n\nnowhere"


def _text_box(text: str, left: int, top: int, origin: str = "paragraph") -> str:
    place = (
        f'<wp:positionH relativeFrom="column"><wp:posOffset>{left}</wp:posOffset></wp:positionH>'
        f'<wp:positionV relativeFrom="{origin}"><wp:posOffset>{top}</wp:posOffset></wp:positionV>'
        '<wp:extent cx="400" cy="300"/>'
    )
    inner = f"<w:txbxContent><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:txbxContent>"
    return f"<w:r><w:drawing><wp:anchor>{place}<x>{inner}</x></wp:anchor></w:drawing></w:r>"


def test_text_boxes_of_a_paragraph_are_read_as_the_page_has_them(markdown: ReadMarkdown) -> None:
    boxes = _text_box("right", 500, -50) + _text_box("left", 0, 0) + _text_box("above", 0, -900)
    assert markdown(docx(f"<w:p>{boxes}</w:p>")) == "above\n\nleft\n\nright"
    boxes = _text_box("one", 500, 0) + _text_box("two", 0, 0, origin="page") + _text_box("three", 500, -900)
    assert markdown(docx(f"<w:p>{boxes}</w:p>")) == "two\n\nthree\n\none"


def test_text_boxes_of_a_group_are_read_from_above(markdown: ReadMarkdown) -> None:
    def held(text: str, top: int) -> str:
        frame = f'<a:xfrm><a:off x="0" y="{top}"/><a:ext cx="50" cy="20"/></a:xfrm>'
        inner = f"<w:txbxContent><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:txbxContent>"
        return f"<x><spPr>{frame}</spPr><txbx>{inner}</txbx></x>"

    group = f"<wp:inline>{held('second', 40)}{held('first', 0)}</wp:inline>"
    assert markdown(docx(f"<w:p><w:r><w:drawing>{group}</w:drawing></w:r></w:p>")) == "first\n\nsecond"


def test_shapes_of_an_old_slide_are_read_from_above(markdown: ReadMarkdown) -> None:
    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HHI", 0xF, kind, len(data)) + data

    def drawn(text: str, *box: int, form: str = "<4h") -> bytes:
        words = record(3999, struct.pack("<I", 4)) + record(4008, text.encode())
        left, top, right, bottom = box
        anchor = record(0xF010, struct.pack(form, top, left, right, bottom))
        return record(0xF004, anchor + record(0xF00D, words))

    shapes = drawn("foot", 0, 90, 100, 99) + drawn("right", 60, 35, 100, 80, form="<4i")
    shapes += drawn("left", 0, 30, 40, 80) + drawn("head", 0, 0, 100, 20)
    slide = record(1006, record(1036, record(0xF002, record(0xF003, shapes))))
    document = record(1000, record(4080, record(1011, struct.pack("<5I", 2, 0, 0, 256, 0))))
    data = document + slide
    directory = len(data)
    data += record(6002, struct.pack("<3I", 1 | 2 << 20, 0, len(document)))
    edit = len(data)
    data += record(4085, struct.pack("<IHBBIIIIHH", 0, 0, 0, 3, 0, directory, 1, 9, 0, 0))
    user = record(4086, struct.pack("<III", 20, 0xE391C05F, edit) + bytes(20))
    found = markdown(compound_file({"PowerPoint Document": data, "Current User": user}))
    assert found == "head\n\nleft\n\nright\n\nfoot"
