"""Wide spaces of justified prose are no gutters, and those of a table are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quire.reading.ocr.justified_lines import justified_lines
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.scan_elements import lay_out_scan
from quire.reading.pdf.drawn_rules import Rules

LETTER_PX, TYPE_PX, STEP_PX, TALL_PX = 12, 25.0, 36, 18
WIDE = 0.8

COLUMNS = [
    [
        "Nach drei Jahren Bauzeit öffnet das",
        "Freibad am Samstag, dem zwölften Juli, um",
        "zehn Uhr seine Türen. Die Gemeinde",
        "hat das Becken abgedichtet, die",
        "aufgestellt. Bürgermeisterin Käthe",
        "Würfel spricht von einem großen Tag",
        "den ersten beiden Wochenenden",
        "Kuchen und Würstchen; der Erlös fließt",
        "in die Jugendarbeit.",
    ],
    [
        "Wegen der Verlegung von",
        "Glasfaserleitungen ist die Mühlgasse",
        "vom vierten bis zum letzten August für den",
        "Durchgangsverkehr gesperrt. Die",
        "Umleitung führt über die Kirchhofstraße",
        "Anwohner erreichen ihre Grundstücke",
        "jederzeit zu Fuß, mit dem Fahrrad und",
        "der Ecke zur Brunnenstraße",
        "außerhalb der Arbeitszeiten.",
    ],
    [
        "Jeden Mittwoch um vier lesen",
        "Freiwillige in der Bücherei vor. Gesucht",
        "werden Menschen mit Geduld, einer",
        "deutlichen Aussprache und gern auch",
        "mit einem zweiten oder dritten Dialekt.",
        "Vorkenntnisse sind nicht erforderlich,",
        "ab September donnerstags statt",
        "dienstags. Für den Flohmarkt am",
        "Bahnhof nimmt er Anmeldungen an.",
    ],
]


def _line(words: Sequence[str], left: int, top: int, spaces: Sequence[float]) -> OcrLine:
    found, at = [], float(left)
    for word, space in zip(words, [*spaces, 0], strict=True):
        right = at + LETTER_PX * len(word)
        found.append(OcrWord(round(at), top, round(right), top + TALL_PX, word, 0.96))
        at = right + space
    return OcrLine(found)


def _justified(texts: Sequence[str], left: int, top: int, width: int) -> list[OcrLine]:
    """Lines that are all as wide as their column but the last one."""
    lines = []
    for row, text in enumerate(texts):
        words = text.split()
        space = (width - LETTER_PX * sum(map(len, words))) / max(1, len(words) - 1)
        if row == len(texts) - 1:
            space = LETTER_PX
        lines.append(_line(words, left, top + STEP_PX * row, [space] * (len(words) - 1)))
    return lines


def _are_justified(lines: Sequence[OcrLine]) -> list[bool]:
    return justified_lines(lines, [TYPE_PX] * len(lines), WIDE)


def test_a_line_of_few_words_is_one_text_when_its_column_is_justified() -> None:
    texts = [
        "Nach drei Jahren der Bauzeit öffnet",
        "aufgestellt. Bürgermeisterin Käthe",
        "sprach dann von den ganz großen Tagen",
        "der kleinen Leute.",
    ]
    assert _are_justified(_justified(texts, 100, 300, 480))[1]


def test_an_item_is_one_text_when_its_column_is_justified() -> None:
    item = _line(["•", "einen", "Zuschuss", "für", "die"], 100, 336, [20, 56, 57, 56])
    right = item.words[-1].right
    before = _justified(["den Haushalt des kommenden Jahres", "und"], 132, 300, right - 132)[:1]
    after = _justified(["Trachtenkapelle und ihre Reise", "und"], 132, 372, right - 132)[:1]
    assert _are_justified([*before, item, *after])[1]


def test_rows_are_cells_when_their_spaces_go_on_from_row_to_row() -> None:
    rows = [_line(["Monday", "closed", "closed"], 100, 300 + STEP_PX * row, [60, 60]) for row in range(4)]
    assert not any(_are_justified(rows))


def test_rows_are_cells_when_they_have_figures() -> None:
    rows = _justified(
        ["Nach drei Jahren Bauzeit öffnet das", "12,400 9,311 8,277 6,021", "hat das Becken abgedichtet"],
        100,
        300,
        430,
    )
    assert not _are_justified(rows)[1]


def test_rows_are_cells_when_their_spaces_differ() -> None:
    rows = _justified(["Nach drei Jahren Bauzeit öffnet das", "und so weiter und so fort"], 100, 300, 430)
    uneven = _line(["Montag", "bis", "Freitag", "offen"], 100, 372, [12, 12, 60])
    assert not _are_justified([*rows, uneven])[2]


def test_three_columns_are_read_one_after_the_other_when_they_are_justified() -> None:
    title = _line(["Gemeindeblatt", "Oberlauenbach"], 142, 150, [19])
    title = OcrLine([OcrWord(w.left, w.top, w.right, w.top + 43, w.text, 0.96) for w in title.words])
    paragraphs, expected = [[title]], ["Gemeindeblatt", "Oberlauenbach"]
    for column, texts in enumerate(COLUMNS):
        paragraphs.append(_justified(texts, 142 + 530 * column, 300 + 7 * column, 480))
        expected += " ".join(texts).split()
    seen = RecognisedPage(1700, 2200, paragraphs)
    found = [
        word
        for element in lay_out_scan(1, seen, Rules(), 0.36).elements
        for word in element.plain_text.split()
    ]
    assert sorted(found) == sorted(expected)
    places = [found.index(word) for word in expected if expected.count(word) == 1]
    assert all(before < after for before, after in pairwise(places))
