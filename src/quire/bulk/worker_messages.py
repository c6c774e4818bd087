"""What the driver of a bulk run and its workers tell each other. It loads no reader: the driver parses nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from quire.objects.cloud_clients import Clouds
from quire.settings import Settings


class WorkerConfig(msgspec.Struct, frozen=True):
    """What a worker must know. Credentials and limits of readers come from the settings of its own machine."""

    source: str
    target: str
    ocr: bool = True
    formats: tuple[str, ...] = ()
    processes: int = 1
    password: str | None = None


class WorkerReport(msgspec.Struct, omit_defaults=True):
    """A line of a worker: the documents since the last line, or the end of a shard."""

    stats: dict[str, Any] | None = None
    finished: int | None = None
    failed: int | None = None
    error: str = ""
    retryable: bool = True


def clouds_of(settings: Settings) -> Clouds:
    """The credentials for every kind of bucket."""
    clouds = settings.clouds
    return Clouds(settings.aws.credentials(), clouds.google(), clouds.azure(), clouds.proxy_url)
