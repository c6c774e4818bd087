"""Texts whose name says what they are, although their content is damaged or too short to tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.reading.pdf.page_reader import read_pages


@pytest.mark.parametrize(
    ("name", "content", "fence"),
    [
        ("a.xml", "<root><a>1</a></root>", "xml"),
        ("a.jsonl", '{"a": 1}\n{"b": 2}', "json"),
        ("a.json", '{"a": [1,', "json"),
        ("a.json", "no json", ""),
        ("a.xml", "no markup", ""),
    ],
)
def test_text_is_fenced_when_its_name_and_its_first_sign_agree(
    tmp_path: Path, name: str, content: str, fence: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    (page,) = read_pages(str(path), None, [1])
    assert page.markdown == (f"```{fence}\n{content}\n```" if fence else content)
