"""docs/threat-model.md names tests; each must exist."""

from __future__ import annotations

import re

from tests.support.environment import ROOT

PAGE = (ROOT / "docs" / "threat-model.md").read_text()


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert len(named) >= 15
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_every_attack_names_a_test() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("| ") and "|---" not in row]
    tables = [row for row in rows if "CVE-" in row or row.count("|") == 4]
    attacks = [
        row for row in tables if not row.startswith(("| attack", "| flaw", "| |", "| people", "| content"))
    ]
    trusted = ("| processes", "| network")
    assert [row for row in attacks if "tests/" not in row and not row.startswith(trusted)] == []
