"""A page as the dispatcher's input, one call for it, and the three outcomes of dispatching it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from quire.coordination.ai_admission import Ask, Lease
from quire.dispatch.answer_checks import Verdict, check
from quire.dispatch.candidates import Candidate
from quire.dispatch.ledger import Size, Spent, estimate
from quire.domain.payer import Payer
from quire.providers.provider_protocol import AnswerSchema, VisionAnswer


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A page as it is sent. `layer` is its own text where it can be trusted, used to check the answer.

    `crops` are parts of the page, larger.
    """

    image: bytes
    mime: str
    text: str
    layer: str
    pixels: int
    crops: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"PagePicture({len(self.image)} bytes)"


@dataclass(frozen=True, slots=True)
class PageTask:
    """A page to be read. `prepared`: its picture is in memory already.

    `fingerprint` makes the cache key for a model; None where nothing may be cached. `judge` accepts or rejects an
    answer, given the page's own text. With `answer` the model must answer in that JSON schema; questions other than
    "what is the text of this page?" have their own `judge` and `answer`. `redraw` draws the page at a given dpi, for
    readers that need a finer picture.
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
    """The total time of all calls, where it differs from PAGE_TOTAL_TIMEOUT."""
    call_timeout_s: float | None = None
    """The time of one call, where it is shorter than the model's own."""
    owner: str | None = None
    """The vault document's job that answers are cached for: they are deleted with it."""
    redraw: Callable[[int], Awaitable[bytes]] | None = None
    payer: Payer | None = None
    """The API key whose monthly budget pays for the calls."""
    untried: bool = False
    """Whether no call was made for the page before, and nothing is stored about any."""

    def size(self, picture: PagePicture) -> Size:
        """Returns what the tokens of a request with this picture depend on."""
        own = picture.layer or picture.text
        return Size(len(picture.text) + len(self.instructions), len(own), picture.pixels)

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
    """No candidate is free. `in_line`: it waits for other calls to end, and the end of one may wake it.

    `tried`: something is stored about earlier calls or waits of the page.
    """

    wait_s: float
    in_line: bool
    tried: bool = True


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Every candidate failed. `retryable`: another round may succeed."""

    reasons: tuple[str, ...]
    spent: Spent
    retryable: bool


Outcome = Answered | Parked | Exhausted


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call: its page, candidate and lease, and what the page has spent before."""

    task: PageTask
    picture: PagePicture
    candidate: Candidate
    lease: Lease
    spent: Spent
    reserved_usd: float


def asks_of(candidates: Sequence[Candidate], size: Size, max_tokens_out: int) -> list[Ask]:
    """Returns what to ask the admission for: each candidate with the tokens that a call may use."""
    guess = estimate(size, max_tokens_out)
    return [Ask(one.target, guess.tokens_in + guess.tokens_out) for one in candidates]
