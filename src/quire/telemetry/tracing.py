"""Whether there are traces: OpenTelemetry is imported only where a collector is set."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from quire.errors import SettingsError
from quire.settings import TracingSettings

if TYPE_CHECKING:
    from quire.telemetry.tracer import Tracer


def open_tracer(settings: TracingSettings, version: str, stack: AsyncExitStack) -> Tracer | None:
    """Returns a tracer that the stack closes, None where no collector is set.

    Raises SettingsError if the extra is not installed.
    """
    if not settings.endpoint:
        return None
    try:
        from quire.telemetry.tracer import Tracer
    except ImportError as error:
        raise SettingsError(
            "OTEL_EXPORTER_OTLP_ENDPOINT needs the extra `otel`: pip install 'quire[otel]'."
        ) from error
    tracer = Tracer(settings, version)
    stack.push_async_callback(tracer.close)
    return tracer
