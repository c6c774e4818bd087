"""`quire backend`: the local batch backend as a service, for Quires on other machines."""

from __future__ import annotations

import argparse
import os

from quire.cli import exit_codes
from quire.cli.interrupts import until_stopped
from quire.cli.startup import run_service, settings_from
from quire.errors import SettingsError
from quire.settings import Settings


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT. Prints its address on standard output once it answers."""
    settings = settings_from(args)
    from quire.telemetry.logs import configure

    take_down = configure(settings.logging)
    try:
        run_service(_serve(settings))
    finally:
        take_down()
    return exit_codes.OK


async def _serve(settings: Settings) -> None:
    from aiohttp import web

    from quire.batching.local_backend import BackendServer, LocalBackend
    from quire.clock import SystemClock
    from quire.reading.ocr import page_ocr
    from quire.reading.ocr.page_ocr import OcrOptions
    from quire.reading.ocr.picture_elements import ElementOptions
    from quire.reading.pool.cage import CageOptions
    from quire.reading.pool.child_pool import ChildPool, PoolOptions

    if settings.ocr.enabled and page_ocr.available():
        page_ocr.check_languages(OcrOptions.of(settings.ocr))
    processes = settings.reading.processes or os.cpu_count() or 1
    pool = ChildPool(
        PoolOptions(
            processes=processes,
            memory_bytes=settings.reading.memory_bytes,
            cage=CageOptions.of(settings) if settings.reading.cage else None,
        )
    )
    pool.warm()
    elements = ElementOptions.of(settings.ocr, settings.limits.max_pixels)
    backend = LocalBackend(pool, elements, settings.ocr.page_timeout_s)
    server = BackendServer(backend, SystemClock(), settings.batching.max_batch_size)
    runner = web.AppRunner(server.application(), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.http.host, settings.http.port)
        try:
            await site.start()
        except OSError as error:
            raise SettingsError(
                f"{settings.http.host}:{settings.http.port} can't be listened on: {error.strerror}."
            ) from error
        host, port = runner.addresses[0][:2]
        print(f"The batch backend listens on http://{host}:{port}", flush=True)
        await until_stopped()
    finally:
        await runner.cleanup()
        await pool.close()
