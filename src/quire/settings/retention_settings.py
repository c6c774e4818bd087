"""The settings of retention: how long originals and results are kept, and how long links to them work."""

from __future__ import annotations

from dataclasses import dataclass

from quire.settings import setting_kinds
from quire.settings.setting_kinds import ValueKind, setting

_LONGEST_SIGNED = "7d"  # S3 signs nothing for longer


def kept_for() -> ValueKind[float | None]:
    """Seconds; nothing means as long as the job itself."""
    duration = setting_kinds.duration("0", "3650d")

    def read(value: str) -> float | None:
        return duration.read(value) if value else None

    def write(value: float | None) -> str:
        return "" if value is None else duration.write(value)

    return ValueKind(f"{duration.expected}, or nothing", read, write)


@dataclass(frozen=True)
class RetentionSettings:
    """How long documents and results stay once their job is over, where that is shorter than JOB_TTL."""

    originals_s: float | None = setting(
        "RETAIN_ORIGINALS",
        "",
        kept_for(),
        "How long the document itself is kept after its job has ended; 0 deletes it at once; "
        "when empty, as long as the job.",
    )
    results_s: float | None = setting(
        "RETAIN_RESULTS",
        "",
        kept_for(),
        "How long the result is kept after its job has ended; when empty, as long as the job.",
    )
    link_ttl_s: float = setting(
        "LINK_TTL",
        "1h",
        setting_kinds.duration("1s", _LONGEST_SIGNED),
        "How long a signed link to a result or an original, or for an upload, is good for.",
    )

    @property
    def shortest_s(self) -> float | None:
        """The shorter of the two; None if everything stays as long as its job."""
        given = [one for one in (self.originals_s, self.results_s) if one is not None]
        return min(given) if given else None
