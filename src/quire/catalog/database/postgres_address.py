"""The PostgreSQL servers that DATABASE_URL names, in the form of libpq, and connections to the one that takes writes.

The driver tries several servers within one timeout, so that a host that is cut off uses it up. Here each server has the
timeout for itself, and the one that took the last connection is asked first.
"""

from __future__ import annotations

import contextlib
import math
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from quire.errors import SettingsError

_PORT = 5432
_CONNECT_TIMEOUT_S = 10.0
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SSL_FILES = ("sslrootcert", "sslcert", "sslkey")
_SSL_OPTIONS = ("sslmode", *_SSL_FILES)
_WRITABLE = ("any", "read-write", "primary")
_SESSION = {
    "application_name": "quire",
    "jit": "off",  # compiling a search takes ten times as long as running it
    "hnsw.ef_search": "100",
    "hnsw.iterative_scan": "relaxed_order",  # else rows of other teams or models use up the rows that the index scans
}
# A host that lost its power answers nothing, not even a refusal: its connections end after this time.
_SILENT_S = 20
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", _SILENT_S // 4),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", _SILENT_S // 4),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 1_000 * _SILENT_S),
)


@dataclass(frozen=True, slots=True)
class PostgresHost:
    """A name, an address, or the folder of a socket; where it is empty, the driver looks at the usual places."""

    name: str
    port: int


@dataclass(slots=True)
class PostgresAddress:
    """Servers of one database. `read` makes it of a URL; `connect` is for the pool of one process."""

    hosts: tuple[PostgresHost, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: str | None = None
    wanted: str = "any"
    ssl_options: dict[str, str] = field(default_factory=dict)
    session: dict[str, str] = field(default_factory=lambda: dict(_SESSION))
    timeout_s: float = _CONNECT_TIMEOUT_S
    _last: int = 0

    @classmethod
    def read(cls, url: str) -> PostgresAddress:
        """Raises SettingsError, which names DATABASE_URL and repeats no password."""
        parts = _split(url)
        credentials, _, place = parts.netloc.rpartition("@")
        user, _, password = credentials.partition(":")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        hosts = _hosts(place, options.pop("host", ""), options.pop("port", ""))
        found = cls(hosts, unquote(user) or None, unquote(password) or None, unquote(parts.path[1:]) or None)
        found._take(options)
        return found

    @property
    def wants_writes(self) -> bool:
        return self.wanted == "read-write"

    @property
    def longest_connect_s(self) -> float:
        """How long `connect` may take when no server answers."""
        return self.timeout_s * len(self.hosts)

    async def connect(self, **options: Any) -> Any:
        """A connection to the server that takes writes, or to any where the URL asks for that or names one server.

        Raises the error of the last server that was tried: OSError, or an error of the driver.
        """
        import asyncpg

        refused: Exception | None = None
        for number in self._order():
            try:
                connection = await asyncpg.connect(**self._arguments(self.hosts[number]), **options)
            except (OSError, asyncpg.PostgresError, asyncpg.TargetServerAttributeNotMatched) as error:
                # Also what a replica says that has no connection left, or that lacks a new database.
                refused = error
                continue
            self._last = number
            _notice_silence(connection)
            return connection
        raise refused or ConnectionError("no server is named")

    def _order(self) -> Iterator[int]:
        first, count = self._last, len(self.hosts)
        return ((first + nth) % count for nth in range(count))

    def _arguments(self, host: PostgresHost) -> dict[str, Any]:
        return {
            # Certificates are options of a URL only, for the driver as well.
            "dsn": f"postgresql://?{urlencode(self.ssl_options)}" if self.ssl_options else None,
            "host": host.name or None,
            "port": host.port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "timeout": self.timeout_s,
            "server_settings": self.session,
            "target_session_attrs": self.wanted,
        }

    def _take(self, options: dict[str, str]) -> None:
        self.wanted = options.pop("target_session_attrs", "read-write" if len(self.hosts) > 1 else "any")
        if self.wanted not in _WRITABLE:
            raise SettingsError(
                f"target_session_attrs in DATABASE_URL is none of {', '.join(_WRITABLE)}: the catalog is written to."
            )
        if "application_name" in options:
            self.session["application_name"] = options.pop("application_name")
        if "connect_timeout" in options:
            self.timeout_s = _seconds(options.pop("connect_timeout"))
        self.ssl_options = {name: options.pop(name) for name in _SSL_OPTIONS if name in options}
        _check_ssl(self.ssl_options)
        if options:
            listed = ", ".join(sorted(options))
            raise SettingsError(f"DATABASE_URL has options that are not understood: {listed}.")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SettingsError("DATABASE_URL is not the address of a PostgreSQL server.") from error
    if parts.scheme not in ("postgresql", "postgres"):
        raise SettingsError("DATABASE_URL is not the address of a PostgreSQL server.")
    return parts


def _hosts(place: str, names: str, ports: str) -> tuple[PostgresHost, ...]:
    """The servers of `a:1,b:2`; those of the options `host` and `port` come before them, as for libpq."""
    named = [_host_and_port(one) for one in place.split(",")]
    if names:
        named = [(name, "") for name in names.split(",")]
    if len(named) > 1 and not all(name for name, _ in named):
        raise SettingsError("DATABASE_URL names several servers, and one of them has no host.")
    if ports:
        given = ports.split(",")
        if len(given) not in (1, len(named)):
            raise SettingsError("DATABASE_URL has another number of ports than of hosts.")
        named = [(name, given[nth % len(given)]) for nth, (name, _) in enumerate(named)]
    return tuple(PostgresHost(name, _port(port)) for name, port in named)


def _host_and_port(one: str) -> tuple[str, str]:
    """Of `host`, `host:5432`, `[::1]:5432` or `%2Ffolder%2Fof%2Fthe%2Fsocket`."""
    if one.startswith("["):
        name, _, port = one[1:].partition("]")
        return name, port.removeprefix(":")
    name, _, port = one.partition(":")
    return unquote(name), port


def _port(text: str) -> int:
    if not text:
        return _PORT
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise SettingsError("A port in DATABASE_URL is not a number from 1 to 65535.")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise SettingsError("connect_timeout in DATABASE_URL is not a number of seconds.")
    return found


def _check_ssl(options: dict[str, str]) -> None:
    """What can't work is refused at the start; a connection would report it as a server that is away."""
    mode = options.get("sslmode", "prefer")
    if mode not in _SSL_MODES:
        raise SettingsError(f"sslmode in DATABASE_URL is none of {', '.join(_SSL_MODES)}.")
    if "sslkey" in options and "sslcert" not in options:
        raise SettingsError("DATABASE_URL has sslkey without sslcert.")
    trial = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if root := options.get("sslrootcert"):
            trial.load_verify_locations(cafile=root)
        if own := options.get("sslcert"):
            trial.load_cert_chain(own, keyfile=options.get("sslkey"), password="")
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"A certificate that DATABASE_URL names can't be used ({', '.join(_SSL_FILES)})."
        ) from error


def _notice_silence(connection: Any) -> None:
    """Ends the connection some seconds after its host stopped answering on the network, also within a statement."""
    transport = getattr(connection, "_transport", None)  # the driver has no public name for it
    found = transport.get_extra_info("socket") if transport is not None else None
    if found is None or found.family == socket.AF_UNIX:
        return
    for level, name, value in _SOCKET_OPTIONS:
        with contextlib.suppress(AttributeError, OSError):  # not on every system
            found.setsockopt(level, getattr(socket, name), value)
