"""Records: what a service answers, as frozen dataclasses. Fields that a newer service adds are ignored."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date as Date  # noqa: N812 - a field is named date
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from quire.client.exceptions import UnreadableError

T = TypeVar("T")

OVER = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Usage:
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job of any type. What only documents have is empty for the others."""

    job_id: str
    type: str
    status: str
    parent_job_id: str | None = None
    filename: str = ""
    mime: str | None = None
    size: int | None = None
    progress: int = 0
    total_pages: int | None = None
    pages_completed: int = 0
    pages_failed: int = 0
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    error: dict[str, Any] | None = None
    sources: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] | None = None
    doubtful_pages: int = 0
    """How many pages are to be compared with the original; `metadata` says which, and why."""
    usage: Usage = field(default_factory=Usage)
    timeout_occurred: bool = False
    priority: str = "normal"

    @property
    def over(self) -> bool:
        return self.status in OVER


@dataclass(frozen=True, slots=True)
class Page:
    """The status of a page, how it was read and what it cost."""

    page_number: int
    job_id: str
    status: str
    source: str | None = None
    reason: tuple[str, ...] = ()
    page_class: str | None = None
    reader: str | None = None
    provider: str | None = None
    model: str | None = None
    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    confidence: float | None = None
    words: int = 0
    error: dict[str, Any] | None = None
    grade: str | None = None
    words_missing: int = 0
    ungrounded: int = 0
    ungrounded_numbers: int = 0
    provisional: bool = False
    reused_from: str | None = None
    """The page of the version before whose reading this is."""


@dataclass(frozen=True, slots=True)
class PageDone:
    """A page that has just been read, or could not be. `result(job_id)` gives its text.

    What is known of its quality is as in `Page`.
    """

    number: int
    job_id: str
    status: str
    source: str | None
    grade: str | None = None
    confidence: float | None = None
    words_missing: int = 0
    ungrounded: int = 0
    ungrounded_numbers: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job: `status`, `pages`, `download` or `snapshot`."""

    id: str
    type: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """The Markdown of a document or of one page, and what is known about it."""

    job_id: str
    markdown: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A document that was handed in. `markdown` is None unless the caller waited for it."""

    job_id: str
    status: str
    deduplicated: bool
    markdown: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.markdown or ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The status of a job after a cancel request."""

    job_id: str
    status: str


@dataclass(frozen=True, slots=True)
class Retried:
    """Whether a retry was started; not if there is nothing better to get."""

    job_id: str
    status: str
    retried: bool
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Element:
    label: str
    bbox: tuple[float, ...]
    text: str
    reading_order: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """An image and what is on it, in reading order."""

    request_id: str
    filename: str
    processing_time_seconds: float
    results: tuple[Element, ...]
    metadata: dict[str, Any]

    @property
    def text(self) -> str:
        return "\n".join(element.text for element in self.results if element.text)


@dataclass(frozen=True, slots=True)
class Attached:
    """A document that was attached to a mail."""

    filename: str
    document_id: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the vault. `state` says more than `status`: also `stale` and `needs_classification`."""

    document_id: str
    status: str
    state: str
    filename: str = ""
    type: str = ""
    content_type: str | None = None
    size: int | None = None
    sha256: str | None = None
    source: str | None = None
    pages: int | None = None
    doubtful_pages: int | None = None
    """How many of them are to be compared with the original; None where it is not known."""
    progress: int | None = None
    title: str | None = None
    summary: str | None = None
    date: Date | None = None
    language: str | None = None
    tags: tuple[str, ...] = ()
    classified_by: str | None = None
    attempt: int = 0
    error: dict[str, Any] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    completed_at: datetime | None = None
    pending_since: datetime | None = None
    parent_id: str | None = None
    """The mail that it was attached to."""
    attachments: tuple[Attached, ...] = ()
    jobs: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Added:
    """A document that the vault has taken in, or had already (`deduplicated`)."""

    document_id: str
    status: str
    state: str
    deduplicated: bool
    filename: str = ""
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file of many that was not taken."""

    filename: str
    error: str
    code: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What became of several files, each kind in the order in which they were given."""

    documents: tuple[Added, ...]
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class Reprocessed:
    """`outcome` is `started`, `running` (it was under way already), `skipped` or `missing`."""

    document_id: str
    outcome: str
    attempt: int | None = None
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tag:
    name: str
    slug: str
    documents: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text; `match` where it is what was looked for."""

    text: str
    match: bool


@dataclass(frozen=True, slots=True)
class Highlighted:
    """A text with its matches. A snippet has its page, its chunk (index and hash), and the boxes of what was found."""

    pieces: tuple[Piece, ...]
    page: int | None = None
    chunk: dict[str, Any] | None = None
    boxes: tuple[dict[str, Any], ...] = ()

    def __str__(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found, and the words of it that fit."""

    document: Document
    score: float
    title: Highlighted | None = None
    snippet: Highlighted | None = None
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """A page of a search. `next_cursor` asks for the next one."""

    query: str
    hits: tuple[Hit, ...]
    next_cursor: str | None = None
    corrections: dict[str, str] = field(default_factory=dict)
    similarity: bool = False


