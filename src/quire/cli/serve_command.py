"""`quire serve`: the service and the dashboard."""

from __future__ import annotations

import argparse
import gc
from typing import TYPE_CHECKING

from quire.cli import exit_codes
from quire.cli.startup import run_service, settings_from, warn_about_names

if TYPE_CHECKING:
    from quire.settings import Settings


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT. Prints its address on standard output once it answers; logs go to stderr."""
    settings = settings_from(args)
    settings.check_exposure()  # before the parts below, which take a second to import
    gc.disable()  # collecting during the imports takes a sixth of the start; serve() enables it once it listens
    import quire.api.server  # noqa: F401 - while no collection runs
    from quire.telemetry.logs import configure

    take_down = configure(settings.logging)
    warn_about_names(settings)
    try:
        run_service(_served(settings))
    finally:
        take_down()
    return exit_codes.OK


async def _served(settings: Settings) -> None:
    from quire.api.server import StopSignal, serve

    await serve(settings, on_ready=_announce, stop=StopSignal(ends_process=True))


def _announce(address: str) -> None:
    print(f"Quire listens on {address}", flush=True)
