"""Makes clients of S3, Google Cloud Storage and Azure, for our own store and for callers' buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quire.errors import ObjectsError

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Client = S3Store | GCSStore | AzureStore

SCHEMES = ("s3", "gs", "az")
_NOWHERE = "http://127.0.0.1:9"
_EVERYTHING = "*,0.0.0.0/0,::/0"
_ENDPOINTS = ("endpoint", "base_url")


@dataclass(frozen=True, slots=True)
class Clouds:
    """The operator's credentials by scheme, under obstore's names, and a proxy, if any."""

    s3: Mapping[str, str] = field(default_factory=dict)
    gs: Mapping[str, str] = field(default_factory=dict)
    az: Mapping[str, str] = field(default_factory=dict)
    proxy_url: str = ""

    def __repr__(self) -> str:
        return "Clouds(…)"

    @classmethod
    def with_only(cls, scheme: str, credentials: Mapping[str, str]) -> Clouds:
        found = dict(credentials)
        return {"s3": cls(s3=found), "gs": cls(gs=found), "az": cls(az=found)}.get(scheme, cls())

    def of(self, scheme: str) -> Mapping[str, str]:
        return {"s3": self.s3, "gs": self.gs, "az": self.az}.get(scheme, {})


@dataclass(frozen=True, slots=True)
class Patience:
    """The timeout of one request, and how often and how long a failed one is retried."""

    timeout_s: float = 120.0
    retries: int = 4
    retry_s: float = 30.0


def connect(url: str, clouds: Clouds, patience: Patience) -> Client:
    """Returns a client of `scheme://bucket/prefix` without contacting it. Raises ObjectsError for a wrong address."""
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    config = dict(clouds.of(url.partition("://")[0]))
    # Without an explicit proxy the client would use the environment's.
    options: dict[str, Any] = {
        "timeout": f"{max(1, int(patience.timeout_s))}s",
        "connect_timeout": "5s",
        "proxy_url": clouds.proxy_url or _NOWHERE,
    }
    if not clouds.proxy_url:
        options["proxy_excludes"] = _EVERYTHING
    if any(config.get(name, "").startswith("http://") for name in _ENDPOINTS):
        options["allow_http"] = True
    try:
        client: Client = from_url(
            url,
            config=config,  # type: ignore[call-overload]
            client_options=options,
            retry_config={
                "max_retries": patience.retries,
                "retry_timeout": timedelta(seconds=patience.retry_s),
            },
        )
    except (BaseError, ValueError) as error:
        raise ObjectsError(
            f"No client for {url} can be made ({type(error).__name__}): check its address and credentials.",
            retryable=False,
        ) from error
    return client
