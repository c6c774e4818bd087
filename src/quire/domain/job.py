"""Jobs: their types, statuses, derived ids, options and records. Frozen, no I/O.

A document is one main job. Its work is cut into units; each unit belongs to one of the child jobs:

    download    fetch a link into the object plane            <main>-download
    split       open the document, count and select pages     <main>-split
    c<i>-<j>    read places i … j of the selection locally,   <main>-p<n>, one for each page
                counted from 0
    p<n>        read page n alone by its own route; pages     <main>-p<n>
                are counted from 1
    early       read pages by OCR while AI does not answer     (no job of its own)
    merge       join the pages                                <main>-merge
    export      deliver the text to another place              (no job of its own)
    callback    notify the caller                             (no job of its own)
    vault       start the next step of the vault's document   (no job of its own)

A document of the vault has jobs beside its main job, each of one unit, named after the document:

    classify    find title, summary, date, tags               classify-doc_<team>_<document>, classify-img_… for images
    embed       vectors of summary and tags                   embed-tags_<team>_<document>
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from quire.domain.delivery import DeliveryOutcome
from quire.domain.job_options import JobOptions as JobOptions  # noqa: PLC0414 - part of a job
from quire.domain.job_options import JobPriority as JobPriority  # noqa: PLC0414 - part of a job
from quire.domain.job_options import Mode as Mode  # noqa: PLC0414 - part of a job
from quire.domain.job_options import ReadingEffort as ReadingEffort  # noqa: PLC0414 - part of a job
from quire.domain.page import Grade, PageClass, PageSource
from quire.domain.payer import Payer


class JobType(StrEnum):
    MAIN = "main"
    DOWNLOAD = "download"
    SPLIT = "split"
    PAGE = "page"
    MERGE = "merge"
    CLASSIFY = "classify"
    EMBED = "embed"

    @property
    def is_step(self) -> bool:
        """Whether it is a step of a vault document: a job of one unit beside the main job."""
        return self in (JobType.CLASSIFY, JobType.EMBED)


class JobStatus(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class JobSecrets:
    """Values that are never stored in the clear; they are sealed before they reach Redis."""

    password: str | None = None
    prompt: str | None = None
    source_url: str | None = None
    callback_url: str | None = None
    target: str | None = None
    """Of a batch: where its results are delivered, with the caller's credentials (`batch_target.packed`)."""

    def __bool__(self) -> bool:
        return any((self.password, self.prompt, self.source_url, self.callback_url, self.target))

    def __repr__(self) -> str:
        return "JobSecrets(…)"


@dataclass(frozen=True, slots=True)
class ChildJob:
    """Split, merge or download: one of a kind for each main job."""

    status: JobStatus
    created_at: float | None = None
    started_at: float | None = None
    completed_at: float | None = None
    attempts: int = 0
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PageRecord:
    """Everything about one page but its text, which is in the object `ref` at `offset`.

    Its elements are at `elements_offset` of the object that `object_keys.elements_ref` names; a length of 0 says that
    it has none.
    """

    number: int
    status: JobStatus
    source: PageSource | None = None
    page_class: PageClass | None = None
    reasons: tuple[str, ...] = ()
    reader: str | None = None
    provider: str | None = None
    model: str | None = None
    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    confidence: float | None = None
    words: int = 0
    started_at: float | None = None
    completed_at: float | None = None
    error: dict[str, Any] | None = None
    ref: str | None = None
    offset: int = 0
    length: int = 0
    elements_offset: int = 0
    elements_length: int = 0
    words_missing: int = 0
    """Words of the page's text layer that are in none of its elements."""
    ungrounded: int = 0
    """Elements of an AI answer that have no ground in the page's own words."""
    ungrounded_numbers: int = 0
    """Numbers in an AI answer that are not among the page's own words."""
    grade: Grade | None = None
    reused_from: str | None = None
    """The page of the version before whose reading this is, as in `<job id>-p7`."""
    headings: tuple[int, ...] = ()
    """What its headings look like (`heading_scheme.packed_marks`), with the levels that the page alone gave them."""
    tables: tuple[tuple[int, ...], ...] = ()
    """The tables that begin and end it (`table_seams.packed_edges`)."""
    continues: str = ""
    """The id of the table that its first one continues, as its stored elements have it."""

    def packed(self) -> dict[str, Any]:
        """As kept in Redis and in the pages object: short names, nothing that is at its default."""
        packed: dict[str, Any] = {"st": self.status.value}
        for short, long in _SHORT.items():
            value = getattr(self, long)
            if value == _DEFAULTS[long]:  # a confidence of 0 is not an unknown one
                continue
            if isinstance(value, float):
                value = round(value, 6)
            packed[short] = list(value) if isinstance(value, tuple) else value
        return packed

    @classmethod
    def unpack(cls, number: int, packed: Mapping[str, Any]) -> PageRecord:
        found = {long: packed[short] for short, long in _SHORT.items() if short in packed}
        for name, kind in _TYPES.items():
            if name in found:
                found[name] = kind(found[name])
        return cls(number=number, status=JobStatus(packed["st"]), **found)

    @property
    def could_be_better(self) -> bool:
        """Whether the page failed, or a better reader failed or had no time: another try may give a better text."""
        is_fallback = self.source in (PageSource.MUPDF_FALLBACK, PageSource.MUPDF_TIMEOUT_FALLBACK)
        is_stopgap = self.source is PageSource.OCR and not STOPGAP_REASONS.isdisjoint(self.reasons)
        return self.status is not JobStatus.COMPLETED or is_fallback or is_stopgap