@dataclass(frozen=True, slots=True)
class ElementsPage:
    """A page as elements in reading order, as `GET /jobs/{id}/elements` has them. `note` says why it has none."""

    page_number: int
    schema_version: int
    elements: tuple[dict[str, Any], ...] = ()
    width: float | None = None
    height: float | None = None
    reader: str | None = None
    note: str | None = None
    turned: int = 0
    """By how many degrees a scan was turned to the left to be read."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document, as `GET /jobs/{id}/chunks` has it. `tokens` is an estimate: UTF-8 bytes by 4."""

    index: int
    kind: str
    text: str
    headings: tuple[str, ...] = ()
    tokens: int = 0
    hash: str = ""
    pages: tuple[int, ...] = ()
    elements: tuple[str, ...] = ()
    boxes: tuple[dict[str, Any], ...] = ()
    overlap_chars: int = 0
    confidence: float | None = None
    grounded: bool | None = None


@dataclass(frozen=True, slots=True)
class ExtractedField:
    """One value with its proof, as `POST /extract` has it."""

    path: str
    value: Any
    match: str
    confidence: float | None = None
    citations: tuple[dict[str, Any], ...] = ()
    flags: tuple[str, ...] = ()
    rejected: Any = None
    alternatives: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Extracted:
    """Values by a schema. `valid`: they satisfy it, null allowed; `complete`: a model answered about every page."""

    job_id: str
    values: dict[str, Any]
    fields: tuple[ExtractedField, ...]
    valid: bool
    complete: bool
    problems: tuple[dict[str, Any], ...] = ()
    pages: tuple[int, ...] = ()
    pages_failed: tuple[dict[str, Any], ...] = ()
    items_rejected: tuple[dict[str, Any], ...] = ()
    doubles_dropped: int = 0
    models: tuple[str, ...] = ()
    usage: dict[str, Any] = field(default_factory=dict)

    def field(self, path: str) -> ExtractedField:
        """The value at a JSON pointer such as `/items/0/price`. Raises KeyError."""
        found = next((one for one in self.fields if one.path == path), None)
        if found is None:
            raise KeyError(path)
        return found


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """`change` is `added`, `removed` or `changed`; `a` and `b` are the elements, None where there is none."""

    change: str
    a: dict[str, Any] | None = None
    b: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PageDifference:
    """A page that differs; `a` and `b` are its numbers. `elements` is None where they were not compared."""

    change: str
    a: int | None = None
    b: int | None = None
    elements: tuple[ElementDifference, ...] | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two jobs, as `GET /jobs/{a}/diff/{b}` has it."""

    job_a: str
    job_b: str
    equal: bool
    pages_equal: int
    pages_changed: int
    pages_added: int
    pages_removed: int
    pages: tuple[PageDifference, ...] = ()


def read(kind: type[T], found: Any) -> T:
    """A record of this kind from the service's JSON. Raises UnreadableError where it can't be one."""
    from pydantic import ValidationError

    try:
        return _reader(kind)(found)  # type: ignore[no-any-return, arg-type]
    except ValidationError as error:
        raise UnreadableError(
            f"The service's answer is not a {kind.__name__}. Check the address, and the versions of both sides."
        ) from error


def rows(found: Any, name: str) -> list[Any]:
    """The list of that name in the service's JSON. Raises UnreadableError where there is none."""
    listed = found.get(name) if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise UnreadableError("The service's answer is not a list. Check the versions of both sides.")
    return listed


@cache
def _reader(kind: type[Any]) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind).validate_python
