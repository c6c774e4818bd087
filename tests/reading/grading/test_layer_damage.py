"""A text layer that has lost letters is told from a sound one, in several languages."""

from __future__ import annotations

import pymupdf
import pytest

from quire.domain.page import Grade, PageClass
from quire.reading.files.page_chunks import read_chunk
from quire.reading.grading.layer_damage import LOST_CAPITALS, LOST_LIGATURES, WRONG_ENCODING, layer_damage
from quire.reading.local_reader import class_for_route
from quire.reading.pdf.page_reader import ReadOptions

SOUND = {
    "english": "The office identified five difficult files before the first of April. Officers of the firm specified "
    "which of them had been classified. They found significant benefits, and fifty of the staff modified the figures "
    "for their final offer. It was sufficient. From then on, every family of the suffering fishermen got a fifth of "
    "the profit. The flat field floods often, so the firm affirmed that fine offers of fuel would follow. ",
    "german": "Der Griff war häufig fest. Fünf Pfiffe folgten, und die Offiziere fanden den Stoff im Hafen. "
    "Auffällig viele Fische flohen vor der Flut. Die Firma prüfte öffentlich jeden Tarif und schuf größere Flächen für "
    "Füße, Öfen und Säcke. Über fünfzig Käufer hofften auf den Gewinn. Für Außenstehende war das Geschäft schwierig. ",
    "french": "Le chef officiel a défini les fichiers. Enfin, cette affaire difficile fut classifiée. "
    "Il fallait suffisamment de confiance pour fixer les chiffres. La famille française préférait les fleurs fraîches. "
    "Afin de finir, on offrit des fruits frais aux enfants. Les effets furent faibles malgré tous les efforts. ",
    "finnish": "Kiitos, niin sanoi viisas mies. Tiistaina kaikki riippui siitä, kuinka he hiihtivät kiinni. Liian "
    "paljon riisiä piti viedä viikossa. Siitä huolimatta isä iski kiilan puuhun ja kiipesi ylös. Riitta ja Miina oli "
    "siistejä. Viimeinen kirja oli kiinnostava, mutta hiiri piiloutui. Hän piirsi viivan ja lähti pois. ",
    "figures": "Total Office Fuel 12.40 17.20 Freight 99.10 Officers 7 Gift 8.00 " * 20,
    "code": "for file in folder:\n    if file.is_ready:\n        flush(file)\n    offset += 1\n" * 20,
}


def _without_ligatures(text: str) -> str:
    for ligature, left in (("ffi", "i"), ("ff", ""), ("fi", "i"), ("fl", "l")):
        text = text.replace(ligature, left)
    return text


def _without_capitals(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter not in ".,!?")


def _in_two_bytes(text: str) -> str:
    return text.encode().decode("cp1252", "replace")


@pytest.mark.parametrize("language", sorted(SOUND))
def test_nothing_is_lost_when_the_layer_is_sound(language: str) -> None:
    assert layer_damage(SOUND[language] * 3) == ()


@pytest.mark.parametrize("language", ["english", "french"])
def test_lost_ligatures_are_found_when_only_their_i_is_left(language: str) -> None:
    assert LOST_LIGATURES in layer_damage(_without_ligatures(SOUND[language] * 3))


def test_lost_ligatures_are_found_when_nothing_is_left_of_them() -> None:
    text = SOUND["english"] * 6
    for ligature in ("ffi", "ff", "fi", "fl"):
        text = text.replace(ligature, "")
    assert LOST_LIGATURES in layer_damage(text)


@pytest.mark.parametrize("language", ["english", "german", "french", "finnish"])
def test_lost_capitals_are_found_when_the_layer_has_neither_capitals_nor_stops(language: str) -> None:
    assert LOST_CAPITALS in layer_damage(_without_capitals(SOUND[language] * 3))


@pytest.mark.parametrize("language", ["german", "french", "finnish"])
def test_wrong_encoding_is_found_when_letters_are_pairs_of_signs(language: str) -> None:
    assert WRONG_ENCODING in layer_damage(_in_two_bytes(SOUND[language]))


def _page(tmp_path, text: str) -> str:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_textbox(pymupdf.Rect(60, 60, 535, 780), text, fontsize=11)
    path = tmp_path / "layer.pdf"
    document.save(path)
    return str(path)


@pytest.mark.parametrize(
    ("spoil", "grade", "route"),
    [
        (str, Grade.GOOD, PageClass.TEXT_ONLY),
        (_without_ligatures, Grade.FAIR, PageClass.TEXT_ONLY),
        (_without_capitals, Grade.LOW, PageClass.GARBLED),
    ],
)
def test_page_is_not_good_when_its_layer_has_lost_letters(
    tmp_path, spoil, grade: Grade, route: PageClass
) -> None:
    path = _page(tmp_path, spoil(SOUND["english"] * 3))
    (page,) = read_chunk(path, None, [1], ReadOptions(), quick=False).pages
    assert page.grade is grade
    assert class_for_route(page) is route
