"""A finding of `quire doctor`: what was checked, how it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingLevel(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    level: FindingLevel
    text: str
    advice: str = ""
