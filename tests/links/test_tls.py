"""Links over TLS. A child process fetches, because the trusted certificates are fixed at its start."""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

FETCH = """
import asyncio, sys
from quire.errors import QuireError
from quire.links import LinkPolicy, download

async def lookup(host, port):
    return ["127.0.0.1"]

class Printed:
    size, validator = 0, ""

    async def write(self, chunk):
        self.size += len(chunk)
        print(chunk.decode())

    async def restart(self, validator):
        pass

try:
    asyncio.run(download(sys.argv[1], Printed(), LinkPolicy(allow_private=True, timeout_s=20), lookup=lookup))
except QuireError as error:
    print(error.code, error.retryable, error.public)
"""


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "files.example")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("files.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_file, key_file


@asynccontextmanager
async def tls_server(certificate: tuple[Path, Path], answer: bytes) -> AsyncIterator[int]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def fetched(url: str, trusted: Path | None) -> str:
    environ = {**os.environ, "SSL_CERT_FILE": str(trusted)} if trusted else dict(os.environ)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FETCH, url, env=environ, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    return out.decode().strip()


async def test_link_is_fetched_when_the_certificate_names_the_host(certificate: tuple[Path, Path]) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    async with tls_server(certificate, answer) as port:
        assert await fetched(f"https://files.example:{port}/", certificate[0]) == "hi"
        wrong_name = await fetched(f"https://other.example:{port}/", certificate[0])
        untrusted = await fetched(f"https://files.example:{port}/", None)
    assert wrong_name.startswith("download_failed False")
    assert untrusted.startswith("download_failed False")


async def test_redirect_is_refused_when_it_leads_from_https_to_http(certificate: tuple[Path, Path]) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://files.example:8080/\r\nContent-Length: 0\r\n\r\n"
    async with tls_server(certificate, answer) as port:
        said = await fetched(f"https://files.example:{port}/", certificate[0])
    assert said.startswith("link_refused")
    assert "https to http" in said
