"""Signs that a reader makes of drawn rules are left out, and signs that are written stay."""

from __future__ import annotations

from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.rule_signs import without_rule_signs
from quire.reading.pdf.drawn_rules import DrawnRule, Rules

RULE = DrawnRule(250, 90, 400)


def _texts(*words: OcrWord, rules: Rules | None = None) -> list[str]:
    seen = RecognisedPage(800, 600, [[OcrLine(list(words))]])
    kept = without_rule_signs(seen, Rules(vertical=(RULE,)) if rules is None else rules)
    return [word.text for word in kept.words()]


def _word(text: str, left: int, right: int) -> OcrWord:
    return OcrWord(left, 100, right, 124, text, 0.9)


CODE, VARIETY = _word("Code", 150, 200), _word("Variety", 300, 380)


def test_a_sign_is_left_out_when_it_is_the_border_of_a_cell() -> None:
    for sign in ("|", "[", "I", "||"):
        assert _texts(CODE, _word(sign, 247, 253), VARIETY) == ["Code", "Variety"]


def test_a_sign_is_cut_off_when_it_is_read_as_part_of_a_word() -> None:
    assert _texts(_word("Code|", 150, 252), VARIETY) == ["Code", "Variety"]
    assert _texts(CODE, _word("|Variety", 248, 380)) == ["Code", "Variety"]


def test_a_sign_stays_when_no_rule_is_there() -> None:
    assert _texts(CODE, _word("|", 277, 283), VARIETY) == ["Code", "|", "Variety"]
    assert _texts(CODE, _word("I", 247, 253), rules=Rules()) == ["Code", "I"]


def test_a_sign_stays_when_the_rule_is_no_longer_than_the_line() -> None:
    short = Rules(vertical=(DrawnRule(250, 98, 126),))
    assert _texts(CODE, _word("|", 247, 253), rules=short) == ["Code", "|"]


def test_a_paragraph_is_left_out_when_it_is_nothing_but_rules() -> None:
    seen = RecognisedPage(800, 600, [[OcrLine([_word("|", 247, 253)])], [OcrLine([CODE])]])
    kept = without_rule_signs(seen, Rules(vertical=(RULE,)))
    assert [[line.text for line in paragraph] for paragraph in kept.paragraphs] == [["Code"]]
