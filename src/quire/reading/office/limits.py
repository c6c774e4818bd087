"""How much a document may unpack to before it is refused."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OfficeLimits:
    """`max_attachments` is what this mail may still turn into documents of their own; 0 turns none into one."""

    max_archive_bytes: int = 512 << 20
    max_archive_members: int = 20_000
    max_attachments: int = 100
