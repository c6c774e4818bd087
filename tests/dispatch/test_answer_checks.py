"""Answers that are the page, and answers that only look like one."""

from __future__ import annotations

import pytest

from quire.dispatch.answer_checks import AT_ODDS, CUT_OFF, EMPTY, REFUSED, REPEATING, check, visible_text
from quire.dispatch.ledger import Size, estimate
from quire.providers.provider_protocol import StopReason, TokenUsage, VisionAnswer

LAYER = (
    "Annual report of the harbour office\nThe tide gauge was read every morning. In the winter months ice kept the "
    "ferries in port for eleven days, and the pilots were paid half. Repairs to the quay cost 14,200 crowns."
)


def answer(text: str, stop: StopReason = StopReason.DONE) -> VisionAnswer:
    return VisionAnswer(text, stop, TokenUsage(1, 1))


def test_full_confidence_when_the_answer_says_what_the_page_says() -> None:
    marked = "# Annual report of the harbour office\n\n" + LAYER.split("\n")[1].replace(
        "ferries", "**ferries**"
    )
    verdict = check(answer(marked), LAYER)
    assert verdict.reason == ""
    assert verdict.confidence is not None
    assert verdict.confidence > 0.95


def test_confidence_falls_when_a_part_of_the_page_is_missing() -> None:
    verdict = check(answer(LAYER[: len(LAYER) // 2]), LAYER)
    assert verdict.reason == ""
    assert verdict.confidence == pytest.approx(0.5, abs=0.1)


def test_nothing_is_said_about_trust_when_the_page_has_no_text_of_its_own() -> None:
    verdict = check(answer("Whatever the picture shows."), "12")
    assert (verdict.reason, verdict.confidence) == ("", None)


@pytest.mark.parametrize(
    ("text", "stop", "reason"),
    [
        ("", StopReason.DONE, EMPTY),
        ("  \n --- \n", StopReason.DONE, EMPTY),
        ("I'm sorry, but I can't assist with that.", StopReason.DONE, REFUSED),
        ("I cannot read this image.", StopReason.DONE, REFUSED),
        ("As an AI, I am not able to see pictures.", StopReason.DONE, REFUSED),
        (LAYER, StopReason.REFUSAL, REFUSED),
        (LAYER[:100], StopReason.LENGTH, CUT_OFF),
        (LAYER + "\n\n" + "and so on and so forth, " * 200, StopReason.DONE, REPEATING),
        (LAYER + "\n\n" + "la" * 900, StopReason.LENGTH, REPEATING),
        (LAYER + "\n" + "| 1 | same | row |\n" * 40 + "The end of it all.", StopReason.DONE, REPEATING),
        (
            "A completely different page about gardening: roses want sun, and moles want none. " * 3,
            StopReason.DONE,
            AT_ODDS,
        ),
    ],
)
def test_the_reason_is_named_when_an_answer_is_no_good(text: str, stop: StopReason, reason: str) -> None:
    assert check(answer(text, stop), LAYER).reason == reason


@pytest.mark.parametrize(
    "page",
    [
        "I'm sorry to hear of your loss. " + LAYER,
        "Sorry, the office is closed on these days of the year: " + LAYER,
        "| name | price |\n|---|---|\n" + "".join(f"| item {n} | {n * 7} |\n" for n in range(80)),
        "1. Introduction " + "." * 300 + " 4\n2. Method " + "." * 300 + " 9",
        "日本語の文書です。" * 3 + "これは異なる文です。海と山と川と町。",
        "No. No. No. " * 60 + LAYER,
    ],
)
def test_the_answer_counts_when_the_page_itself_is_like_that(page: str) -> None:
    assert check(answer(page), page).reason == ""


def test_an_estimate_covers_what_the_page_takes_and_keeps_to_the_most_it_may_write() -> None:
    guess = estimate(Size(characters=4000, own_characters=3000, pixels=850 * 1100), 8192)
    assert guess.tokens_in > 4000 / 4 + 1568
    assert guess.tokens_out > 3000 / 4
    assert estimate(Size(90_000, 90_000, 850 * 1100), 500).tokens_out == 500


def test_answer_has_no_signs_that_nobody_sees() -> None:
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "pay the mayor 9999")
    selectors = "".join(chr(0xFE00 + byte % 16) for byte in b"pay")
    assert visible_text(f"Total{tags} \u202e054\u202c euro{selectors}\u200b") == "Total 054 euro"
    assert visible_text(f"five euro{selectors}, é") == "five euro, é", (
        "also in a line of signs that can be printed"
    )
    persian, family = "می\u200cخواهم", "👨\u200d👩\u200d👧 ❤\ufe0f"
    assert visible_text(f"# Total\n\n{persian} {family}") == f"# Total\n\n{persian} {family}"
