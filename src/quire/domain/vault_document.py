"""Documents of the vault: their records, statuses and the rules by which they change. Frozen, no I/O.

A document is `pending` while a job works on it, then `completed` or `failed`. Three more states are derived, never
stored: `stale` is pending for too long, `needs_classification` is completed without a title, `unsupported` is
completed without a title because Quire can't read the type.

Every processing of a document is a numbered *attempt*. A write names its attempt; a write of an attempt that is no
longer current changes nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quire.domain.text_chunk import ChunkPlace

STALE_AFTER_S = 600.0
"""Pending for longer than this is stale (ten minutes, as in the source)."""

UNSUPPORTED_TYPE = "unsupported_type"
"""The error code of a document whose type can't be read; the same as `UnsupportedTypeError.code`."""

MAX_TITLE_CHARS = 300
MAX_SUMMARY_CHARS = 4_000
MAX_TAG_CHARS = 64
MAX_TAGS = 20


class DocumentStatus(StrEnum):
    """The stored status."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"


class DocumentState(StrEnum):
    """The derived state, which callers see and filter lists by.

    As a filter, `pending` includes the stale ones and `completed` includes those without a title.
    """

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    STALE = "stale"
    NEEDS_CLASSIFICATION = "needs_classification"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class NewDocument:
    """What is known of a document when it is accepted. `content_ref` names its bytes in the object plane."""

    team: str
    id: str
    filename: str
    content_ref: str
    content_hash: str = ""
    size_bytes: int = 0
    kind: str = ""
    """The detected type as a short word: `pdf`, `png`, `docx`; empty while unknown."""
    content_type: str = ""
    """The MIME type under which the original is handed out."""
    source: str = ""
    """Where it came from, safe to show: `upload`, or a link without its secrets."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Classification:
    """A classifier's result. Raises ValueError for a field that the catalog can't store.

    `by` names the classifier: `local`, or `provider:model`. `date` is the document's own, `YYYY-MM-DD`.
    """

    title: str | None
    by: str
    summary: str | None = None
    date: str | None = None
    language: str | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.date is not None and not _is_date(self.date):
            raise ValueError("the date is not written as YYYY-MM-DD")
        if self.title is not None and not 0 < len(self.title.strip()) <= MAX_TITLE_CHARS:
            raise ValueError("the title is empty or too long")
        if self.summary is not None and len(self.summary) > MAX_SUMMARY_CHARS:
            raise ValueError("the summary is too long")
        if len(self.tags) > MAX_TAGS or any(not 0 < len(tag.strip()) <= MAX_TAG_CHARS for tag in self.tags):
            raise ValueError("too many tags, or a tag that is empty or too long")
        if self.language is not None and not 0 < len(self.language) <= 35:
            raise ValueError("the language is not a code")


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class ConversionRecord:
    """What the conversion found out. A field that is None keeps its earlier value."""

    job_id: str | None = None
    result_ref: str | None = None
    pages: int | None = None
    kind: str | None = None
    content_type: str | None = None
    content_ref: str | None = None
    content_hash: str | None = None
    size_bytes: int | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DocumentTag:
    """A tag of a team. `documents` is how many documents have it."""

    id: int
    name: str
    slug: str
    documents: int = 0


@dataclass(frozen=True, slots=True)
class VaultDocument:
    """One document, as the catalog stores it."""

    team: str
    id: str
    filename: str
    content_ref: str
    content_hash: str
    size_bytes: int
    kind: str
    content_type: str
    source: str
    status: DocumentStatus
    attempt: int
    """0 until the first attempt begins."""
    created_at: float
    updated_at: float
    pending_since: float | None = None
    """When it became pending; None when it is not."""
    completed_at: float | None = None
    job_id: str | None = None
    result_ref: str | None = None
    pages: int | None = None
    title: str | None = None
    summary: str | None = None
    date: str | None = None
    language: str | None = None
    classified_by: str | None = None
    tags: tuple[str, ...] = ()
    error: Mapping[str, Any] | None = None
    """Why it failed; on a completed document, why it has no classification."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def state(self, now_s: float, stale_after_s: float = STALE_AFTER_S) -> DocumentState:
        """Returns the state at this moment."""
        if self.status is DocumentStatus.PENDING:
            return DocumentState.STALE if self.is_stale(now_s, stale_after_s) else DocumentState.PENDING
        if self.status is DocumentStatus.COMPLETED and self.title is None:
            if (self.error or {}).get("code") == UNSUPPORTED_TYPE:
                return DocumentState.UNSUPPORTED
            return DocumentState.NEEDS_CLASSIFICATION
        return DocumentState(self.status.value)

    @property
    def is_image(self) -> bool:
        return self.content_type.startswith("image/")

    def is_stale(self, now_s: float, stale_after_s: float = STALE_AFTER_S) -> bool:
        since = self.pending_since if self.pending_since is not None else self.created_at
        return self.status is DocumentStatus.PENDING and now_s - since > stale_after_s

    def may_be_reprocessed(self, now_s: float, stale_after_s: float = STALE_AFTER_S) -> bool:
        """Whether a retry may begin: always, unless a fresh attempt is running."""
        return self.state(now_s, stale_after_s) is not DocumentState.PENDING


@dataclass(frozen=True, slots=True)
class DocumentFilters:
    """What a list or a search is narrowed to; every field that is set must hold.

    `tags` are names or slugs, all of which the document must have. Dates are the document's own, `YYYY-MM-DD`,
    both ends included; `created_from_s` and `created_to_s` are seconds since the epoch, the second excluded.
    `text` means: has all these words, in any spelling of case and accents, without ranking.
    """

    state: DocumentState | None = None
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    language: str | None = None
    date_from: str | None = None
    date_to: str | None = None
    created_from_s: float | None = None
    created_to_s: float | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """One page of a list, newest first. `next_cursor` is None on the last page."""

    documents: tuple[VaultDocument, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ChunkStart:
    """Where a text chunk begins in a text. `index` and `hash` are those of `GET /documents/{id}/chunks`."""

    start: int
    index: int
    hash: str


@dataclass(frozen=True, slots=True)
class ContentPage:
    """A text of a document, for search: a text chunk with its places, or a page. `number` is its first page."""

    text: str
    number: int | None = None
    chunks: tuple[ChunkStart, ...] = ()
    places: tuple[ChunkPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class ContentKept:
    """How much of a text is searchable. `truncated` is True if the text was longer than the bound."""

    pieces: int
    chars: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Vector:
    """An embedding and the model that made it; vectors of different models are never compared."""

    model: str
    values: tuple[float, ...] | Any
    """A sequence of floats; a one-dimensional numpy array is fine."""


@dataclass(frozen=True, slots=True)
class TextToEmbed:
    """A text that has no vector of the wanted model yet. `id` is a document's id or a tag's, as a text."""

    team: str
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """A few words around what was found. `highlights` are (start, end) offsets into `text`.

    The text is the document's own and is not escaped.
    """

    text: str
    highlights: tuple[tuple[int, int], ...] = ()
    page: int | None = None
    chunk: ChunkStart | None = None
    places: tuple[ChunkPlace, ...] = ()
    """The elements that have the highlighted words; without such words, those of the shown text."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One document found. The parts of `score` tell why: `text`, `summary` and `tags`, each from 0 to 1."""

    document: VaultDocument
    score: float
    snippet: Snippet | None = None
    title_highlights: tuple[tuple[int, int], ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of what was found, best first. `corrections` maps words of the query to those searched instead."""

    hits: tuple[SearchHit, ...]
    next_cursor: str | None = None
    corrections: Mapping[str, str] = field(default_factory=dict)
