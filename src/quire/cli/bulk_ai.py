"""The part of `quire bulk` that calls AI: checks before anything is read, the pass itself, and its last line."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quire.bulk.ai_pass import (
    MAX_COST,
    NO_MODEL,
    AiPass,
    AiPassOptions,
    AiPassOutcome,
    OnPage,
    account_name,
)
from quire.bulk.batch_pass import NOT_ENDED, BatchPass, BatchPassOptions
from quire.bulk.bulk_run import RunOutcome
from quire.bulk.worker_messages import WorkerConfig, clouds_of
from quire.cli.exit_codes import CommandUsageError, say
from quire.clock import SystemClock
from quire.coordination.embedded_server import EmbeddedServer
from quire.domain.routing import Readers
from quire.objects.bulk_locations import BulkLocation
from quire.objects.spool_folders import SpoolFolder
from quire.providers import configured_providers
from quire.providers.batch_services import batch_service
from quire.providers.price_list import PriceList
from quire.providers.provider_protocol import TokenUsage
from quire.reading.pool.cage import CageOptions
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.settings import Settings

BATCH = "batch"
_EVERY_PAGES = 50
_STOPPED = {
    MAX_COST: "the next page could exceed --max-cost. Run again with a higher one to go on.",
    "team_cost_ceiling": "the next page could exceed MAX_COST_PER_TEAM.",
    NOT_ENDED: "batches have not ended. Run again to collect them.",
    "auth": "the providers refuse the keys. `quire doctor` checks them.",
}


def check(args: argparse.Namespace, settings: Settings) -> None:
    """Raises CommandUsageError before anything is read, for a run with `--ai now` or `--ai batch`."""
    usable = configured_providers.build(settings.ai, SystemClock())
    models = configured_providers.models(settings.ai)
    order = [one for one in configured_providers.order(settings.ai) if one in usable and one in models]
    if not order:
        raise CommandUsageError(NO_MODEL)
    if args.ai == BATCH:
        order = [one for one in order if batch_service(usable[one]) is not None][:1]
        if not order:
            raise CommandUsageError(
                "--ai batch needs OpenAI or Anthropic among the providers: others have no batches."
            )
        if args.shard_count > 1:
            raise CommandUsageError("--ai batch runs on one machine: leave out --shard-count.")
    if args.max_cost is not None:
        _check_prices([(name, models[name]) for name in order], settings)


def _check_prices(models: list[tuple[str, Any]], settings: Settings) -> None:
    """A ceiling holds only if the price of every model that may be called is known."""
    prices = PriceList(settings.ai.prices)
    for name, found in models:
        for model in dict.fromkeys((found.primary, found.secondary)):
            if not prices.cost(name, model, TokenUsage(1_000, 1_000)).known:
                raise CommandUsageError(
                    f"--max-cost: the price of {name}:{model} is unknown. Set it with AI_PRICES."
                )


async def read_by_ai(
    args: argparse.Namespace, settings: Settings, config: WorkerConfig, outcome: RunOutcome
) -> AiPassOutcome:
    """Reads the pages of the finished shards that need it."""
    clouds = clouds_of(settings)
    source, target = BulkLocation.open(config.source, clouds), BulkLocation.open(config.target, clouds)
    spool = SpoolFolder("quire-bulk-ai-")
    total = sum(outcome.ai_shards.values())
    if not args.quiet:
        say(f"{total:,} pages to be read by AI.")
    shown = _Shown(total, quiet=args.quiet)
    work = _BatchWork if args.ai == BATCH else _CallWork
    try:
        one = work(args, settings, config, source, target, spool.path)
        done = await one.run(sorted(outcome.ai_shards), outcome.total.cost_usd, shown.count)
    finally:
        spool.remove()
    shown.finish(done)
    return done


@dataclass(frozen=True, slots=True)
class _AiWork:
    """What both passes need."""

    args: argparse.Namespace
    settings: Settings
    config: WorkerConfig
    source: BulkLocation
    target: BulkLocation
    spool: Path


class _CallWork(_AiWork):
    """A call for each page, through the dispatcher."""

    async def run(self, shards: list[int], paid_usd: float, on_page: OnPage) -> AiPassOutcome:
        from quire.bootstrap import runtime

        ai = replace(self.settings.ai, max_cost_per_document_usd=self.args.max_cost or 0.0)
        settings = replace(self.settings, ai=ai)
        attach = not settings.coordination.redis_url and await asyncio.to_thread(
            lambda: EmbeddedServer.attach_url(settings.general.data_dir.absolute()) is not None
        )
        config = self.config
        account = account_name(self.target.url)
        options = AiPassOptions(account, self.spool, paid_usd, frozenset(config.formats), config.password)
        async with runtime(settings, owner="quire bulk", attach=attach) as running:
            return await AiPass(running.parts, self.source, self.target, options).run(shards, on_page)


class _BatchWork(_AiWork):
    """The batch interface of the first provider that has one; batches of others are collected."""

    async def run(self, shards: list[int], paid_usd: float, on_page: OnPage) -> AiPassOutcome:
        settings, config = self.settings, self.config
        clock = SystemClock()
        providers = configured_providers.build(settings.ai, clock)
        order = [one for one in configured_providers.order(settings.ai) if one in providers]
        found = {name: batch_service(providers[name]) for name in order}
        services = {name: one for name, one in found.items() if one is not None}
        model = configured_providers.models(settings.ai)[next(iter(services))].primary
        cage = CageOptions(str(self.spool / "readers"))
        pool = ChildPool(
            PoolOptions(
                processes=config.processes,
                memory_bytes=settings.reading.memory_bytes,
                cage=cage if settings.reading.cage else None,
            )
        )
        parts = _BatchParts(settings, pool, Readers(ocr=config.ocr))
        options = BatchPassOptions(
            self.spool,
            model,
            frozenset(config.formats),
            config.password,
            self.args.max_cost or 0.0,
            paid_usd,
            waits=not self.args.no_wait,
        )
        try:
            one = BatchPass(parts, services, self.source, self.target, options, clock=clock)
            return await one.run(shards, on_page)
        finally:
            await pool.close()
            for provider in providers.values():
                await provider.close()


@dataclass(frozen=True, slots=True)
class _BatchParts:
    settings: Settings
    pool: ChildPool
    readers: Readers


class _Shown:
    """A line every fifty pages, and one at the end."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._quiet = quiet
        self._next = _EVERY_PAGES

    def count(self, done: AiPassOutcome) -> None:
        pages = done.read + done.failed
        if not self._quiet and pages >= self._next:
            self._next = pages + _EVERY_PAGES
            say(f"AI: {pages:,} of {self._total:,} pages, {done.cost_usd:,.2f} USD")

    def finish(self, done: AiPassOutcome) -> None:
        if done.stopped:
            say(f"quire: AI has read {done.read:,} pages and stopped: {_STOPPED[done.stopped]}")
        elif not self._quiet:
            kept = f", {done.failed:,} kept as they were read locally" if done.failed else ""
            say(f"AI has read {done.read:,} pages for {done.cost_usd:,.2f} USD{kept}.")
