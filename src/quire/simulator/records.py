"""What the simulator has seen, model by model, so that a test can say what must never have happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_MOST_CALLS = 200_000


@dataclass(slots=True)
class Call:
    """One call. `at` and `ended_at` are seconds since the epoch; `ended_at` is None while it is out.

    `in_window` says that a fault with a time window was on for its model when it came.
    """

    at: float
    in_window: bool
    outcome: str = ""
    ended_at: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "ended_at": self.ended_at,
            "outcome": self.outcome,
            "in_window": self.in_window,
        }


@dataclass(slots=True)
class ModelRecord:
    calls: int = 0
    in_flight: int = 0
    in_flight_max: int = 0
    limited: int = 0
    """429s because a limit was really exceeded, not because a rule said so."""
    calls_in_window: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    kept: list[Call] = field(default_factory=list)

    def begin(self, at: float, *, in_window: bool) -> Call:
        self.calls += 1
        self.calls_in_window += in_window
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        call = Call(at, in_window)
        if len(self.kept) < _MOST_CALLS:
            self.kept.append(call)
        return call

    def end(self, call: Call, at: float) -> None:
        self.in_flight -= 1
        call.ended_at = at
        self.outcomes[call.outcome] += 1

    def as_dict(self, *, with_calls: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "calls": self.calls,
            "in_flight": self.in_flight,
            "in_flight_max": self.in_flight_max,
            "limited": self.limited,
            "calls_in_window": self.calls_in_window,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "outcomes": dict(self.outcomes),
            "first_at": self.kept[0].at if self.kept else None,
            "last_at": self.kept[-1].at if self.kept else None,
        }
        if with_calls:
            shown["log"] = [call.as_dict() for call in self.kept]
        return shown


def summed(records: Iterable[ModelRecord]) -> dict[str, int]:
    rows = list(records)
    return {
        "calls": sum(row.calls for row in rows),
        "in_flight": sum(row.in_flight for row in rows),
        "limited": sum(row.limited for row in rows),
    }
