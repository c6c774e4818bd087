"""The words of a page are those of its text: signs of Markdown are none."""

from __future__ import annotations

import pytest

from quire.domain.page import word_count


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("# Fees of the harbour", 4),
        ("| Name | Sum |\n|---|---|\n| Anna | 12 |\n|  | 7 |", 5),
        ("- one\n- two\n  * three\n\n---\n\n> four **five** _six_", 6),
        ("```python\nx = 1\n```", 2),
        ("1/2 \u2013 30 % of it", 4),
        ("\u4f60\u597d \u0645\u0631\u062d\u0628\u0627", 2),
        ("***", 1),
        (" \n", 0),
        ("", 0),
    ],
)
def test_only_words_are_counted(markdown: str, words: int) -> None:
    assert word_count(markdown) == words
