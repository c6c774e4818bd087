"""Addresses of the coordination server: several hosts, users and passwords, TLS with an authority of one's own."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redis.asyncio import Redis, RedisCluster

from quire.coordination.connection import RedisConnection
from quire.coordination.server_address import ServerAccess, SeveralServers, make_client
from quire.errors import CoordinationError
from quire.settings import load
from tests.support.coordination_servers import ask
from tests.support.failing_servers import NAME, watched_by_sentinels


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


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "queue.example")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    return cert_file, key_file


@asynccontextmanager
async def tls_in_front(port: int, certificate: tuple[Path, Path]) -> AsyncIterator[int]:
    """A TLS port that forwards to the server: the embedded program is built without TLS."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(forward(reader, outer), forward(inner, writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def test_a_server_is_trusted_by_its_authority_when_it_is_reached_over_tls(
    shared_server: str, certificate: tuple[Path, Path]
) -> None:
    async with tls_in_front(urlsplit(shared_server).port or 0, certificate) as port:
        trusted = RedisConnection.open(f"rediss://127.0.0.1:{port}/0", ServerAccess(ca_file=certificate[0]))
        untrusted = RedisConnection.open(f"rediss://127.0.0.1:{port}/0")
        try:
            await trusted.ping()
            with pytest.raises(CoordinationError, match="certificate"):
                await untrusted.blocking("PING")
        finally:
            await trusted.close()
            await untrusted.close()
