"""A page as the dispatcher takes it, and what can come of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from quire.dispatch.answer_checks import Verdict, check
from quire.dispatch.candidates import Candidate
from quire.dispatch.ledger import Spent
from quire.providers.provider_protocol import AnswerSchema, VisionAnswer


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A page as it is sent. `layer` is its own text where that can be trusted, for the check of the answer."""

    image: bytes
    mime: str
    text: str
    layer: str
    pixels: int

    def __repr__(self) -> str:
        return f"Picture({len(self.image)} bytes)"


@dataclass(frozen=True, slots=True)
class PageTask:
    """A page to be read. `prepared` says that its picture is at hand already.

    `fingerprint` makes the cache's key for a model; None where nothing may be cached. `judge` says whether an answer
    counts, given the page's own text. With `answer` the model is held to that form; questions other than "what stands
    on this page?" bring their own of both. `redraw` draws the page at so many dots an inch, for readers that need a
    finer picture.
    """

    job_id: str
    epoch: int
    number: int
    team: str
    instructions: str
    engine: str | None
    tier: str | None
    deadline_at: float | None
    prepare: Callable[[], Awaitable[PagePicture]]
    prepared: bool
    fingerprint: Callable[[str], str] | None
    judge: Callable[[VisionAnswer, str], Verdict] = check
    answer: AnswerSchema | None = None
    max_tokens_out: int | None = None
    total_timeout_s: float | None = None
    """The time that all calls have together, where it is not that of a page."""
    owner: str | None = None
    """The vault document's job that answers are kept for: when it is deleted, they go."""
    redraw: Callable[[int], Awaitable[bytes]] | None = None

    def __repr__(self) -> str:
        return f"PageTask({self.job_id}, {self.number})"


@dataclass(frozen=True, slots=True)
class Answered:
    text: str
    candidate: Candidate
    confidence: float | None
    spent: Spent
    cached: bool = False

    def __repr__(self) -> str:
        return f"Answered({self.candidate.name}, {len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class Parked:
    """Nothing is free. `in_line`: calls of others are what it waits for, so the end of one may wake it."""

    wait_s: float
    in_line: bool


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Every candidate failed. `retryable`: another round may go better."""

    reasons: tuple[str, ...]
    spent: Spent
    retryable: bool


Outcome = Answered | Parked | Exhausted
