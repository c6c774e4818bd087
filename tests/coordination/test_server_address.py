"""Addresses of the coordination server: several hosts, users and passwords, TLS with an authority of one's own."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis, RedisCluster

from quire.coordination import server_address
from quire.coordination.connection import RedisConnection
from quire.coordination.server_address import ServerAccess, SeveralServers, make_client
from quire.errors import CoordinationCommandError, CoordinationError, SettingsError
from quire.settings import load
from tests.support.coordination_servers import ask
from tests.support.failing_servers import NAME, watched_by_sentinels
from tests.support.tls_doors import Certificate, TlsDoor


def test_all_parts_are_read_when_a_url_names_several_servers() -> None:
    found = SeveralServers.parse("rediss+sentinel://app:p%40ss@a:1,[::1]:2,c/main/3")
    assert found.hosts == (("a", 1), ("::1", 2), ("c", 26379))
    assert (found.username, found.password, found.path, found.tls) == ("app", "p@ss", "main/3", True)
    assert SeveralServers.parse("redis+cluster://a,b:7").hosts == (("a", 6379), ("b", 7))


@pytest.mark.parametrize("tls", [False, True])
def test_the_client_has_every_host_and_the_authority_when_servers_are_several(
    tls: bool, tmp_path: Path
) -> None:
    scheme, access = "rediss" if tls else "redis", ServerAccess(ca_file=tmp_path / "ca.pem")
    nodes = make_client(f"{scheme}+cluster://app:pw@a:1,b:2", access)
    assert isinstance(nodes, RedisCluster)
    assert [(one.host, one.port) for one in nodes.startup_nodes] == [("a", 1), ("b", 2)]
    primary = make_client(f"{scheme}+sentinel://app:pw@a:1,b:2/main/5", access)
    assert isinstance(primary, Redis)
    watching = [one.connection_pool for one in primary.connection_pool.sentinel_manager.sentinels]
    options = primary.connection_pool.connection_kwargs
    assert (options["username"], options["password"], options["db"]) == ("app", "pw", 5)
    for one in (nodes.connection_kwargs, options, *(pool.connection_kwargs for pool in watching)):
        assert one.get("ssl_ca_certs") == (str(tmp_path / "ca.pem") if tls else None)


def test_the_setting_takes_several_hosts_when_the_scheme_has_several_servers() -> None:
    url = "rediss+sentinel://u:p@a:26379,b:26379/name/0"
    assert load({"REDIS_URL": url}).coordination.redis_url == url


async def test_users_and_sentinels_sign_in_when_both_ask_for_passwords() -> None:
    with watched_by_sentinels() as servers:
        port = urlsplit(servers.url).port or 0
        primary = int(ask(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME).split(b"\r\n")[4])
        ask(primary, "ACL", "SETUSER", "app", "on", ">at@home", "~*", "&*", "+@all")
        ask(port, "ACL", "SETUSER", "default", "resetpass", ">watch")
        url = servers.url.replace("//", "//app:at%40home@")
        access = ServerAccess(sentinel_password="watch")
        connection = RedisConnection.open(url, access)
        try:
            assert await connection.command("ACL", "WHOAMI") == "app"
        finally:
            await connection.close()


async def test_a_server_is_trusted_by_its_authority_when_it_is_reached_over_tls(
    shared_server: str, tmp_path: Path
) -> None:
    certificate = Certificate.make(tmp_path)
    door = TlsDoor(urlsplit(shared_server).port or 0, certificate)
    trusted = RedisConnection.open(
        f"rediss://127.0.0.1:{door.port}/0", ServerAccess(ca_file=certificate.file)
    )
    untrusted = RedisConnection.open(f"rediss://127.0.0.1:{door.port}/0")
    try:
        await trusted.ping()
        with pytest.raises(CoordinationError, match="certificate"):
            await untrusted.blocking("PING")
    finally:
        await trusted.close()
        await untrusted.close()
        door.close()


def test_file_and_setting_are_named_when_the_authority_is_not_there(tmp_path: Path) -> None:
    settings = load({"REDIS_CA_FILE": str(tmp_path / "none.pem")}).coordination
    with pytest.raises(SettingsError, match=r"REDIS_CA_FILE names .*none\.pem, which is not a file"):
        ServerAccess.of(settings)


async def test_the_database_is_named_when_the_server_has_none_of_this_number(shared_server: str) -> None:
    connection = RedisConnection.open(f"redis://127.0.0.1:{urlsplit(shared_server).port}/99999")
    try:
        with pytest.raises(CoordinationCommandError, match="has no database of this number"):
            await connection.ping()
    finally:
        await connection.close()


async def test_tls_is_hinted_at_when_a_plain_server_is_asked_over_tls(
    shared_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_address, "_RETRIES", 0)
    monkeypatch.setattr(server_address, "_TIMEOUT_S", 0.5)
    connection = RedisConnection.open(f"rediss://127.0.0.1:{urlsplit(shared_server).port}/0")
    try:
        with pytest.raises(CoordinationError, match="a server without it needs redis://"):
            await connection.blocking("PING")
    finally:
        await connection.close()
