"""What commands that are not a service log: errors only, or everything for whoever asked with --debug."""

from __future__ import annotations

import logging


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
