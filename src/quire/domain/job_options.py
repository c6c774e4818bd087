"""What the caller of a conversion asked for. Frozen, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    AI = "ai"


class JobPriority(StrEnum):
    """The order in which workers claim units of different documents; the highest first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class ReadingEffort(StrEnum):
    """How much work a page may take on this machine."""

    FAST = "fast"
    BALANCED = "balanced"
    CAREFUL = "careful"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What the caller asked for, without secrets. Part of the dedupe fingerprint."""

    mode: Mode = Mode.AUTO
    engine: str | None = None
    model_tier: str | None = None
    pages: str | None = None
    timeout_s: float | None = None
    text_only: bool = False
    """Only the text that is in the document: neither AI nor OCR."""
    priority: JobPriority = JobPriority.NORMAL
    force_ocr: bool = False
    """Pages are read by OCR although they have a text layer."""
    ocr_languages: str | None = None
    """The languages of the scans, joined with `+`; None takes those of the settings."""
    reading_effort: ReadingEffort | None = None
    """None takes that of the settings."""
    version_of: str | None = None
    """The job of the version before: its readings are used for pages that have not changed."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "mode": self.mode.value,
            "engine": self.engine,
            "model_tier": self.model_tier,
            "pages": self.pages,
            "timeout_seconds": self.timeout_s,
            "text_only": self.text_only,
            "priority": self.priority.value,
            **self._reading(),
        }

    def _reading(self) -> dict[str, Any]:
        """Only what was asked for: jobs of before these options keep their fingerprints."""
        asked = {
            "force_ocr": self.force_ocr,
            "ocr_languages": self.ocr_languages,
            "reading_effort": self.reading_effort.value if self.reading_effort else None,
            "version_of": self.version_of,
        }
        return {name: value for name, value in asked.items() if value}

    def identity(self) -> dict[str, Any]:
        """What makes two jobs with the same content different: all options but the priority."""
        return {name: value for name, value in self.as_dict().items() if name != "priority"}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> JobOptions:
        return cls(
            mode=Mode(found.get("mode") or "auto"),
            engine=found.get("engine"),
            model_tier=found.get("model_tier"),
            pages=found.get("pages"),
            timeout_s=found.get("timeout_seconds"),
            text_only=bool(found.get("text_only")),
            priority=JobPriority(found.get("priority") or "normal"),
            force_ocr=bool(found.get("force_ocr")),
            ocr_languages=found.get("ocr_languages"),
            reading_effort=ReadingEffort(found["reading_effort"]) if found.get("reading_effort") else None,
            version_of=found.get("version_of"),
        )
