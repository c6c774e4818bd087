"""The pages about reading: each reason that a page's record may have is explained, and each source and class."""

from __future__ import annotations

import pytest

from quire.dispatch import answer_checks, ledger
from quire.domain.page import Grade, PageClass, PageSource
from quire.reading import layer_verdict, local_reader
from quire.reading.files import page_chunks
from quire.reading.grading import layer_damage, page_doubts, page_grade
from quire.reading.ocr import line_budget, ocr_options, ocr_stages, page_ocr
from quire.reading.pdf import hidden_text, picture_damage
from tests.support.environment import ROOT

PAGE = "".join((ROOT / f"docs/{name}.md").read_text() for name in ("reading", "ocr"))
_MODULES = (
    answer_checks,
    hidden_text,
    layer_damage,
    layer_verdict,
    ledger,
    line_budget,
    local_reader,
    ocr_options,
    ocr_stages,
    page_chunks,
    page_doubts,
    page_grade,
    page_ocr,
    picture_damage,
)


def _reasons() -> list[str]:
    """The constants of these modules whose value looks like a reason."""
    return sorted(
        {
            value
            for module in _MODULES
            for name, value in vars(module).items()
            if name.isupper()
            and not name.startswith("_")
            and isinstance(value, str)
            and value.replace("_", "").isalpha()
            and value.islower()
        }
    )


@pytest.mark.parametrize("reason", _reasons())
def test_reason_of_a_page_is_explained(reason: str) -> None:
    assert f"`{reason}`" in PAGE


def test_reasons_are_found_at_all() -> None:
    assert len(_reasons()) > 35


@pytest.mark.parametrize("word", [*PageSource, *PageClass, *Grade])
def test_source_class_and_grade_are_explained(word: str) -> None:
    assert f"`{word}`" in PAGE
