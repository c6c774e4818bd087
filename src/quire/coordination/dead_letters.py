"""Dead letters: copies of units that were given up, with their last error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quire.coordination.connection import pairs
from quire.domain.job import UnitKind


@dataclass(frozen=True, slots=True)
class FailedCall:
    """The last AI call of a page that was given up, and how many calls it has had."""

    provider: str = ""
    model: str = ""
    attempts: int = 0
    last_error: str = ""

    def fields(self) -> tuple[str, ...]:
        if not self.attempts:
            return ()
        return (
            *("provider", self.provider, "model", self.model),
            *("attempts", str(self.attempts), "last_error", self.last_error),
        )


@dataclass(frozen=True, slots=True)
class DeadLetter:
    kind: UnitKind
    entry_id: str
    job_id: str
    unit: str
    reason: str
    at: float
    call: FailedCall = field(default_factory=FailedCall)


def dead_letter_of(kind: UnitKind, entry_id: str, flat: Any) -> DeadLetter:
    """The dead letter that a stream entry describes."""
    fields = pairs(flat)
    return DeadLetter(
        kind,
        entry_id,
        fields["job_id"],
        fields["unit"],
        fields.get("reason", ""),
        float(fields.get("at", 0)),
        _failed_call(fields),
    )


def _failed_call(fields: dict[str, str]) -> FailedCall:
    return FailedCall(
        fields.get("provider", ""),
        fields.get("model", ""),
        int(fields.get("attempts", 0)),
        fields.get("last_error", ""),
    )
