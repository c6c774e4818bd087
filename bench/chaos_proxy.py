"""A TCP proxy that fails as told: it cuts, stalls, slows, answers HTTP requests with errors, or tears uploads."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from enum import StrEnum

_CHUNK = 65536
_SLOW_S = 0.3
_TORN_AFTER_BYTES = 700
_METHODS = (b"GET ", b"PUT ", b"HEAD ", b"POST ", b"DELETE ")
_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class ProxyMode(StrEnum):
    PASS = "pass"
    CUT = "cut"  # connections are closed, new ones are refused
    STALL = "stall"  # no byte passes, connections stay open
    SLOW = "slow"  # each piece of the request waits
    ERRORS = "errors"  # HTTP requests are answered with 503
    TEAR = "tear"  # the connection is cut in the middle of a PUT or POST


class FaultProxy:
    """Listens on a free port of 127.0.0.1 in a thread of its own and passes everything on to `target_port`.

    That may be changed for new connections.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self._mode = ProxyMode.PASS
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), name="proxy", daemon=True).start()
        started.wait(30)

    def set(self, mode: ProxyMode) -> None:
        """From now on, also for connections that are open."""
        self._loop.call_soon_threadsafe(self._set, mode)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _set(self, mode: ProxyMode) -> None:
        self._mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        if mode is ProxyMode.CUT:
            for writer in list(self._writers):
                writer.transport.abort()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = int(server.sockets[0].getsockname()[1])
        started.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is ProxyMode.CUT:
            writer.transport.abort()
            return
        try:
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:  # the server behind is away
            writer.transport.abort()
            return
        self._writers |= {writer, target_writer}
        forward = asyncio.ensure_future(self._forward(reader, target_writer, writer))
        back = asyncio.ensure_future(self._back(target_reader, writer))
        await asyncio.wait({forward, back}, return_when=asyncio.FIRST_COMPLETED)
        for task in (forward, back):
            task.cancel()
        for one in (writer, target_writer):
            self._writers.discard(one)
            one.transport.abort() if self._mode is ProxyMode.CUT else one.close()

    async def _forward(
        self, reader: asyncio.StreamReader, target: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        uploading = 0
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._hold()
                if data.startswith(_METHODS):
                    uploading = 0
                    if self._mode is ProxyMode.ERRORS:
                        client.write(_UNAVAILABLE)
                        await client.drain()
                        return
                uploading += len(data)
                if self._mode is ProxyMode.TEAR and uploading > _TORN_AFTER_BYTES:
                    target.write(data[: len(data) // 2])
                    await target.drain()
                    client.transport.abort()
                    return
                if self._mode is ProxyMode.SLOW:
                    await asyncio.sleep(_SLOW_S)
                target.write(data)
                await target.drain()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._hold()
                writer.write(data)
                await writer.drain()

    async def _hold(self) -> None:
        while self._mode is ProxyMode.STALL:
            await self._changed.wait()
