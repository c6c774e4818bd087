"""The spans of AI pages and of the provider calls that they make; without a tracer the calls are made directly."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from quire.coordination.ai_admission import Target
from quire.dispatch.page_task import PageTask
from quire.providers.provider_protocol import Provider, VisionAnswer, VisionRequest

if TYPE_CHECKING:
    from quire.telemetry.tracer import Tracer

T = TypeVar("T")


async def traced_page(tracer: Tracer, task: PageTask, reading: Awaitable[T]) -> T:
    """Awaits `reading` within the span of the page."""
    with tracer.span("page", {"job_id": task.job_id, "page": task.number}) as span:
        outcome = await reading
        span.set_attribute("outcome", type(outcome).__name__.lower())
        return outcome


async def ask_provider(
    tracer: Tracer | None, provider: Provider, target: Target, request: VisionRequest, attempt: int
) -> VisionAnswer:
    """Returns the provider's answer; raises its ProviderError."""
    if tracer is None:
        return await provider.read(request)
    called = {"provider": target.provider, "model": target.model, "attempt": attempt}
    with tracer.span("provider call", called) as span:
        answer = await provider.read(request)
        span.set_attribute("tokens_in", answer.usage.tokens_in)
        span.set_attribute("tokens_out", answer.usage.tokens_out)
        return answer
