"""The address of the coordination server: reads REDIS_URL and makes the client for it.

`redis://`, `rediss://` and `unix://` name one server. `redis+sentinel://a:26379,b:26379/name/0` names sentinels, the
primary they watch, and its database. `redis+cluster://a:6379,b:6379` names some nodes of a cluster; the others are
found from them. `rediss+sentinel://` and `rediss+cluster://` are the same over TLS.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff

from quire.errors import SettingsError
from quire.settings.sections import CoordinationSettings

_RETRIES = 8
_TIMEOUT_S = 5
_SENTINEL_TIMEOUT_S = 1
"""A sentinel that does not answer is passed over: the next one knows the primary too."""
_PORTS = {"sentinel": 26379, "cluster": 6379}


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """What a URL can't carry: the certificate authority, and the credentials of the sentinels themselves."""

    ca_file: Path | None = None
    sentinel_username: str = ""
    sentinel_password: str = ""

    @classmethod
    def of(cls, settings: CoordinationSettings) -> ServerAccess:
        """Raises SettingsError if the file of the certificate authority is not there."""
        authority = settings.redis_ca_file
        if authority is not None and not authority.is_file():
            raise SettingsError(f"REDIS_CA_FILE names {authority}, which is not a file.")
        return cls(authority, settings.sentinel_username, settings.sentinel_password)


@dataclass(frozen=True, slots=True)
class SeveralServers:
    """The parts of a sentinel or cluster URL."""

    kind: str
    tls: bool
    hosts: tuple[tuple[str, int], ...]
    username: str | None
    password: str | None
    path: str

    @classmethod
    def parse(cls, url: str) -> SeveralServers:
        """Raises ValueError for a malformed host or port."""
        parts = urlsplit(url)
        base, _, kind = parts.scheme.partition("+")
        credentials, _, hosts = parts.netloc.rpartition("@")
        username, _, password = credentials.partition(":")
        return cls(
            kind,
            base == "rediss",
            tuple(_host(one, _PORTS[kind]) for one in hosts.split(",")),
            unquote(username) or None,
            unquote(password) or None,
            parts.path.strip("/"),
        )


def _host(text: str, default_port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host is missing")
    return parts.hostname, parts.port or default_port


def make_client(url: str, access: ServerAccess, *, decodes: bool = True) -> Redis | RedisCluster:
    """A client that connects when it is first used; its replies are text, or bytes where `decodes` is false."""
    options: dict[str, Any] = {
        "decode_responses": decodes,
        "protocol": 2,
        "health_check_interval": 30,
        "socket_connect_timeout": _TIMEOUT_S,
        "socket_timeout": _TIMEOUT_S,
    }
    scheme = urlsplit(url).scheme
    if "+" not in scheme:
        tls = _authority(access) if scheme == "rediss" else {}
        return Redis.from_url(url, retry=_retry(), **options, **tls)
    servers = SeveralServers.parse(url)
    options |= {"username": servers.username, "password": servers.password}
    if servers.tls:
        options |= {"ssl": True, **_authority(access)}
    return _cluster(servers, options) if servers.kind == "cluster" else _primary(servers, options, access)


def _retry() -> Retry:
    return Retry(ExponentialBackoff(cap=1.0, base=0.02), _RETRIES)


def _authority(access: ServerAccess) -> dict[str, Any]:
    return {"ssl_ca_certs": str(access.ca_file)} if access.ca_file else {}


def _cluster(servers: SeveralServers, options: dict[str, Any]) -> RedisCluster:
    seeds = [ClusterNode(host, port) for host, port in servers.hosts]
    return RedisCluster(startup_nodes=seeds, **options)


def _primary(servers: SeveralServers, options: dict[str, Any], access: ServerAccess) -> Redis:
    """The client of the primary that the sentinels name; each new connection asks them again."""
    asking = {name: value for name, value in options.items() if name.startswith("ssl")} | {
        "socket_timeout": _SENTINEL_TIMEOUT_S,
        "socket_connect_timeout": _SENTINEL_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
        "username": access.sentinel_username or None,
        "password": access.sentinel_password or None,
    }
    name, _, database = servers.path.partition("/")
    sentinel = Sentinel(servers.hosts, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
    client: Redis = sentinel.master_for(
        name or "mymaster", redis_class=Redis, db=int(database or 0), retry=_retry(), **options
    )
    return client


def shown(url: str) -> str:
    """The address without its credentials."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"
