"""Where the results of a batch go when they are not fetched: a link, or a bucket of the caller's."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PutTarget:
    """All results as one zip, put to a link."""

    url: str
    kind: str = "put"

    def __repr__(self) -> str:
        return "PutTarget(…)"


@dataclass(frozen=True, slots=True)
class BucketTarget:
    """A file for each document and format, in a bucket of an S3 service."""

    endpoint: str
    """With its scheme, such as https://s3.example.org."""
    bucket: str
    key_prefix: str
    region: str
    access_key: str
    secret_key: str
    kind: str = "s3"

    def __repr__(self) -> str:
        return "BucketTarget(…)"


BatchTarget = PutTarget | BucketTarget


def packed(target: BatchTarget) -> str:
    """As text; it has secrets, so it must be sealed."""
    return json.dumps(asdict(target))


def unpacked(text: str) -> BatchTarget:
    found: dict[str, Any] = json.loads(text)
    return PutTarget(**found) if found["kind"] == "put" else BucketTarget(**found)
