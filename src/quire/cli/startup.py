"""What every command sets up before it runs: log level, event loop, settings from the command line.

Services run on uvloop where it is installed. `quire convert` does not: importing uvloop costs as much as it saves on
all but very long documents.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from quire.settings import Settings, load

T = TypeVar("T")


def run_service(work: Coroutine[Any, Any, T]) -> T:
    try:
        from uvloop import new_event_loop
    except ImportError:  # no wheel for this platform
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


_SETTING_OF = {
    "host": "HOST",
    "port": "PORT",
    "data_dir": "DATA_DIR",
    "concurrency": "WORKER_CONCURRENCY",
    "url": "QUIRE_URL",
}


def settings_from(args: argparse.Namespace) -> Settings:
    """The settings, with what the command line has to say about them. Raises SettingsError."""
    given = vars(args)
    overrides = {name: given[option] for option, name in _SETTING_OF.items() if given.get(option) is not None}
    if given.get("debug"):
        overrides["LOG_LEVEL"] = "debug"
    return load(os.environ, overrides)


def warn_about_names(settings: Settings) -> None:
    """Logs each name that was given and has no effect, once, at the start of a service."""
    for note in settings.notes:
        logging.getLogger(__name__).warning(note)


def errors_only() -> None:
    """Errors as one plain line each on standard error. The service's own way of logging costs 0.1 s to import."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Sentence())
    handler.setLevel(logging.ERROR)
    logging.getLogger().addHandler(handler)


def everything() -> None:
    """All that is logged, as the service would log it."""
    from quire.settings import LoggingSettings
    from quire.telemetry.logs import configure

    configure(LoggingSettings(level="debug"))


class _Sentence(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return f"quire: {record.getMessage()}{f' ({type(error).__name__})' if error else ''}"
