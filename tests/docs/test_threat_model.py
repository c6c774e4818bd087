"""docs/threat-model.md names tests; each must exist, and each published flaw must have one."""

from __future__ import annotations

import re

from tests.support.environment import ROOT

PAGE = (ROOT / "docs" / "threat-model.md").read_text()


FLAWS = {
    *("CVE-2026-3308", "CVE-2026-3029", "CVE-2025-64712", "CVE-2026-24009"),
    *("CVE-2025-66516", "CVE-2026-42208", "CVE-2026-3059", "CVE-2026-45402"),
}
"""Flaws of document services and parsers that were published while Quire was written."""


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE))
    assert len({file for file, _ in named}) >= 15
    assert {file for file, _ in named if not (ROOT / file).is_file()} == set()
    missing = {
        f"{file}::{name}" for file, name in named if name and f"def {name}(" not in (ROOT / file).read_text()
    }
    assert missing == set()


def test_every_published_flaw_names_the_test_of_its_attack() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("| ") and "CVE-" in row]
    assert set(re.findall(r"CVE-\d+-\d+", "".join(rows))) == FLAWS
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::test_\w+`", row)] == []


def test_every_attack_names_a_test() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("| ") and "|---" not in row]
    tables = [row for row in rows if "CVE-" in row or row.count("|") == 4]
    attacks = [
        row for row in tables if not row.startswith(("| attack", "| flaw", "| |", "| people", "| content"))
    ]
    trusted = ("| processes", "| network")
    assert [row for row in attacks if "tests/" not in row and not row.startswith(trusted)] == []
