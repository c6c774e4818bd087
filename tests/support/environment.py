"""The environment that the tests give to the processes they start, and where the repository is."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]

RUN_VARIABLE = "TEST_RUN_ID"
"""Marks every process that a test run has started: the reaper ends all that have it. See `reaper.py`."""

_KEPT = ("PATH", "HOME", "LANG", "PYTHONPATH", RUN_VARIABLE)


def clean_environment(**settings: str) -> dict[str, str]:
    """No setting of the developer's machine, the mark of this run, and these settings."""
    return {**{name: os.environ[name] for name in _KEPT if name in os.environ}, **settings}
