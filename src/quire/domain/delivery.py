"""GhostServer's words for documents: engines, statuses, file ids, and what is kept of a request. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from quire.domain.job import JobStatus

PROCESSING_MODE = "bart_1"
_PROVIDERS = {"openaiengine": "openai", "juniorengine": "openai", "claudeengine": "anthropic"}
_MARK = re.compile(r"[._-]original$", re.IGNORECASE)


class GhostStatus(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    SUCCESS = "success"
    FAILED = "failed"


class Destination(StrEnum):
    """Where the text goes: next to the original in its bucket, into a file on this machine, or where POST /convert
    was told by `result_to`, which is delivered in the same way."""

    BUCKET = "bucket"
    LOCAL = "local"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class GhostRequest:
    """What is kept of a request beside its conversion. Nothing in it is secret."""

    file_id: str
    file_path: str
    destination: Destination
    user: str = ""
    source: str = "api"
    ai_engine: str = ""
    ai_provider: str = "openai"
    processing_mode: str = PROCESSING_MODE
    fast_upload: bool = False
    ahead: int = 0
    """Documents that were not over when this one came."""
    result_to: str = ""
    """The prefix of Destination.PREFIX."""

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes two requests for the same content and options different all the same."""
        if self.destination is Destination.PREFIX:
            return self.destination.value, self.result_to
        return self.destination.value, self.file_path, self.user

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> GhostRequest:
        known = {one.name: found[one.name] for one in fields(cls) if one.name in found}
        return cls(**{**known, "destination": Destination(found["destination"])})


def provider_of(ai_engine: str) -> str | None:
    """The provider that an engine's name stands for, in any case; None for a name that is not known."""
    return _PROVIDERS.get(ai_engine.lower())


def status_of(status: JobStatus, *, delivered: bool) -> GhostStatus:
    """A cancelled job is `failed`: there is no fifth word. A result not yet delivered is still `processing`."""
    if status is JobStatus.COMPLETED:
        return GhostStatus.SUCCESS if delivered else GhostStatus.PROCESSING
    if status in (JobStatus.FAILED, JobStatus.CANCELLED):
        return GhostStatus.FAILED
    return GhostStatus(status.value)


def file_id_of(path: str) -> str:
    """The id in a path: its last part without extension and without the mark of an original.

    `in/4711.pdf`, `in/4711_original.pdf` and `in/4711/original.pdf` are all 4711.
    """
    parts = [part for part in path.split("/") if part]
    if not parts:
        return ""
    stem, dot, _extension = parts[-1].rpartition(".")
    name = stem if dot and stem else parts[-1]
    if name.lower() == "original" and len(parts) > 1:
        return parts[-2]
    return _MARK.sub("", name) or name
