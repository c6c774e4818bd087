"""Where a job's result is put beside our own store, and what came of it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Destination(StrEnum):
    """Next to the original in its bucket, in a file on this machine, or under a prefix that the caller named."""

    BUCKET = "bucket"
    LOCAL = "local"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a caller asked for. It is stored with the job as one flat object; nothing in it is secret."""

    destination: Destination
    file_path: str = ""
    """The address of the original, for Destination.BUCKET."""
    result_to: str = ""
    """The prefix, for Destination.PREFIX."""
    user: str = ""
    """The caller's own user. Two users' requests for the same document are two jobs."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further fields that a facade stores with the job; the pipeline does not interpret them."""

    @property
    def identity(self) -> tuple[str, ...]:
        """The part of the fingerprint that makes requests for the same content and options different jobs."""
        if self.destination is Destination.PREFIX:
            return self.destination.value, self.result_to
        return self.destination.value, self.file_path, self.user

    def as_dict(self) -> dict[str, Any]:
        own = {"file_path": self.file_path, "result_to": self.result_to, "user": self.user}
        return {**self.details, "destination": self.destination.value, **own}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Delivery:
        """Reads what `as_dict` returned, also that of earlier versions. Raises KeyError or ValueError without a
        destination."""
        own = {name: str(found.get(name, "")) for name in ("file_path", "result_to", "user")}
        details = {name: value for name, value in found.items() if name not in own and name != "destination"}
        return cls(Destination(found["destination"]), **own, details=details)


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """What came of a delivery: an address or a path with the size, or the error that ended the attempts."""

    url: str | None = None
    path: str | None = None
    size_bytes: int | None = None
    error: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        named = {
            "s3_url": self.url,
            "local_path": self.path,
            "text_len": self.size_bytes,
            "error": self.error,
        }
        return {name: value for name, value in named.items() if value is not None}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> DeliveryOutcome:
        return cls(found.get("s3_url"), found.get("local_path"), found.get("text_len"), found.get("error"))