INSTEAD_OF_AI = "instead_of_ai"
"""Why a page was read by OCR: AI was to read it, and failed."""

STOPGAP_REASONS = frozenset((INSTEAD_OF_AI, "deadline"))
"""Why a page has the text of a lesser reader; the second one is written by deadline.lua."""


_TYPES = {
    "source": PageSource,
    "page_class": PageClass,
    "grade": Grade,
    "reasons": tuple,
    "headings": tuple,
    "tables": tuple,
}
_SHORT = {
    "src": "source",
    "cls": "page_class",
    "why": "reasons",
    "rd": "reader",
    "pv": "provider",
    "md": "model",
    "at": "attempts",
    "ti": "tokens_in",
    "to": "tokens_out",
    "usd": "cost_usd",
    "cf": "confidence",
    "w": "words",
    "t0": "started_at",
    "t1": "completed_at",
    "err": "error",
    "ref": "ref",
    "off": "offset",
    "len": "length",
    "eo": "elements_offset",
    "el": "elements_length",
    "wm": "words_missing",
    "ug": "ungrounded",
    "un": "ungrounded_numbers",
    "gr": "grade",
    "ru": "reused_from",
    "hd": "headings",
    "tb": "tables",
    "cn": "continues",
}
_DEFAULTS = {one.name: one.default for one in fields(PageRecord)}


@dataclass(frozen=True, slots=True)
class VaultLink:
    """The vault's document that a job works for. `attempt` is the one it was started for."""

    team: str
    document_id: str
    attempt: int
    catalog: str = ""
    """The identity of the catalog that has the document's row; '' in steps and in records of earlier versions."""

    def as_dict(self) -> dict[str, Any]:
        found = {"team": self.team, "document_id": self.document_id, "attempt": self.attempt}
        return {**found, "catalog": self.catalog} if self.catalog else found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> VaultLink:
        attempt = int(found["attempt"])
        return cls(str(found["team"]), str(found["document_id"]), attempt, str(found.get("catalog") or ""))


@dataclass(frozen=True, slots=True)
class MainJob:
    """A document's record as read from Redis."""

    id: str
    team: str
    status: JobStatus
    epoch: int
    created_at: float
    started_at: float | None
    completed_at: float | None
    error: dict[str, Any] | None
    options: JobOptions
    source: dict[str, Any]
    filename: str
    mime: str | None
    size: int
    sha256: str | None
    content_ref: str | None
    total_pages: int
    ranges: str | None
    pages_completed: int
    pages_failed: int
    slow_pages: int
    late_results: int
    deadline_at: float | None
    timed_out: bool
    children: dict[JobType, ChildJob]
    result: dict[str, Any] | None
    tokens_in: int
    tokens_out: int
    cost_usd: float
    sealed: str | None
    has_callback: bool
    info: dict[str, Any] = field(default_factory=dict)
    export: dict[str, Any] | None = None
    """The stored form of a `Delivery`; None for a job whose result stays in our own store."""
    exported: dict[str, Any] | None = None
    """The stored form of its `DeliveryOutcome`, with the epoch whose text was delivered."""
    type: JobType = JobType.MAIN
    vault: VaultLink | None = None
    retry_key: str = ""
    """The key of the retry that started this epoch."""
    attempts: int = 0
    """How often the only unit of a vault step was started."""
    download_bytes: int = 0
    download_total: int | None = None
    original_deleted: bool = False
    """Whether the document was deleted before its job (RETAIN_ORIGINALS)."""
    deleted_result: str | None = None
    """The key of a result that was deleted before its job (RETAIN_RESULTS)."""
    trace: str = ""
    """The context of the job's span and of its parent; empty where traces are off."""
    payer: Payer | None = None

    @property
    def delivery(self) -> DeliveryOutcome | None:
        """The outcome of this run's delivery; None before the delivery has ended, and for a job without one."""
        found = self.exported or {}
        current = found.get("epoch") == self.epoch and self.status is JobStatus.COMPLETED
        return DeliveryOutcome.from_dict(found) if current else None

    @property
    def result_deleted(self) -> bool:
        return self.result is not None and self.result["key"] == self.deleted_result

    @property
    def progress(self) -> int:
        """Split counts 10, the pages 80, the merge 10."""
        if self.status is JobStatus.COMPLETED:
            return 100
        return progress(self._done(JobType.SPLIT), self.pages_completed + self.pages_failed, self.total_pages)

    def _done(self, kind: JobType) -> bool:
        child = self.children.get(kind)
        return child is not None and child.status is JobStatus.COMPLETED


