"""Requests that wait for a batch, as they are handed to the queue and come out of it. No I/O."""

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
    most_waiting: int


@dataclass(frozen=True, slots=True)
class RequestAccepted:
    depth: int


@dataclass(frozen=True, slots=True)
class Known:
    """An earlier request was made with the same key."""

    request_id: str


@dataclass(frozen=True, slots=True)
class QueueFull:
    depth: int


@dataclass(frozen=True, slots=True)
class BackendOpen:
    """The backend's breaker is open until then."""

    until_s: float


Acceptance = RequestAccepted | Known | QueueFull | BackendOpen


@dataclass(frozen=True, slots=True)
class Claimed:
    """One request of a batch, and where its body is."""

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
    requests: tuple[Claimed, ...]
    depth_left: int


@dataclass(frozen=True, slots=True)
class NotNow:
    """No batch: nothing (`none`) or too little (`few`) waits, no slot is free, or the backend is to be left alone."""

    why: str
    until_s: float = 0.0


class RequestOutcome(StrEnum):
    DONE = "done"
    ERROR = "error"
    AGAIN = "again"
    BACK = "back"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request of a batch; `position`, `size` and `seconds` are of the call that answered it."""

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
    """A request as it stands: `state` is q (waits), s (in a batch), d (done) or e (failed)."""

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
class Observed:
    """The breaker, and the sums from which service times are fitted."""

    failures: int
    not_before_s: float
    sums: tuple[float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class QueueStatus:
    depth: int
    oldest_at: float | None
    slots_taken: int
    observed: Observed
    last_batch_at: float | None
    counters: dict[str, int]


def acceptance(answer: list[Any]) -> Acceptance:
    match answer[0]:
        case "ok":
            return RequestAccepted(int(answer[1]))
        case "known":
            return Known(str(answer[1]))
        case "full":
            return QueueFull(int(answer[1]))
        case _:
            return BackendOpen(int(answer[1]) / 1000)


def claimed(row: list[str]) -> Claimed:
    return Claimed(
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


def seen(request_id: str, row: list[str]) -> RequestState:
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
