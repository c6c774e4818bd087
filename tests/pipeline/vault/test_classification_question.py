"""What of a model's answer is believed: the answer is as hostile as the document that may have dictated it."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.pipeline.vault.classification_question import classification, clean_tags, judge, question
from quire.providers.provider_protocol import StopReason, TokenUsage, VisionAnswer

TODAY = datetime.date(2026, 11, 16)
GOOD = {
    "title": "Invoice 7",
    "summary": "A bill.",
    "date": "2026-01-02",
    "language": "de",
    "tags": ["invoice"],
}


def _answer(text: str, stop: StopReason = StopReason.DONE) -> VisionAnswer:
    return VisionAnswer(text, stop, TokenUsage())


def _made(seen: str = "", **changes: Any) -> Any:
    return classification(json.dumps(GOOD | changes), "openai:m", today=TODAY, seen=seen)


def test_good_answer_is_taken_as_it_is() -> None:
    made = _made()

    assert (made.title, made.summary, made.date, made.language) == (
        "Invoice 7",
        "A bill.",
        "2026-01-02",
        "de",
    )
    assert (made.tags, made.by) == (("invoice",), "openai:m")
    assert judge(_answer(json.dumps(GOOD)), "").reason == ""
    assert judge(_answer(f"```json\n{json.dumps(GOOD)}\n```"), "").reason == ""


@pytest.mark.parametrize(
    ("text", "stop", "reason"),
    [
        ("", StopReason.DONE, "answer_empty"),
        ("Sure! Here is the JSON you wanted.", StopReason.DONE, "answer_invalid"),
        ("[]", StopReason.DONE, "answer_invalid"),
        (json.dumps(GOOD | {"title": ""}), StopReason.DONE, "answer_invalid"),
        (json.dumps(GOOD | {"title": "\u200b…"}), StopReason.DONE, "answer_invalid"),
        (json.dumps(GOOD | {"title": None}), StopReason.DONE, "answer_invalid"),
        (json.dumps(GOOD | {"tags": "invoice"}), StopReason.DONE, "answer_invalid"),
        (json.dumps(GOOD | {"date": 20260102}), StopReason.DONE, "answer_invalid"),
        ("[" * 10_000, StopReason.DONE, "answer_invalid"),
        (json.dumps(GOOD)[:30], StopReason.LENGTH, "answer_cut_off"),
        (json.dumps(GOOD), StopReason.REFUSAL, "answer_refused"),
    ],
)
def test_answer_does_not_count_when_it_is_none(text: str, stop: StopReason, reason: str) -> None:
    assert judge(_answer(text, stop), "").reason == reason


@pytest.mark.parametrize(
    ("given_date", "seen", "kept"),
    [
        ("2026-11-16", "nothing dated", None),
        ("2026-11-16", "Berlin, 16 November 2026", "2026-11-16"),
        ("2026-02-30", "", None),
        ("yesterday", "", None),
        ("2026-01-02T10:00:00", "", "2026-01-02"),
        ("9999-01-01", "", None),
        (None, "", None),
    ],
)
def test_date_counts_only_where_it_can_be_the_documents(
    given_date: str | None, seen: str, kept: str | None
) -> None:
    assert _made(seen=seen, date=given_date).date == kept


def test_tags_are_cleaned_and_bounded() -> None:
    tags = clean_tags(
        ["  Tax\nReturn ", "tax return", "<script>alert(1)</script>", "#bills!", 7, "", "…", *"abcdef"]
    )

    assert tags[:3] == ("tax return", "script alert 1 /script", "bills")
    assert len(tags) == 5
    assert all(len(tag) <= 48 for tag in clean_tags(["x" * 500]))


@given(
    st.dictionaries(st.sampled_from([*GOOD, "status", "team"]), st.text() | st.none() | st.lists(st.text()))
)
def test_any_answer_is_refused_or_bounded(found: dict[str, Any]) -> None:
    made = classification(json.dumps(found), "m", today=TODAY, seen="")

    if made is not None:
        assert 0 < len(made.title or "") <= 200
        assert len(made.summary or "") <= 1_200
        assert len(made.tags) <= 5
        assert all(c.isprintable() for c in (made.title or "") + "".join(made.tags))


def test_document_cannot_close_the_marks_around_it() -> None:
    asked = question("Hello --- secret --- bye", "a.pdf", ["x"], "secret")

    assert asked.count("--- secret ---") == 2
