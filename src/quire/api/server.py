"""`quire serve`: the service and its workers in one event loop, from the first connection to a clean end."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import uvicorn
from fastapi import FastAPI

from quire.api.app import create_app
from quire.api.http.auth import has_valid_key
from quire.api.http.connection_limits import (
    ConnectionLimits,
    ConnectionTable,
    Seat,
    raise_descriptor_limit,
)
from quire.api.http.guarded_protocol import GuardedProtocol
from quire.api.http.turn_queue import TurnQueue
from quire.api.parse.direct_parse import DirectParse
from quire.api.parse.front_door import DoorOptions, DoorParts, FrontDoor
from quire.api.parse.parse_routes import MAX_DOOR_BODY_BYTES
from quire.bootstrap import Runtime, runtime
from quire.domain.job import UnitKind
from quire.errors import QuireError, SettingsError
from quire.settings import Settings

_LOG = logging.getLogger(__name__)
_BACKLOG = 4096
_KEEP_ALIVE_S = 75
_LARGEST_SOCKET_MESSAGE = 4_096  # what a caller sends over a WebSocket is a request for news, without content
_DEPARTURES_PER_TURN = 25
_LEAST_GRACE_S = 1
_DATE_EVERY_S = 1.0
_SWITCH_S = 0.0005
_GC_THRESHOLDS = (10_000, 10, 10)


class _Server(uvicorn.Server):
    """uvicorn without its signal handling, with a way to wait until it listens, and with few wake-ups at rest."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Have `serve` shut down at once."""
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        """Wakes once a second for the Date header; uvicorn's own loop asks ten times a second whether to exit."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_DATE_EVERY_S):
                    await self._leaving.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to us: uvicorn would raise them again at its end, before the workers are done."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


class StopSignal:
    """The wish to stop: asked once it is polite, asked again it doesn't wait for work in hand.

    `ends_process`: the process ends when the service has ended, and signals that still come are ignored.
    """

    def __init__(self, *, ends_process: bool = False) -> None:
        self.ends_process = ends_process
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()

    def ask(self) -> None:
        if self.asked.is_set():
            self.insisted.set()
        self.asked.set()


async def serve(
    settings: Settings, *, on_ready: Callable[[str], None] | None = None, stop: StopSignal | None = None
) -> None:
    """Serves until SIGTERM, SIGINT or `stop`, then ends cleanly within SHUTDOWN_TIMEOUT.

    `on_ready` is called with the address once requests are answered. Raises SettingsError when the address can't be
    listened on or is open to others without keys, and whatever stopped a part that must not stop.
    """
    settings.check_exposure()
    stop = stop or StopSignal()
    kinds = list(UnitKind) if settings.http.run_dispatcher else None
    with _bind(settings.http.host, settings.http.port) as listener, _signals(stop):
        try:
            async with runtime(
                settings, owner="quire serve", kinds=kinds, batching=True, vault=True, metrics=True
            ) as running:
                service = _Service(running, listener)
                await service.run(stop, on_ready)
        except ExceptionGroup as group:
            raise _first_cause(group) from group


class _Service:
    """The HTTP server on one runtime."""

    def __init__(self, running: Runtime, listener: socket.socket) -> None:
        self._running = running
        self._port = listener.getsockname()[1]
        self._timeout_s = running.settings.http.shutdown_timeout_s
        self._app = create_app(running)
        self._server = _Server(_config(self._app, self._timeout_s))
        self._door = self._new_door(listener)

    async def run(self, stop: StopSignal, on_ready: Callable[[str], None] | None) -> None:
        serving = asyncio.create_task(self._server.serve([]), name="http-server")
        try:
            await _either(serving, self._server.listening)
            if not serving.done():
                # The first check imports modules and opens connections; no caller should wait for that.
                await self._app.state.services.readiness.condition()
                self._door.open()
                self._announce(on_ready)
                self._running.ready.set()
                await _either(serving, stop.asked)
            if serving.done():
                serving.result()
                raise QuireError("The HTTP server stopped unexpectedly. See the log for the cause.")
            _LOG.info("stopping")
            await self._end(serving, stop)
        finally:
            self._app.state.services.stopping.set()
            self._server.force_exit = True
            self._server.leave()
            await self._door.close(0)
            await asyncio.wait({serving}, timeout=5)
            serving.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await serving

    async def _end(self, serving: asyncio.Task[None], stop: StopSignal) -> None:
        """Stops taking units at once, and requests after SHUTDOWN_DELAY; both drain within SHUTDOWN_TIMEOUT."""
        ending = asyncio.create_task(self._drain(serving, stop), name="ending")
        await _either(ending, stop.insisted)
        if not ending.done():
            self._server.force_exit = True
            if self._running.worker:
                await self._running.worker.drain(0)
        await ending

    async def _drain(self, serving: asyncio.Task[None], stop: StopSignal) -> None:
        worker = self._running.worker
        drains = [worker.drain(self._timeout_s)] if worker is not None else []
        await asyncio.gather(self._drain_http(serving, stop), *drains)

    async def _drain_http(self, serving: asyncio.Task[None], stop: StopSignal) -> None:
        services, batcher = self._app.state.services, self._running.batcher
        services.draining.set()
        self._door.drain()
        delay_s = self._running.settings.http.shutdown_delay_s
        if delay_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await stop.insisted.wait()
        self._door.stop_accepting()
        services.stopping.set()
        self._server.leave()
        drains = [batcher.drain(self._timeout_s)] if batcher is not None else []
        await asyncio.gather(serving, self._door.close(self._timeout_s), *drains)

    def _new_door(self, listener: socket.socket) -> FrontDoor:
        server, batcher = self._server, self._running.batcher
        assert batcher is not None  # noqa: S101 - `quire serve` always runs one
        settings, clock = self._running.settings, self._running.parts.clock
        limits = ConnectionLimits.of(settings, raise_descriptor_limit())
        departures = TurnQueue(_DEPARTURES_PER_TURN)

        def protocol(data: bytes, seat: Seat) -> asyncio.Protocol:
            return GuardedProtocol(
                data,
                seat,
                limits,
                departures,
                config=server.config,
                server_state=server.server_state,
                app_state=server.lifespan.state,
            )

        parts = DoorParts(
            serve=DirectParse(self._app, clock).serve,
            protocol=protocol,
            table=ConnectionTable(limits, clock.monotonic),
            has_key=partial(has_valid_key, settings.auth.api_keys),
            date=lambda: b"".join(b"%s: %s\r\n" % pair for pair in server.server_state.default_headers),
            memory=batcher.memory,
            former=batcher.former,
        )
        options = DoorOptions(_BACKLOG, MAX_DOOR_BODY_BYTES, _KEEP_ALIVE_S, limits.header_timeout_s)
        return FrontDoor(listener, parts, options)

    def _announce(self, on_ready: Callable[[str], None] | None) -> None:
        host, port = self._running.settings.http.host, self._port
        address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        _LOG.info("Quire listens on %s", address, extra={"address": address})
        # Objects that exist now live until the end; collecting them again and again cost a quarter of all CPU
        # time with two thousand callers waiting.
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(*_GC_THRESHOLDS)
        # Threads that write objects need the interpreter lock between two system calls; with the default switch
        # interval of 5 ms a write of 2 ms took 40 ms while thousands of requests arrived.
        sys.setswitchinterval(_SWITCH_S)
        if on_ready is not None:
            on_ready(address)


async def _either(task: asyncio.Task[None], event: asyncio.Event) -> None:
    """Returns when the task is done or the event is set."""
    waiting = asyncio.create_task(event.wait(), name="waiting-for-event")
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _config(app: FastAPI, shutdown_timeout_s: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        ws="none",  # api/http/guarded_protocol.py makes the protocol of the one path that has it
        ws_max_size=_LARGEST_SOCKET_MESSAGE,
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        http="httptools",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(_LEAST_GRACE_S, int(shutdown_timeout_s)),
    )


@contextmanager
def _signals(stop: StopSignal) -> Iterator[None]:
    """SIGTERM and SIGINT ask to stop while the block runs, where this thread may have signals at all."""
    loop = asyncio.get_running_loop()
    taken = []
    for one in (signal.SIGTERM, signal.SIGINT):
        with suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(one, stop.ask)
            taken.append(one)
    try:
        yield
    finally:
        for one in taken:
            loop.remove_signal_handler(one)
            if (
                stop.ends_process
            ):  # the second signal of an impatient caller must not make a clean end a killed one
                signal.signal(one, signal.SIG_IGN)


def _bind(host: str, port: int) -> socket.socket:
    """The socket, reserved but not yet listened on. Raises SettingsError with what to do about it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"HOST {host} can't be listened on: {error.strerror}.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"Port {port} on {host} is in use by another program. Stop that one, or choose another PORT."
            ) from error
        if error.errno == errno.EACCES:
            raise SettingsError(
                f"Port {port} on {host} needs rights that this user doesn't have. Choose a PORT from 1024 up."
            ) from error
        raise SettingsError(f"{host}:{port} can't be listened on: {error.strerror}.") from error
    return listener


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
