"""Job records in Redis: the fields of a new job, what a claim returns, and conversion between fields and records."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quire.coordination.connection import Arg
from quire.coordination.streams import Hint
from quire.domain.job import (
    ChildJob,
    JobOptions,
    JobPriority,
    JobStatus,
    JobType,
    MainJob,
    PageRecord,
    VaultLink,
    unit_page,
)
from quire.domain.payer import Payer

_CHILD_TYPES = (JobType.DOWNLOAD, JobType.SPLIT, JobType.MERGE)


@dataclass(frozen=True, slots=True)
class NewJob:
    """What is known of a document when it is accepted."""

    id: str
    team: str
    options: JobOptions
    source: dict[str, Any]
    filename: str
    size: int = 0
    sha256: str | None = None
    fingerprint: str = ""
    content_ref: str | None = None
    sealed: str | None = None
    has_callback: bool = False
    export: dict[str, Any] | None = None
    vault: VaultLink | None = None
    document_timeout_s: float = 180.0
    page_timeout_s: float = 2.0
    payer: Payer | None = None


@dataclass(frozen=True, slots=True)
class JobIdInUse:
    """The job that already has the id of a new one."""

    status: JobStatus
    sha256: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class JobState:
    """A job's status, its error and its epoch, and nothing else of it."""

    status: JobStatus
    error: dict[str, Any] | None
    epoch: int


class OutcomeWrite:
    """Whether a claim's outcome is being written. From then on its stage must not be interrupted."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A unit that a worker has claimed, with the job's record."""

    hint: Hint
    token: str
    starts: int
    failures: int
    job: MainJob
    outages: int = 0
    """How often the unit has waited for a plane that was away."""
    tried: bool = True
    """Whether an earlier attempt may have stored something about the unit."""
    page: PageRecord | None = None
    """The record of the page, where the unit is one page."""
    outcome_write: OutcomeWrite = field(default_factory=OutcomeWrite, compare=False)

    @property
    def lost_starts(self) -> int:
        """Earlier starts of which nothing is recorded: their worker died or was stopped. Parked ones don't count."""
        return max(0, self.starts - 1 - self.failures)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a unit could not be claimed: `gone`, `held` (by `owner`) or `early`."""

    why: str
    owner: str = ""
    not_before_s: float = 0.0


def read_claim(hint: Hint, token: str, answer: list[Any]) -> Claim | Refused:
    """What scripts/job/claim.lua has answered."""
    if answer[0] == "held":
        return Refused("held", owner=answer[1])
    if answer[0] == "early":
        return Refused("early", not_before_s=float(answer[1]) / 1000)
    if answer[0] != "run":
        return Refused("gone")
    starts, failures, outages, tried, page, *fields = answer[1:]
    return Claim(
        hint,
        token,
        int(starts),
        int(failures),
        job_from_fields(hint.job_id, dict(zip(fields[::2], fields[1::2], strict=True))),
        outages=int(outages),
        tried=bool(tried),
        page=PageRecord.unpack(unit_page(hint.unit), json.loads(page)) if page else None,
    )


@dataclass(frozen=True, slots=True)
class PageOutcome:
    """One page of a finished unit. A record that is still `queued` is to be read alone by a slower reader."""

    record: PageRecord

    @property
    def letter(self) -> str:
        return {JobStatus.COMPLETED: "d", JobStatus.FAILED: "f"}.get(self.record.status, "s")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A unit that was issued or claimed longer ago than the grace period. `since` says when."""

    unit: str
    owner: str
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Sweep:
    status: JobStatus | None
    deadline_at: float | None
    epoch: int
    queued_at: float | None = None
    """When the job was queued, if no worker has claimed a unit of it yet."""
    priority: JobPriority = JobPriority.NORMAL
    suspects: tuple[Suspect, ...] = field(default=())


def new_fields(new: NewJob) -> dict[str, Arg]:
    """A new job's fields as Redis gets them."""
    fields: dict[str, Arg] = {
        "team": new.team,
        "options": as_json(new.options.as_dict()),
        "source": as_json(new.source),
        "filename": new.filename,
        "size": new.size,
        "fingerprint": new.fingerprint,
        "t.document": int(new.document_timeout_s * 1000),
        "t.page": int(new.page_timeout_s * 1000),
        "t.asked": int((new.options.timeout_s or 0) * 1000),
    }
    if new.options.priority is not JobPriority.NORMAL:
        fields["priority"] = new.options.priority.value
    if new.sha256:
        fields["sha256"] = new.sha256
    if new.content_ref:
        fields["content_ref"] = new.content_ref
    if new.sealed:
        fields["sealed"] = new.sealed
    if new.has_callback:
        fields["callback"] = "1"
    if new.export:
        fields["export"] = as_json(new.export)
    if new.vault:
        fields |= {"vault": as_json(new.vault.as_dict()), "follow": "1"}
        fields["retry_key"] = attempt_key(new.vault.attempt)
    if new.payer:
        fields["payer"] = new.payer.as_text()
    return fields


