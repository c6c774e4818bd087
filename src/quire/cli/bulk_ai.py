"""The part of `quire bulk` that calls AI: checks before anything is read, the pass itself, and its last line."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict, replace
from typing import Any

from quire.bulk.ai_pass import MAX_COST, NO_MODEL, AiPass, AiPassOptions, AiPassOutcome, account_name
from quire.bulk.bulk_run import RunOutcome
from quire.bulk.worker_process import WorkerConfig
from quire.cli.exit_codes import CommandUsageError, say
from quire.clock import SystemClock
from quire.coordination.embedded_server import EmbeddedServer
from quire.objects.bulk_locations import BulkLocation
from quire.objects.spool_folders import SpoolFolder
from quire.settings import Settings

OFF, NOW = "off", "now"
_EVERY_PAGES = 50
_STOPPED = {
    MAX_COST: "the next page could exceed --max-cost. Run again with a higher one to go on.",
    "team_cost_ceiling": "the next page could exceed MAX_COST_PER_TEAM.",
    "auth": "the providers refuse the keys. `quire doctor` checks them.",
}


def check(args: argparse.Namespace, settings: Settings, formats: tuple[str, ...]) -> None:
    """Raises CommandUsageError before anything is read."""
    if args.ai == OFF:
        if args.max_cost is not None:
            raise CommandUsageError("--max-cost needs --ai now.")
        return
    from quire.providers import configured_providers

    usable = configured_providers.build(settings.ai, SystemClock())
    models = configured_providers.models(settings.ai)
    order = [one for one in configured_providers.order(settings.ai) if one in usable and one in models]
    if not order:
        raise CommandUsageError(NO_MODEL)
    if "chunks" in formats:
        raise CommandUsageError(
            "--ai can't be combined with --formats chunks: a chunk may go over pages. Make chunks from the rows."
        )
    if args.max_cost is not None:
        _check_prices([(name, models[name]) for name in order], settings)


def _check_prices(models: list[tuple[str, Any]], settings: Settings) -> None:
    """A ceiling holds only if the price of every model that may be called is known."""
    from quire.providers.price_list import PriceList
    from quire.providers.provider_protocol import TokenUsage

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
    from quire.bootstrap import runtime
    from quire.bulk.worker_process import clouds_of

    clouds = clouds_of(settings)
    source, target = BulkLocation.open(config.source, clouds), BulkLocation.open(config.target, clouds)
    settings = replace(settings, ai=replace(settings.ai, max_cost_per_document_usd=args.max_cost or 0.0))
    attach = not settings.coordination.redis_url and await asyncio.to_thread(
        lambda: EmbeddedServer.attach_url(settings.general.data_dir.absolute()) is not None
    )
    spool = SpoolFolder("quire-bulk-ai-")
    documents = [spool.path] + ([source.folder] if source.folder else [])
    total = sum(outcome.ai_shards.values())
    if not args.quiet:
        say(f"{total:,} pages to be read by AI.")
    shown = _Shown(total, quiet=args.quiet)
    try:
        async with runtime(settings, owner="quire bulk", attach=attach, documents=documents) as running:
            one = AiPass(
                running.parts,
                source,
                target,
                AiPassOptions(
                    account_name(target.url),
                    spool.path,
                    outcome.total.cost_usd,
                    frozenset(config.formats),
                    config.password,
                ),
            )
            done = await one.run(sorted(outcome.ai_shards), shown.count)
    finally:
        spool.remove()
    shown.finish(done)
    return done


def ai_report(done: AiPassOutcome) -> dict[str, Any]:
    return asdict(done) | {"cost_usd": round(done.cost_usd, 6)}


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
