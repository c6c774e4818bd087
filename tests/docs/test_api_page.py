"""docs/api.md: every error code is explained with its status, and every endpoint that it names exists."""

from __future__ import annotations

import re

import pytest

from quire import errors
from quire.api.http.error_responses import STATUSES
from tests.support.environment import ROOT

PAGE = (ROOT / "docs/api.md").read_text()
ERRORS = PAGE.split("\n## Errors\n")[1]
ROUTES = "".join(path.read_text() for path in (ROOT / "src/quire/api").rglob("*_routes.py"))
_OF_THE_START = {"bad_setting"}
"""Codes that no caller sees: they stop the start."""


@pytest.mark.parametrize("kind", list(STATUSES), ids=lambda kind: str(kind.code))
def test_error_is_explained_with_its_status(kind: type[errors.QuireError]) -> None:
    rows = [line.split("|") for line in ERRORS.splitlines() if f"`{kind.code}`" in line]
    assert kind.code in _OF_THE_START or [str(STATUSES[kind]) in row[1] for row in rows] == [True]


def test_every_endpoint_of_jobs_exists() -> None:
    named = re.findall(r"`(?:GET|POST|DELETE) (/jobs[^`]*|/convert)`", PAGE)
    assert len(named) > 10
    known = {re.sub(r"{[^}]*}", "{}", path) for path in re.findall(r'"(/[^"]*)"', ROUTES)}
    wrong = [
        path
        for path in named
        if not any(re.sub(r"{[^}]*}", "{}", path).endswith(one) for one in known if len(one) > 1)
    ]
    assert wrong == []
