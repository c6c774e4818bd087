"""TLS in front of servers that have none: the embedded Valkey is built without it.

A door takes TLS and plain connections on one port. So servers that know each other by the ports of their doors, as
sentinels, replicas and cluster nodes do, reach each other plainly, and clients reach the same addresses over TLS.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HANDSHAKE = b"\x16"
"""The first byte of every TLS connection."""
_SSL_REQUEST_BYTES = 8
_LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of one name or address that is its own authority, and its key."""

    file: Path
    key_file: Path

    @classmethod
    def make(cls, folder: Path, host: x509.GeneralName = _LOOPBACK) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quire.example")])
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([host]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        own = cls(folder / "cert.pem", folder / "key.pem")
        own.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        private = serialization.PrivateFormat.PKCS8
        own.key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
        )
        return own


class TlsDoor:
    """A port in front of a port of this host; it is open until `close`."""

    def __init__(self, target: int, certificate: Certificate) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.file, certificate.key_file)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="tls-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        accepting = self._loop.create_task(self._accept())
        self._loop.run_forever()
        for task in (accepting, *self._open):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(accepting, *self._open, return_exceptions=True))
        self._loop.close()

    async def _accept(self) -> None:
        while True:
            connection, _ = await self._loop.sock_accept(self._listener)
            task = self._loop.create_task(self._serve(connection))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            first = await self._first_byte(connection)
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._context if first == _HANDSHAKE else None
            )
        except OSError:
            connection.close()
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
            await asyncio.gather(_forward(reader, outer), _forward(inner, writer))
        except OSError:
            transport.abort()

    async def _first_byte(self, connection: socket.socket) -> bytes:
        """Leaves the byte where it is."""
        while True:
            try:
                return connection.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                readable = self._loop.create_future()
                self._loop.add_reader(connection, readable.set_result, None)
                try:
                    await readable
                finally:
                    self._loop.remove_reader(connection)


class PostgresDoor(TlsDoor):
    """In front of a PostgreSQL server, which is asked for TLS in its own words first. Clients show a certificate."""

    def __init__(self, target: int, certificate: Certificate, *, of_clients: Certificate) -> None:
        super().__init__(target, certificate)
        self._context.load_verify_locations(of_clients.file)
        self._context.verify_mode = ssl.CERT_REQUIRED

    async def _first_byte(self, connection: socket.socket) -> bytes:
        await self._loop.sock_recv(connection, _SSL_REQUEST_BYTES)
        await self._loop.sock_sendall(connection, b"S")
        return await super()._first_byte(connection)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