def progress(split_done: bool, pages_done: int, total_pages: int) -> int:
    share = 80 * pages_done // total_pages if total_pages else 0
    return (10 if split_done else 0) + share


_CHILD_ID = re.compile(r"(?P<main>[0-9a-f-]{36})(?:-(?P<kind>download|split|merge|p(?P<page>[0-9]{1,9})))?")
_STEP_ID = re.compile(
    r"(?P<step>process-doc|classify-doc|classify-img|embed-tags)_(?P<team>[A-Za-z0-9][A-Za-z0-9_.-]{0,63})_(?P<document>[0-9a-f-]{36})"
)


@dataclass(frozen=True, slots=True)
class JobId:
    """Any job's id, parsed: ids of children derive from the main id, so no table is needed."""

    main: str
    type: JobType
    page: int | None = None

    @classmethod
    def parse(cls, text: str) -> JobId | None:
        """None for what can't be an id of ours."""
        found = _CHILD_ID.fullmatch(text)
        if not found:
            return cls._of_document(text)
        if found["page"]:
            return cls(found["main"], JobType.PAGE, int(found["page"]))
        return cls(found["main"], JobType(found["kind"]) if found["kind"] else JobType.MAIN)

    @classmethod
    def _of_document(cls, text: str) -> JobId | None:
        found = _STEP_ID.fullmatch(text)
        if not found:
            return None
        if found["step"] == "process-doc":
            return cls(conversion_job_id(found["team"], found["document"]), JobType.MAIN)
        return cls(text, JobType(found["step"].partition("-")[0]))

    def __str__(self) -> str:
        if self.type is JobType.MAIN or self.type.is_step:
            return self.main
        if self.type is JobType.PAGE:
            return page_job_id(self.main, self.page or 0)
        return f"{self.main}-{self.type.value}"


def page_job_id(main: str, number: int) -> str:
    return f"{main}-p{number}"


def new_job_id() -> str:
    return str(uuid.uuid4())


def job_id_for_key(team: str, idempotency_key: str) -> str:
    """The same team and key always give the same id, so a repeated request can't make a second job."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"quire:{team}:{idempotency_key}"))


def conversion_job_id(team: str, document_id: str) -> str:
    """The main job of a vault document, also known as `process-doc_<team>_<document>`: one for each."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"quire:process-doc_{team}_{document_id}"))


def step_job_id(step: JobType, team: str, document_id: str, *, image: bool = False) -> str:
    """The id of a step's job: `classify-doc_…`, `classify-img_…` for an image, or `embed-tags_…`."""
    what = "tags" if step is JobType.EMBED else "img" if image else "doc"
    return f"{step.value}-{what}_{team}_{document_id}"


def attachment_job_id(parent: str, place: int) -> str:
    """The main job of a mail's attachment: the same however often the mail is split."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"quire:attachment:{parent}:{place}"))


def attachment_document_id(team: str, parent: str, place: int) -> str:
    """The document of an attachment to a mail that is in the vault: the same however often the mail is split."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"quire:attached-to-doc_{team}_{parent}:{place}"))


class UnitKind(StrEnum):
    DOWNLOAD = "download"
    SPLIT = "split"
    READ = "read"
    PAGE = "page"
    EARLY = "early"
    MERGE = "merge"
    EXPORT = "export"
    CALLBACK = "callback"
    VAULT = "vault"
    CLASSIFY = "classify"
    CLASSIFY_IMAGE = "classify-image"
    EMBED = "embed"


_CHUNK = re.compile(r"^c(\d+)-(\d+)$")
_PAGE = re.compile(r"^p(\d+)$")


@functools.lru_cache(maxsize=4096)
def unit_kind(unit: str) -> UnitKind:
    if _CHUNK.match(unit):
        return UnitKind.READ
    if _PAGE.match(unit):
        return UnitKind.PAGE
    return UnitKind(unit)


def chunk_places(unit: str) -> tuple[int, int]:
    """First and last place of a `c<i>-<j>` unit."""
    found = _CHUNK.match(unit)
    if not found:
        raise ValueError(f"{unit!r} is not a chunk")
    return int(found[1]), int(found[2])


def unit_page(unit: str) -> int:
    found = _PAGE.match(unit)
    if not found:
        raise ValueError(f"{unit!r} is not a page")
    return int(found[1])
