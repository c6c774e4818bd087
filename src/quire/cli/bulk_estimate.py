"""`quire bulk --dry-run`: counts what is new, reads a sample, and prints what a run would take and cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from quire.bulk.plan_options import PlanOptions
from quire.bulk.run_estimate import RunEstimate, count_new, measure
from quire.bulk.shard_plan import Plans
from quire.bulk.shard_planner import Planner
from quire.bulk.shard_reader import ShardReader
from quire.bulk.worker_messages import WorkerConfig
from quire.bulk.worker_process import shard_options
from quire.cli.exit_codes import OK
from quire.cli.progress import duration
from quire.objects.bulk_locations import BulkLocation
from quire.settings import Settings

_AI_TOKENS_IN, _AI_TOKENS_OUT = 1_500, 800
"""What a page takes on the average, for the estimated price: its picture, its text and the answer."""


@dataclass(frozen=True, slots=True)
class BulkEstimate:
    """The estimate of one run; nothing is written."""

    source: BulkLocation
    target: BulkLocation
    plan: PlanOptions
    config: WorkerConfig
    settings: Settings

    async def run(self, *, as_json: bool) -> int:
        plans = await Plans.load(self.target)
        planner = Planner(self.source, self.target, plans, self.plan)
        found, sample = await count_new(planner, self.plan.shard_pages)
        options = shard_options(self.config, self.settings)
        async with ShardReader.open(self.source, self.target, options) as reader:
            await measure(found, sample, reader)
        price = _price(found.ai_pages or 0, self.settings)
        if as_json:
            print(json.dumps(asdict(found) | {"ai_cost_usd": price}))
        else:
            for line in _estimate_lines(found, price, self.config.processes):
                print(line)
        return OK


def _estimate_lines(found: RunEstimate, price: float | None, workers: int) -> Sequence[str]:
    types = ", ".join(f"{count:,} {name}" for name, count in list(found.types.items())[:8])
    lines = [
        f"new documents   {found.documents:,} ({found.bytes / 1e6:,.1f} MB): {types or 'none'}",
        f"duplicates      {found.duplicates:,}",
        f"deleted         {found.deleted:,}",
        f"shards          about {found.shards:,}",
    ]
    if found.pages is not None:
        seconds = duration(found.seconds) if found.seconds is not None else "unknown"
        shown = "unknown: set the model and AI_PRICES" if price is None else f"{price:,.2f} USD"
        lines += [
            f"pages           about {found.pages:,} (from a sample of {found.sampled} documents)",
            f"time            about {seconds} with {workers} reader processes",
            f"pages for AI    about {found.ai_pages or 0:,}; by AI they would cost about {shown}",
        ]
    return lines


def _price(pages: int, settings: Settings) -> float | None:
    """What these pages would cost with the first model of the settings; None where its price is unknown."""
    from quire.providers import configured_providers
    from quire.providers.price_list import PriceList
    from quire.providers.provider_protocol import TokenUsage

    models = configured_providers.models(settings.ai)
    order = [one for one in configured_providers.order(settings.ai) if one in models]
    for name in order:
        cost = PriceList(settings.ai.prices).cost(
            name, models[name].of("primary"), TokenUsage(_AI_TOKENS_IN, _AI_TOKENS_OUT)
        )
        if cost.known:
            return cost.usd * pages
    return None
