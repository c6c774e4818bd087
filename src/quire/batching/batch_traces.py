"""Spans of batches and of the calls of the batch backend. Exists only where traces are on.

A batch is a child of the first of its requests that this process received, and linked to the others. A batch of
another replica's requests is a trace of its own: `batch_id` joins it to them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quire.coordination.parse_requests import ClaimedBatch

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from quire.telemetry.tracer import Tracer

_MOST_REMEMBERED = 10_000


class BatchTraces:
    """Remembers the spans of requests until their batch is sent; the oldest are forgotten."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._requests: OrderedDict[str, SpanContext] = OrderedDict()

    def remember_request(self, request_id: str) -> None:
        """The current span is that of the request."""
        self._requests[request_id] = self._tracer.annotate({"request_id": request_id})
        if len(self._requests) > _MOST_REMEMBERED:
            self._requests.popitem(last=False)

    @contextmanager
    def batch(self, batch: ClaimedBatch) -> Iterator[None]:
        found = [self._requests.pop(one.id, None) for one in batch.requests]
        known = [one for one in found if one is not None]
        attributes = {"batch_id": batch.id, "images": len(batch.requests)}
        with self._tracer.linked("batch", known, attributes):
            yield

    @contextmanager
    def backend_call(self, images: int) -> Iterator[None]:
        with self._tracer.span("backend call", {"images": images}):
            yield