_ATTEMPT = "attempt-"


def attempt_key(attempt: int) -> str:
    """The retry key of a conversion that was started for this attempt at a vault document."""
    return f"{_ATTEMPT}{attempt}"


def attempt_of(retry_key: str) -> int | None:
    """The attempt of an `attempt_key`; None for a key that a caller gave."""
    number = retry_key.removeprefix(_ATTEMPT)
    return int(number) if number != retry_key and number.isascii() and number.isdecimal() else None


def objects_kept_ms(ttl_ms: int) -> int:
    """Objects outlive their record by as long again, an hour at most, so that no record points to nothing."""
    return ttl_ms + min(ttl_ms, 3_600_000)


def job_from_fields(job_id: str, found: Mapping[str, str]) -> MainJob:
    """A job's record from its fields as Redis has them."""
    children = {kind: _child(kind, found) for kind in _CHILD_TYPES if found.get(f"{kind.value}.status")}
    return MainJob(
        id=job_id,
        team=found["team"],
        status=JobStatus(found["status"]),
        epoch=int(found["epoch"]),
        created_at=_seconds(found, "created_at") or 0.0,
        started_at=_seconds(found, "started_at"),
        completed_at=_seconds(found, "completed_at"),
        error=loaded(found.get("error")),
        options=_options(found["options"]),
        source=json.loads(found["source"]),
        filename=found["filename"],
        mime=found.get("mime"),
        size=int(found.get("size") or 0),
        sha256=found.get("sha256"),
        content_ref=found.get("content_ref"),
        total_pages=int(found.get("total") or 0),
        ranges=found.get("ranges"),
        pages_completed=int(found.get("done") or 0),
        pages_failed=int(found.get("failed") or 0),
        slow_pages=int(found.get("slow_total") or 0),
        late_results=int(found.get("late") or 0),
        deadline_at=_seconds(found, "deadline_at"),
        timed_out=found.get("timed_out") == "1",
        children=children,
        result=loaded(found.get("result")),
        tokens_in=int(found.get("tokens_in") or 0),
        tokens_out=int(found.get("tokens_out") or 0),
        cost_usd=int(found.get("cost_micro") or 0) / 1_000_000,
        sealed=found.get("sealed"),
        has_callback=found.get("callback") == "1",
        info=loaded(found.get("info")) or {},
        export=loaded(found.get("export")),
        exported=loaded(found.get("exported")),
        type=JobType(found.get("type") or "main"),
        vault=VaultLink.from_dict(json.loads(found["vault"])) if found.get("vault") else None,
        retry_key=found.get("retry_key") or "",
        attempts=int(found.get("attempts") or 0),
        download_bytes=int(found.get("download.bytes") or 0),
        download_total=int(found.get("download.total") or 0) or None,
        original_deleted=bool(found.get("original.deleted")) and not found.get("content_ref"),
        deleted_result=found.get("result.deleted"),
        trace=found.get("trace") or "",
        payer=Payer.parse(found.get("payer")),
    )


@functools.lru_cache(maxsize=256)
def _options(packed: str) -> JobOptions:
    """Cached: every claim of a document's units reads the same options."""
    return JobOptions.from_dict(json.loads(packed))


def _child(kind: JobType, found: Mapping[str, str]) -> ChildJob:
    name = kind.value
    return ChildJob(
        status=JobStatus(found[f"{name}.status"]),
        created_at=_seconds(found, f"{name}.created_at"),
        started_at=_seconds(found, f"{name}.started_at"),
        completed_at=_seconds(found, f"{name}.completed_at"),
        attempts=int(found.get(f"{name}.attempts") or 0),
        error=loaded(found.get(f"{name}.error")),
    )


def _seconds(found: Mapping[str, str], name: str) -> float | None:
    raw = found.get(name)
    return int(float(raw)) / 1000 if raw else None


def loaded(raw: str | None) -> dict[str, Any] | None:
    return json.loads(raw) if raw else None


def as_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def flat(fields: Mapping[str, Arg]) -> list[Arg]:
    """The names and values of fields in one list, as commands and scripts take them."""
    return [part for pair in fields.items() for part in pair]
