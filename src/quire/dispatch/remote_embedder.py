"""Embeddings from a provider: admitted, settled and booked like any other AI call."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from quire.coordination.ai_admission import Admission, Ask, Busy, CallOutcome, Lease, ReportedLimits, Target
from quire.dispatch.call_log import ABANDONED, PAUSED, CallReport, log_call
from quire.dispatch.call_outcomes import outcome_of, reported_limits
from quire.dispatch.ledger import Ledger
from quire.dispatch.process_pauses import ProcessPauses, TimedCall
from quire.domain.payer import Payer
from quire.errors import CoordinationError
from quire.providers.openai_embeddings import OpenAIEmbeddings
from quire.providers.provider_protocol import ProviderError, TokenUsage
from quire.settings import Settings

_CHARS_PER_TOKEN = 3.0
_MAX_CHARS = 8_000
_AT_ONCE = 64
_REMEMBERED = 256
_SHORT = 200
_CEILING_S = 3_600.0
"""The wait after a team or an API key has reached its monthly ceiling: a new month may begin, or the ceiling change."""


class NoEmbedderFreeError(Exception):
    """No call may be made now; retry after `wait_s`."""

    def __init__(self, wait_s: float) -> None:
        super().__init__("no call may be made now")
        self.wait_s = wait_s


class RemoteEmbedder:
    """Safe for many calls at once. Vectors of short texts (search queries) are cached in memory."""

    def __init__(
        self,
        provider: OpenAIEmbeddings,
        admission: Admission,
        ledger: Ledger,
        settings: Settings,
        *,
        pauses: ProcessPauses | None = None,
    ) -> None:
        self._provider = provider
        self._admission = admission
        self._ledger = ledger
        self._pauses = pauses or ProcessPauses()
        vault = settings.vault
        self._model_name = vault.embedding_model
        self._dimensions = vault.embedding_dimensions
        limit = next(
            (
                one
                for one in settings.ai.limits
                if (one.provider, one.model) == (provider.name, vault.embedding_model)
            ),
            None,
        )
        self._target = Target(
            provider.name,
            vault.embedding_model,
            rpm=limit.rpm if limit else 0,
            tpm=limit.tpm if limit else 0,
            max_inflight=settings.ai.max_inflight_per_model,
        )
        self._remembered: OrderedDict[str, tuple[float, ...]] = OrderedDict()

    @property
    def model(self) -> str:
        return f"{self._provider.name}:{self._model_name}:{self._dimensions}"

    async def embed(
        self, texts: Sequence[str], *, team: str, timeout_s: float, payer: Payer | None = None
    ) -> Sequence[Any]:
        """Raises NoEmbedderFreeError, ProviderError, or CoordinationError during an outage."""
        cut = [text[:_MAX_CHARS] if text.strip() else "-" for text in texts]
        if len(cut) == 1 and (found := self._remembered.get(cut[0])):
            self._remembered.move_to_end(cut[0])
            return [found]
        vectors: list[Sequence[float]] = []
        for first in range(0, len(cut), _AT_ONCE):
            vectors += await self._call(cut[first : first + _AT_ONCE], team, timeout_s, payer)
        if len(cut) == 1 and len(cut[0]) <= _SHORT:
            self._remembered[cut[0]] = tuple(vectors[0])
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return vectors

    async def _call(
        self, texts: Sequence[str], team: str, timeout_s: float, payer: Payer | None
    ) -> Sequence[Sequence[float]]:
        tokens = math.ceil(sum(map(len, texts)) / _CHARS_PER_TOKEN)
        lease = await self._admission.admit([Ask(self._target, tokens)])
        if isinstance(lease, Busy):
            raise NoEmbedderFreeError(lease.wait_s)
        reserved_usd = self._ledger.price(self._target, TokenUsage(tokens))
        if await self._ledger.reserve("", team, reserved_usd, payer):
            await self._settle(lease, CallOutcome.UNSENT, 0)
            raise NoEmbedderFreeError(_CEILING_S)
        with self._pauses.timed_call() as timed:
            try:
                found = await self._provider.embed(
                    self._model_name, self._dimensions, texts, timeout_s=timeout_s
                )
            except ProviderError as error:
                await self._failed(lease, error, timed, tokens)
                await self._book(team, reserved_usd, error.usage, payer)
                raise
            except BaseException:
                self._report(timed.ran_s(), TokenUsage(), ABANDONED)
                await asyncio.shield(self._settle(lease, CallOutcome.NEUTRAL, tokens))
                raise
            self._report(timed.ran_s(), found.usage, None)
        used = found.usage.tokens_in or tokens
        await asyncio.shield(
            self._settle(lease, CallOutcome.OK, used, reported=reported_limits(found.limits))
        )
        await self._book(team, reserved_usd, found.usage, payer)
        return found.vectors

    async def _failed(self, lease: Lease, error: ProviderError, timed: TimedCall, tokens: int) -> None:
        if timed.excuses(error):
            self._report(timed.ran_s(), error.usage, PAUSED)
            await asyncio.shield(self._settle(lease, CallOutcome.NEUTRAL, tokens))
            return
        self._report(timed.ran_s(), error.usage, error.code, error)
        wait_s = error.retry_after_s or 0.0
        await asyncio.shield(
            self._settle(lease, outcome_of(error), tokens, code=error.code, retry_after_s=wait_s)
        )

    def _report(
        self, seconds: float, usage: TokenUsage, error_class: str | None, error: ProviderError | None = None
    ) -> None:
        report = CallReport(
            job_id="",
            page=None,
            provider=self._target.provider,
            model=self._target.model,
            attempt=1,
            failover=False,
            seconds=seconds,
            usage=usage,
            usd=self._ledger.price(self._target, usage),
            error_class=error_class,
            purpose="embedding",
        )
        log_call(report, error)

    async def _book(self, team: str, reserved_usd: float, usage: TokenUsage, payer: Payer | None) -> None:
        """Books the call. An outage is ignored: the vectors must not be lost because of their bookkeeping."""
        with suppress(CoordinationError):
            usd = self._ledger.price(self._target, usage)
            await self._ledger.charge("", team, reserved_usd, usd, usage, payer=payer)

    async def _settle(
        self,
        lease: Lease,
        outcome: CallOutcome,
        tokens: int,
        *,
        code: str = "",
        retry_after_s: float = 0.0,
        reported: ReportedLimits = ReportedLimits(),  # noqa: B008 - frozen
    ) -> None:
        with suppress(CoordinationError):  # the lease expires by itself
            await self._admission.settle(
                lease, outcome, code=code, tokens=tokens, retry_after_s=retry_after_s, reported=reported
            )
