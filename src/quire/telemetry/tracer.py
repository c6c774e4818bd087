"""Traces by OpenTelemetry: spans of requests, jobs, units, pages, batches and calls, sent as OTLP over HTTP.

Imported only where OTEL_EXPORTER_OTLP_ENDPOINT is set. Spans wait in a bounded queue for a thread that sends them: a
collector that is away slows nothing, and the spans that the queue has no room for are lost.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from quire.settings import TracingSettings

_LOG = logging.getLogger(__name__)
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_QUEUED = 2_048
_SENT_AT_ONCE = 256
_EVERY_MS = 2_000
_EXPORT_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 3.0

Attributes = Mapping[str, Any]
"""Texts and numbers by name."""


@dataclass(frozen=True, slots=True)
class JobTrace:
    """The trace of a job as its record has it: the context of the job's own span, and the span it is a child of."""

    context: SpanContext
    parent_id: int

    @classmethod
    def parse(cls, text: str) -> JobTrace | None:
        """Returns None for a job that was accepted without tracing."""
        traceparent, _, parent = text.partition(" ")
        context = remote_context(traceparent)
        return None if context is None else cls(context, int(parent or "0", 16))


class Tracer:
    """Makes spans. Methods never raise because of the collector."""

    def __init__(self, settings: TracingSettings, version: str) -> None:
        self._ids = _ChosenIds()
        self._sampler = TraceIdRatioBased(settings.sampled)
        self._provider = TracerProvider(
            sampler=ParentBased(self._sampler),
            resource=Resource({"service.name": settings.service_name, "service.version": version}),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(
            endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces",
            headers=_headers(settings.headers),
            timeout=_EXPORT_TIMEOUT_S,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                _ReportedExporter(exporter),
                max_queue_size=_QUEUED,
                schedule_delay_millis=_EVERY_MS,
                max_export_batch_size=_SENT_AT_ONCE,
            )
        )
        self._tracer = self._provider.get_tracer("quire", version)

    async def close(self) -> None:
        """Sends what is waiting, for three seconds at most."""
        # Not a thread of the pool: the loop would wait for it at its end, also for a collector that does not answer.
        sending = threading.Thread(target=self._provider.shutdown, name="trace-flush", daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, _CLOSE_TIMEOUT_S)

    @contextmanager
    def request(self, method: str, traceparent: str) -> Iterator[Span]:
        """The span of an HTTP request, a child of the caller's span if `traceparent` is well-formed."""
        context = remote_context(traceparent)
        parent = None if context is None else trace.set_span_in_context(NonRecordingSpan(context), Context())
        with self._span(method, parent, {"http.request.method": method}, SpanKind.SERVER) as span:
            yield span

    @contextmanager
    def unit(self, kind: str, job_trace: str, attributes: Attributes) -> Iterator[Span]:
        """The span of a unit, a child of its job's span."""
        found = JobTrace.parse(job_trace)
        parent = None if found is None else trace.set_span_in_context(NonRecordingSpan(found.context))
        with self._span(f"unit {kind}", parent, attributes) as span:
            yield span

    @contextmanager
    def span(self, name: str, attributes: Attributes) -> Iterator[Span]:
        """A child of the current span."""
        with self._span(name, None, attributes) as span:
            yield span

    @contextmanager
    def linked(self, name: str, origins: Sequence[SpanContext], attributes: Attributes) -> Iterator[Span]:
        """A child of the first origin, linked to the others; a trace of its own if there is none."""
        parent = Context()
        if origins:
            parent = trace.set_span_in_context(NonRecordingSpan(origins[0]), parent)
        links = [Link(one) for one in origins[1:]]
        with self._span(name, parent, attributes, links=links) as span:
            yield span

    def annotate(self, attributes: Attributes) -> SpanContext:
        """Sets attributes of the current span; returns its context."""
        span = trace.get_current_span()
        span.set_attributes(dict(attributes))
        return span.get_span_context()

    @contextmanager
    def _span(
        self,
        name: str,
        parent: Context | None,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, parent, kind, attributes, links, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                # Only the class: texts of errors may have parts of a document.
                code = str(getattr(error, "code", "") or type(error).__name__)
                span.set_attribute("error_class", code)
                span.set_status(Status(StatusCode.ERROR, code))
                raise

    def begin_job(self) -> str:
        """Returns the trace of a new job, for its record: a child of the current span, or a trace of its own."""
        current = trace.get_current_span().get_span_context()
        if current.is_valid:
            trace_id, flags, parent_id = current.trace_id, int(current.trace_flags), current.span_id
        else:
            trace_id, parent_id = self._ids.generate_trace_id(), 0
            decision = self._sampler.should_sample(None, trace_id, "job").decision
            flags = int(decision is Decision.RECORD_AND_SAMPLE)
        return f"00-{trace_id:032x}-{self._ids.generate_span_id():016x}-{flags:02x} {parent_id:016x}"

    def end_job(self, job_trace: str, began_at: float, ended_at: float, attributes: Attributes) -> None:
        """Records the span of a job that has ended; its children were recorded before, in any process."""
        found = JobTrace.parse(job_trace)
        if found is None or not found.context.trace_flags.sampled:
            return
        parent = Context()
        if found.parent_id:
            context = SpanContext(found.context.trace_id, found.parent_id, True, found.context.trace_flags)
            parent = trace.set_span_in_context(NonRecordingSpan(context), parent)
        with self._ids.chosen(found.context):
            span = self._tracer.start_span(
                "job", parent, attributes=dict(attributes), start_time=int(began_at * 1e9)
            )
        span.end(int(ended_at * 1e9))


class _ChosenIds(RandomIdGenerator):
    """Random ids, or those that were chosen for the span that is being made."""

    def __init__(self) -> None:
        self._chosen: ContextVar[SpanContext | None] = ContextVar("chosen-ids", default=None)

    @contextmanager
    def chosen(self, context: SpanContext) -> Iterator[None]:
        token = self._chosen.set(context)
        try:
            yield
        finally:
            self._chosen.reset(token)

    def generate_span_id(self) -> int:
        chosen = self._chosen.get()
        return super().generate_span_id() if chosen is None else chosen.span_id

    def generate_trace_id(self) -> int:
        chosen = self._chosen.get()
        return super().generate_trace_id() if chosen is None else chosen.trace_id


class _ReportedExporter(SpanExporter):
    """Logs once when the collector stops to accept spans, and once when it accepts them again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._fails = False
        # It would log every attempt and every batch.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        began = time.monotonic()
        result = self._exporter.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails != self._fails:
            seconds = round(time.monotonic() - began, 1)
            if fails:
                _LOG.warning("traces not accepted by the collector", extra={"after_s": seconds})
            else:
                _LOG.info("traces accepted by the collector again")
        self._fails = fails
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def remote_context(traceparent: str) -> SpanContext | None:
    """Returns the context that a W3C `traceparent` names; None if it is malformed."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None or not int(found[1], 16) or not int(found[2], 16):
        return None
    return SpanContext(int(found[1], 16), int(found[2], 16), True, TraceFlags(int(found[3], 16) & 1))


def _headers(text: str) -> dict[str, str]:
    pairs = (one.partition("=") for one in text.split(",") if "=" in one)
    return {name.strip(): value.strip() for name, _, value in pairs}
