"""The settings of doors: the interfaces of other systems that Quire answers to."""

from __future__ import annotations

from dataclasses import dataclass

from quire.settings import setting_kinds
from quire.settings.setting_kinds import setting

DOORS = ("docling", "tika", "openwebui", "unstructured", "mineru")


@dataclass(frozen=True)
class DoorsSettings:
    """Interfaces of other systems, for programs that already speak to them (docs/doors.md)."""

    enabled: tuple[str, ...] = setting(
        "DOORS",
        ",".join(DOORS),
        setting_kinds.choices(*DOORS),
        "The systems whose interface `quire serve` offers beside its own.",
    )
    wait_s: float = setting(
        "DOOR_WAIT",
        "10m",
        setting_kinds.duration("1s", "1d"),
        "How long a request of such an interface is held until its document is ready; then the answer is 504.",
    )
