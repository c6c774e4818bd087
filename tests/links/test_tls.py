"""Links over TLS. A child process fetches, because the trusted certificates are fixed at its start."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509

from tests.support.tls_doors import Certificate

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
def certificate(tmp_path: Path) -> Certificate:
    return Certificate.make(tmp_path, x509.DNSName("files.example"))


@asynccontextmanager
async def tls_server(certificate: Certificate, answer: bytes) -> AsyncIterator[int]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.file, certificate.key_file)
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


async def test_link_is_fetched_when_the_certificate_names_the_host(certificate: Certificate) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    async with tls_server(certificate, answer) as port:
        assert await fetched(f"https://files.example:{port}/", certificate.file) == "hi"
        wrong_name = await fetched(f"https://other.example:{port}/", certificate.file)
        untrusted = await fetched(f"https://files.example:{port}/", None)
    assert wrong_name.startswith("download_failed False")
    assert untrusted.startswith("download_failed False")


async def test_redirect_is_refused_when_it_leads_from_https_to_http(certificate: Certificate) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://files.example:8080/\r\nContent-Length: 0\r\n\r\n"
    async with tls_server(certificate, answer) as port:
        said = await fetched(f"https://files.example:{port}/", certificate.file)
    assert said.startswith("link_refused")
    assert "https to http" in said
