"""The values that go into and come out of the parse queue. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

FIELDS_OF_A_CLAIM = 10


class Priority(IntEnum):
    LOW = 0
    NORMAL = 1
    HIGH = 2


@dataclass(frozen=True, slots=True)
class NewRequest:
    id: str
    team: str
    filename: str
    priority: Priority
    offset: int
    length: int
    key: str | None
    max_waiting: int


@dataclass(frozen=True, slots=True)
class RequestAccepted:
    depth: int


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """An earlier request has the same Idempotency-Key."""

    request_id: str


@dataclass(frozen=True, slots=True)
class QueueFull:
    depth: int


@dataclass(frozen=True, slots=True)
class BreakerOpen:
    """The backend's breaker is open until `until_s`."""

    until_s: float


Acceptance = RequestAccepted | KnownRequest | QueueFull | BreakerOpen


@dataclass(frozen=True, slots=True)
class ClaimedRequest:
    """One request of a batch, and the location of its body."""

    id: str
    team: str
    filename: str
    object_key: str
    offset: int
    length: int
    holder: str
    keyed: bool
    misses: int
    enqueued_at: float


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    id: str
    requests: tuple[ClaimedRequest, ...]
    depth_left: int


@dataclass(frozen=True, slots=True)
class NoBatch:
    """No batch: the queue is empty (`none`) or too short (`few`), no slot is free (`busy`), or the breaker
    permits no call (`wait`) or only that of the probe image, by this replica (`probe`)."""

    why: str
    until_s: float = 0.0


class Permission(StrEnum):
    """Whether the breaker permits a call: yes, when other calls have ended, or not before its cooldown is over."""

    GO = "go"
    BUSY = "busy"
    WAIT = "wait"


class RequestOutcome(StrEnum):
    DONE = "done"
    ERROR = "error"
    AGAIN = "again"
    BACK = "back"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request; `position`, `size` and `seconds` belong to the call that answered it."""

    id: str
    ending: RequestOutcome
    offset: int = 0
    length: int = 0
    error: dict[str, Any] | None = None
    position: int = 0
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestState:
    """The state of a request: `state` is q (queued), s (in a batch), d (done) or e (failed)."""

    id: str
    state: str
    filename: str
    enqueued_at: float
    object_key: str
    offset: int
    length: int
    error: dict[str, Any] | None
    batch_id: str
    position: int
    size: int
    seconds: float
    finished_at: float

    @property
    def over(self) -> bool:
        return self.state in ("d", "e")


@dataclass(frozen=True, slots=True)
class BackendState:
    """The breaker's state, and the sums from which service times are fitted."""

    failures: int
    not_before_s: float
    sums: tuple[float, float, float, float, float]
    opened: bool = False
    """Whether the call that was just recorded opened the breaker."""
    last_success_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueStatus:
    depth: int
    oldest_at: float | None
    slots_taken: int
    backend: BackendState
    last_batch_at: float | None
    counters: dict[str, int]


def acceptance(answer: list[Any]) -> Acceptance:
    match answer[0]:
        case "ok":
            return RequestAccepted(int(answer[1]))
        case "known":
            return KnownRequest(str(answer[1]))
        case "full":
            return QueueFull(int(answer[1]))
        case _:
            return BreakerOpen(int(answer[1]) / 1000)


def claimed(row: list[str]) -> ClaimedRequest:
    return ClaimedRequest(
        row[0],
        row[1],
        row[2],
        row[3],
        int(row[4]),
        int(row[5]),
        row[6],
        row[7] == "1",
        int(row[8]),
        int(row[9]) / 1000,
    )


def request_state(request_id: str, row: list[str]) -> RequestState:
    return RequestState(
        request_id,
        row[0],
        row[1],
        int(row[2]) / 1000,
        row[3],
        int(row[4] or 0),
        int(row[5] or 0),
        json.loads(row[6]) if row[6] else None,
        row[7],
        int(row[8] or 0),
        int(row[9] or 0),
        float(row[10] or 0),
        int(row[11] or 0) / 1000,
    )
