"""Scanned pages get an invisible text layer at the places of their words, and documents bookmarks."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import pymupdf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from quire.errors import PasswordRequiredError, StateConflictError
from quire.reading.pdf.layer_font import in_visual_order
from quire.reading.pdf.page_render import RenderOptions
from quire.reading.pdf.searchable_pdf import Bookmark, LayerLine, PdfAdditions, TextLayer, searchable_pdf

WIDTH, HEIGHT = 300.0, 400.0
LINES = (
    LayerLine("Harbour fees of May", (30, 40, 210, 52)),
    LayerLine("Größe 日本 Ωμ", (30, 80, 150, 92)),
    LayerLine("Việt Nam", (30, 120, 90, 132)),
    LayerLine("שלום", (30, 160, 90, 172)),
)


def written(path: Path, additions: PdfAdditions, password: str | None = None) -> bytes:
    target = path.with_name("written.pdf")
    searchable_pdf(str(path), password, additions, RenderOptions(), str(target))
    return target.read_bytes()


def layered(
    path: Path, *lines: LayerLine, marks: tuple[Bookmark, ...] = (), password: str | None = None
) -> Any:
    additions = PdfAdditions((TextLayer(1, WIDTH, HEIGHT, lines),), marks)
    data = written(path, additions, password)
    return pymupdf.open(stream=data, filetype="pdf")


def scan(path: Path, *, rotation: int = 0, text: str = "", toc: bool = False, **saved: Any) -> Path:
    """A page that shows as WIDTH by HEIGHT, cut from a larger one, with a grey picture all over."""
    width, height = (WIDTH, HEIGHT) if rotation in (0, 180) else (HEIGHT, WIDTH)
    document = pymupdf.open()
    page = document.new_page(width=width + 100, height=height + 90)
    picture = pymupdf.Pixmap(pymupdf.csGRAY, pymupdf.IRect(0, 0, 8, 8), False)
    picture.clear_with(220)
    page.insert_image(page.rect, pixmap=picture, keep_proportion=False)
    if text:
        page.insert_text((60 + 30, 40 + 50), text, fontsize=10)
    page.set_cropbox(pymupdf.Rect(60, 40, 60 + width, 40 + height))
    page.set_rotation(rotation)
    if toc:
        document.set_toc([[1, "Own", 1]])
    document.save(path, **saved)
    return path


def shown_words(page: Any) -> dict[str, Any]:
    return {word[4]: pymupdf.Rect(word[:4]) * page.rotation_matrix for word in page.get_text("words")}


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_words_are_found_at_their_places_and_not_seen(tmp_path: Path, rotation: int) -> None:
    path = scan(tmp_path / "a.pdf", rotation=rotation)
    before = pymupdf.open(path)[0].get_pixmap().samples
    page = layered(path, *LINES)[0]
    assert (page.rect.width, page.rect.height) == (WIDTH, HEIGHT)
    assert page.get_pixmap().samples == before
    words = shown_words(page)
    assert list(words) == ["Harbour", "fees", "of", "May", "Größe", "日本", "Ωμ", "Việt", "Nam", "שלום"]
    assert words["Harbour"].x0 == pytest.approx(30, abs=1)
    assert words["May"].x1 == pytest.approx(210, abs=1)
    for name, middle in (("fees", 46), ("日本", 86), ("Nam", 126)):
        assert (words[name].y0 + words[name].y1) / 2 == pytest.approx(middle, abs=2)


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_words_are_at_their_places_when_the_page_was_turned_to_be_read(
    tmp_path: Path, turns: int, rotation: int
) -> None:
    path = scan(tmp_path / "a.pdf", rotation=rotation)
    size = (HEIGHT, WIDTH) if turns % 2 else (WIDTH, HEIGHT)
    layer = TextLayer(1, *size, (LayerLine("Harbour fees", (20, 30, 120, 42)),), turns)
    page = pymupdf.open(stream=written(path, PdfAdditions((layer,), ())), filetype="pdf")[0]
    assert page.get_text().split() == ["Harbour", "fees"]
    (found,) = page.search_for("Harbour fees")
    expected = {
        1: (WIDTH - 42, 20, WIDTH - 30, 120),
        2: (WIDTH - 120, HEIGHT - 42, WIDTH - 20, HEIGHT - 30),
        3: (30, HEIGHT - 120, 42, HEIGHT - 20),
    }[turns]
    assert tuple(found * page.rotation_matrix) == pytest.approx(expected, abs=3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("שלום עולם", ["שלום", "עולם"]),
        ("العربية السعودية", ["العربية", "السعودية"]),
        ("חשבון 1234 Acme Ltd סך", ["חשבון", "1234", "Acme Ltd", "סך"]),
        ("Invoice חשבון מס 12.03", ["Invoice", "חשבון מס", "12.03"]),
        ("हिन्दी 日本 😀", ["日本", "😀"]),
    ],
)
def test_words_of_any_script_are_found_at_their_places(tmp_path: Path, text: str, words: list[str]) -> None:
    page = layered(scan(tmp_path / "a.pdf"), LayerLine(text, (30, 40, 210, 52)))[0]
    places = {word: pymupdf.Rect() for word in words}
    for word in words:
        found = page.search_for(word)
        assert found, word
        for place in found:
            places[word] |= place
        assert 29 <= places[word].x0 < places[word].x1 <= 211
    lefts = [places[word].x0 for word in words]
    reads_left = unicodedata.bidirectional(text[0]) in ("R", "AL")
    assert lefts == sorted(lefts, reverse=reads_left)


@given(st.text("abc 12.,()אבגדعرب", max_size=30))
def test_visual_order_keeps_every_letter_and_numbers_as_they_are(text: str) -> None:
    shown = in_visual_order(text)
    assert sorted(shown) == sorted(text)
    for number in re.findall(r"[a-c12]+", text):
        assert number in shown


def test_text_that_a_page_has_is_not_doubled(tmp_path: Path) -> None:
    path = scan(tmp_path / "a.pdf", text="Harbour fees of May")
    page = layered(path, *LINES[:2])[0]
    assert page.get_text().split() == ["Harbour", "fees", "of", "May", "Größe", "日本", "Ωμ"]


def test_page_that_was_read_sideways_gets_no_text(tmp_path: Path) -> None:
    path = scan(tmp_path / "a.pdf")
    additions = PdfAdditions((TextLayer(1, HEIGHT, WIDTH, LINES),), ())
    data = written(path, additions)
    assert pymupdf.open(stream=data, filetype="pdf")[0].get_text() == ""


def test_headings_become_bookmarks_unless_there_is_an_outline(tmp_path: Path) -> None:
    marks = (
        Bookmark(2, "First\npart", 1),
        Bookmark(5, "Deep", 1),
        Bookmark(1, "Second", 1),
        Bookmark(1, "No", 9),
    )
    made = layered(scan(tmp_path / "a.pdf"), marks=marks)
    assert made.get_toc() == [[1, "First part", 1], [2, "Deep", 1], [1, "Second", 1]]
    kept = layered(scan(tmp_path / "b.pdf", toc=True), marks=marks)
    assert kept.get_toc() == [[1, "Own", 1]]


def test_password_is_needed_and_stays(tmp_path: Path) -> None:
    path = scan(tmp_path / "a.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="open", owner_pw="own")
    with pytest.raises(PasswordRequiredError):
        layered(path, *LINES)
    made = layered(path, *LINES, password="open")
    assert made.needs_pass
    assert made.authenticate("open")
    assert "Harbour" in made[0].get_text()


def test_frames_of_a_picture_become_pages_and_one_can_be_had_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.tiff"
    frames = [Image.new("RGB", (150, 200), shade) for shade in ("white", "red")]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    layers = tuple(TextLayer(number, WIDTH, HEIGHT, LINES[number - 1 : number]) for number in (1, 2))
    whole = written(path, PdfAdditions(layers, ()))
    texts = [" ".join(page.get_text().split()) for page in pymupdf.open(stream=whole, filetype="pdf")]
    assert texts == [LINES[0].text, LINES[1].text]
    alone = PdfAdditions(layers[1:], (Bookmark(1, "Here", 2),), only=2)
    found = pymupdf.open(stream=written(path, alone), filetype="pdf")
    assert [" ".join(page.get_text().split()) for page in found] == [LINES[1].text]
    assert found.get_toc() == [[1, "Here", 1]]
    assert found[0].get_pixmap().pixel(100, 300)[0] > 200


def test_text_file_has_no_pdf(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("words")
    with pytest.raises(StateConflictError, match="Only PDFs and pictures"):
        layered(path)
