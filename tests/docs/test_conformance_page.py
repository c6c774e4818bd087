"""docs/conformance.md lists exactly the requirements that are tested or declined; outcomes are not compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.requirement_list import (
    FAILS,
    HOLDS,
    PAGE,
    Requirement,
    find_requirements,
    known_outcomes,
    render_page,
)


def listed(page: str) -> list[tuple[str, str, str]]:
    """Id, text, and what is said of it but for the outcome."""
    rows = re.findall(r"^\| (\d{3}-\w+) \| (.*) \| (.*) \|$", page, re.MULTILINE)
    return [(name, text, re.sub(r"^(holds|\*\*fails\*\*|not run): ", "", said)) for name, text, said in rows]


def test_page_lists_every_requirement_when_it_is_current() -> None:
    expected = listed(render_page(find_requirements(), {}))
    assert listed(PAGE.read_text()) == expected, "docs/conformance.md is stale: run `make conformance-list`"


def test_outcomes_survive_when_the_page_has_a_conflict() -> None:
    some = [
        Requirement("001-1", "First", test="f::a"),
        Requirement("001-2", "Second", test="f::b"),
        Requirement("001-3", "Third", reason="no need"),
    ]
    page = render_page(some, {"001-1": HOLDS, "001-2": FAILS})
    merged = page.replace("| 001-2", "<<<<<<< ours\n=======\n| 001-2").replace(
        "| 001-3", ">>>>>>> theirs\n| 001-3"
    )
    assert known_outcomes(merged) == {"001-1": HOLDS, "001-2": FAILS}
    assert "| 001 | 3 | 1 | 1 | 0 | 0 | 1 |" in page


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[declined]]\nid = "001-x"\ntext = "a"\nreason = "b"', "not the id"),
        ('[[declined]]\nid = "009-1"\ntext = "a"\nreason = "b"', "not the id"),
        ('[[declined]]\nid = "001-1"\ntext = ""\nreason = "b"', "text of one line"),
        ('[[declined]]\nid = "001-1"\ntext = "a"\nreason = " "', "needs a reason"),
        ('[[declined]]\nid = "001-1"\ntext = "a"\nreason = "b"\n' * 2, "twice"),
    ],
)
def test_list_is_refused_when_an_entry_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "declined_001.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        find_requirements(tmp_path)
