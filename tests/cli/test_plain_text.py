from __future__ import annotations

import pytest

from quire.cli.plain_text import plain_text


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("# Title #\n\nWords", "Title\n\nWords\n"),
        ("Some **bold**, *slanted* and ***both*** words", "Some bold, slanted and both words\n"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4\n"),
        ("_all of it_ and ~~gone~~", "all of it and gone\n"),
        ("[a link](https://example.org/x_y) ![a picture](p.png)", "a link a picture\n"),
        ("Use `**this**` literally", "Use **this** literally\n"),
        ("| a | b |\n|---|:-:|\n| **1** | 2<br>3 |", "a\tb\n1\t2 3\n"),
        ("One\n\n---\n\nTwo", "One\n\nTwo\n"),
        ("> quoted\n> twice", "quoted\ntwice\n"),
        ("- item\n  1. inner", "- item\n  1. inner\n"),
        ("```python\n# a comment **kept**\n```", "# a comment **kept**\n"),
        (r"5 \* 4 \_ \# a &lt;tag&gt; &amp; more", "5 * 4 _ # a <tag> & more\n"),
        ("", "\n"),
    ],
)
def test_markup_goes_and_words_stay_when_text_is_asked_for(markdown: str, plain: str) -> None:
    assert plain_text(markdown) == plain


@pytest.mark.parametrize("mark", ["*a ", "_a ", "[a", "`a", "~~a ", "# ", "| ", " ", "[a](a "])
def test_words_stay_when_hostile_marks_never_close(mark: str) -> None:
    """Would not end in any reasonable time if the search for a closing mark were not bounded."""
    text = "# " + mark * 30_000 + "end"
    assert plain_text(text).count("a") == text.count("a")
