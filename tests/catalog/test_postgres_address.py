"""DATABASE_URL in the form of libpq: which servers it names, and which of them gets a connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from quire.catalog.database.postgres_address import PostgresAddress, PostgresHost
from quire.errors import SettingsError
from tests.support.postgres import PostgresServer
from tests.support.vault_running import vault_at
from tests.support.waiting import DEADLINE_S, PATIENCE


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://quire@a/quire", [("a", 5432)]),
        ("postgresql://quire@a,b:5433/quire", [("a", 5432), ("b", 5433)]),
        ("postgres://a:1,b:2,c:3/quire", [("a", 1), ("b", 2), ("c", 3)]),
        ("postgresql://[::1]:7,[fe80::2]/quire", [("::1", 7), ("fe80::2", 5432)]),
        ("postgresql:///quire?host=a,b&port=5432,5433", [("a", 5432), ("b", 5433)]),
        ("postgresql://quire@/quire?host=a,/run/sockets&port=9", [("a", 9), ("/run/sockets", 9)]),
        ("postgresql://%2Frun%2Fone,%2Frun%2Ftwo/quire", [("/run/one", 5432), ("/run/two", 5432)]),
        ("postgresql:///quire", [("", 5432)]),
    ],
)
def test_servers_are_found_when_the_address_has_the_form_of_libpq(
    url: str, hosts: list[tuple[str, int]]
) -> None:
    assert PostgresAddress.read(url).hosts == tuple(PostgresHost(*one) for one in hosts)


def test_credentials_are_unquoted_when_they_are_in_the_address() -> None:
    found = PostgresAddress.read("postgresql://qu%40ire:h%2Cu%3Ash@a,b/the%20vault")
    assert (found.user, found.password, found.database) == ("qu@ire", "h,u:sh", "the vault")
    assert "h,u:sh" not in repr(found)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://a/quire", "any"),
        ("postgresql://a,b/quire", "read-write"),
        ("postgresql://a/quire?target_session_attrs=read-write", "read-write"),
        ("postgresql://a,b/quire?target_session_attrs=primary", "primary"),
    ],
)
def test_a_server_that_takes_writes_is_wanted_when_there_are_several(url: str, wanted: str) -> None:
    assert PostgresAddress.read(url).wanted == wanted


@pytest.mark.parametrize(
    "place",
    [
        *("a,,b/q", "a,/q", "a:0/q", "a:70000/q", "a:5x/q", "/q?host=a,b,c&port=1,2", "[::1/q"),
        *("a/q?target_session_attrs=standby", "a/q?sslmode=maybe", "a/q?connect_timeout=0", "a/q?magic=1"),
        *("a/q?sslrootcert=/not/there.pem", "a/q?sslkey=/not/there.pem", "a/q?connect_timeout=nan"),
    ],
)
def test_start_stops_when_the_address_makes_no_sense(place: str) -> None:
    with pytest.raises(SettingsError, match="DATABASE_URL") as refused:
        PostgresAddress.read(f"postgresql://quire:hush@{place}")
    assert "hush" not in str(refused.value)


async def test_no_process_starts_when_the_address_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="DATABASE_URL"):
        async with vault_at(tmp_path, kinds=None, DATABASE_URL="postgresql://a,b/q?sslmode=maybe"):
            pytest.fail("it would have accepted documents")


def test_start_stops_when_a_certificate_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "root.pem").write_text("this is no certificate")
    with pytest.raises(SettingsError, match="sslrootcert"):
        PostgresAddress.read(f"postgresql://a/q?sslmode=verify-full&sslrootcert={tmp_path / 'root.pem'}")


@contextmanager
def silent_host() -> Iterator[int]:
    """A port that takes connections and never says a word, as a host that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


async def test_next_server_has_its_own_time_when_one_is_silent(postgres: PostgresServer) -> None:
    # Not template1: while other tests copy it no connection to it is made, and while one is open they can't.
    alone = PostgresAddress.read(postgres.fresh_database())
    [host] = alone.hosts
    with silent_host() as port:
        there = f"{quote(host.name, safe='')}:{host.port}"
        address = PostgresAddress.read(
            f"postgresql://postgres@127.0.0.1:{port},{there}/{alone.database}?connect_timeout={5 * PATIENCE}"
        )
        first = await address.connect()
    # The silent one is gone now, so a second try at it would not take long, but would be seen.
    address.timeout_s = DEADLINE_S
    second = await address.connect()
    try:
        assert await first.fetchval("SELECT 1") == await second.fetchval("SELECT 1") == 1
        assert next(address._order()) == 1, "the server that answered is asked first"
    finally:
        await first.close()
        await second.close()
