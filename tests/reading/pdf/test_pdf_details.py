"""What a PDF has beside its visible text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from quire.domain.included_details import DocumentDetail, IncludedDetails
from quire.errors import RequestError
from quire.reading.pdf.pdf_details import pdf_details

OF_FILE = IncludedDetails.parse("links,outline,form_fields,embedded_files,hidden_text,changes").of_file


def made(path: Path, rotation: int = 0) -> Path:
    document = pymupdf.open()
    for _ in range(2):
        document.new_page(width=300, height=400)
    page, second = document[0], document[1]
    page.insert_text((20, 40), "Seen by all")
    for y in range(240, 280, 10):
        page.insert_text((20, y), "Seen as well, for most of the page can be seen", fontsize=8)
    page.insert_text((20, 60), "in mode three", render_mode=3)
    page.insert_text((20, 80), "white on white", color=(1, 1, 1))
    page.draw_rect(pymupdf.Rect(15, 90, 150, 110), fill=(0, 0, 0.4))
    page.insert_text((20, 104), "white on blue", color=(1, 1, 1))
    page.insert_text((20, 120), "too small", fontsize=0.5)
    page.insert_text((400, 40), "beside the page")
    page.insert_text((20, 140), "see through", fill_opacity=0)
    page.insert_text((20, 160), "black in black")
    page.draw_rect(pymupdf.Rect(15, 148, 150, 166), fill=(0, 0, 0))
    page.insert_text((20, 204), "under the picture")
    picture = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 8, 8), False)
    picture.clear_with(90)
    page.insert_image(pymupdf.Rect(10, 180, 290, 220), pixmap=picture, keep_proportion=False)
    page.insert_link({"kind": 2, "from": pymupdf.Rect(20, 30, 80, 42), "uri": "https://example.org/a"})
    page.insert_link({"kind": 1, "from": pymupdf.Rect(20, 50, 80, 62), "page": 1, "to": pymupdf.Point(0, 0)})
    field = pymupdf.Widget()
    field.field_name, field.field_type, field.field_value = "port", 7, "Mole"
    field.rect = pymupdf.Rect(20, 300, 120, 320)
    second.add_widget(field)
    document.set_toc([[1, "Fees", 1], [2, "May", 2]])
    document.embfile_add("table.csv", b"a,b\n1,2\n", desc="The numbers")
    page.set_rotation(rotation)
    document.save(path)
    return path


def read(path: Path, pages: tuple[int, ...] = (1, 2), names: tuple[str, ...] = OF_FILE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pdf_details(str(path), None, names, pages))
    return found


def test_details_have_their_pages_and_places(tmp_path: Path) -> None:
    found = read(made(tmp_path / "a.pdf"))
    assert {(one["text"], one["reason"]) for one in found["hidden_text"]} == {
        ("in mode three", "invisible"),
        ("white on white", "white"),
        ("too small", "tiny"),
        ("beside the page", "outside"),
        ("see through", "transparent"),
        ("under the picture", "covered"),
        ("black in black", "covered"),
    }
    x0, y0, _, y1 = next(one["box"] for one in found["hidden_text"] if one["reason"] == "invisible")
    assert (round(x0), y0 < 60 < y1) == (20, True)
    assert [(one.get("address"), one.get("to_page")) for one in found["links"]] == [
        ("https://example.org/a", None),
        (None, 2),
    ]
    assert found["links"][0]["box"] == [20, 30, 80, 42]
    assert found["outline"] == [
        {"level": 1, "title": "Fees", "page": 1},
        {"level": 2, "title": "May", "page": 2},
    ]
    (field,) = found["form_fields"]
    assert (field["page"], field["name"], field["value"]) == (2, "port", "Mole")
    (file,) = found["embedded_files"]
    assert (file["name"], file["size"], file["description"]) == ("table.csv", 8, "The numbers")


def test_boxes_are_those_of_the_upright_page(tmp_path: Path) -> None:
    found = read(made(tmp_path / "a.pdf", rotation=90), (1,), ("hidden_text", "links"))
    assert found["links"][0]["box"] == [358, 20, 370, 80]
    invisible = next(one for one in found["hidden_text"] if one["reason"] == "invisible")
    x0, _, x1, _ = invisible["box"]
    assert x0 < 400 - 60 < x1
    assert "outside" in {one["reason"] for one in found["hidden_text"]}


def test_only_what_is_asked_for_of_the_pages_asked_for_is_read(tmp_path: Path) -> None:
    path = made(tmp_path / "a.pdf")
    assert list(read(path, (2,), ("links",)).items()) == [("links", [])]
    text = tmp_path / "a.md"
    text.write_text("# No PDF\n")
    assert read(text) == {name: [] for name in OF_FILE}


def test_list_is_named_as_not_complete_when_a_part_of_the_file_is_damaged(tmp_path: Path) -> None:
    path = made(tmp_path / "a.pdf")
    with pymupdf.open(path) as document:
        note = document[0].add_file_annot((50, 50), b"1", "note.txt")
        document.xref_set_key(note.xref, "FS", "null")
        document.saveIncr()
    found = read(path)
    assert [file["name"] for file in found["embedded_files"]] == ["table.csv"]
    assert (found["truncated"], len(found["links"])) == (["embedded_files"], 2)


def test_list_is_named_as_not_complete_when_it_has_more_entries_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "a.pdf")
    monkeypatch.setattr("quire.reading.pdf.pdf_details._MOST_ENTRIES", 2)
    assert "truncated" not in read(path, (1,), ("outline", "links"))
    monkeypatch.setattr("quire.reading.pdf.pdf_details._MOST_ENTRIES", 1)
    found = read(path, (1,), ("outline", "embedded_files"))
    assert (len(found["outline"]), found["truncated"]) == (1, ["outline"])


def test_names_of_details_are_checked() -> None:
    assert IncludedDetails.parse(" words , lines") == IncludedDetails(lines=True, words=True)
    assert not IncludedDetails.parse(None)
    assert set(OF_FILE) | {"lines", "words"} == set(DocumentDetail)
    with pytest.raises(RequestError, match="there is no 'colours'"):
        IncludedDetails.parse("lines,colours")
