"""`quire bulk` and `quire bulk-compact`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.bulk.bulk_report import report_of, write_report
from quire.bulk.bulk_run import BulkEngine, BulkRun, RunOutcome, ShardShare
from quire.bulk.compaction import Compaction
from quire.bulk.local_engine import LocalEngine
from quire.bulk.page_rows import ShardStats, check_installed
from quire.bulk.run_estimate import RunEstimate, count_new, measure
from quire.bulk.shard_plan import Plans
from quire.bulk.shard_planner import DocumentFilter, Planner, PlanOptions, keys_from, split_pattern
from quire.bulk.shard_queue import ShardQueue
from quire.bulk.shard_reader import FORMATS, ShardReader
from quire.bulk.worker_process import WorkerConfig, clouds_of, shard_options
from quire.cli import bulk_ai, interrupts
from quire.cli.exit_codes import FAILED, OK, PARTIAL, CommandUsageError, printable, say
from quire.cli.startup import errors_only, everything
from quire.clock import SystemClock
from quire.errors import ObjectsError, RequestError, StateConflictError
from quire.objects.bulk_locations import BulkLocation, FolderLocation
from quire.settings import Settings, load

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVERY_S = 1.0
_EVERY_LINE_S = 30.0
_AI_TOKENS_IN, _AI_TOKENS_OUT = 1_500, 800
"""What a page takes on the average, for the estimated price: its picture, its text and the answer."""


def run(args: argparse.Namespace) -> int:
    """Exit code: 0, or 3 if there are rows with errors, or 1 if shards are left to read."""
    everything() if args.debug else errors_only()
    check_installed()
    if args.shard_index >= args.shard_count:
        raise CommandUsageError("--shard-index must be less than --shard-count.")
    if args.no_plan and args.plan_only:
        raise CommandUsageError("--no-plan and --plan-only exclude each other.")
    settings = load(os.environ)
    try:
        command = _Command(args, settings)
        with interrupts.as_keyboard_interrupt():
            work = command.estimate() if args.dry_run else command.run()
            return asyncio.run(interrupts.stoppable(work))
    except StateConflictError as error:  # another run is at work, or has not planned yet
        say(f"quire: {error.public}")
        return FAILED
    except RequestError as error:
        raise CommandUsageError(error.public) from error


def run_compact(args: argparse.Namespace) -> int:
    everything() if args.debug else errors_only()
    check_installed()
    clouds = clouds_of(load(os.environ))
    source, target = BulkLocation.open(args.target, clouds), BulkLocation.open(args.output, clouds)
    with interrupts.as_keyboard_interrupt():
        done = asyncio.run(interrupts.stoppable(Compaction(source, target, args.file_mb << 20).run()))
    say(f"{done.kept:,} rows in {done.files} files; {done.dropped:,} old rows left out.")
    return OK


class _Command:
    """One call of `quire bulk`."""

    def __init__(self, args: argparse.Namespace, settings: Settings) -> None:
        self._args = args
        self._settings = settings
        clouds = clouds_of(settings)
        root, pattern = split_pattern(args.source)
        self._source = BulkLocation.open(root, clouds)
        self._target = BulkLocation.open(args.target, clouds)
        if isinstance(self._source, FolderLocation) and not self._source.folder.is_dir():
            raise CommandUsageError(
                f"{root} is not a folder. Name a folder, or a bucket such as s3://bucket/prefix."
            )
        formats = _formats(args.formats)
        bulk_ai.check(args, settings)
        self._workers = args.workers or settings.reading.processes or os.cpu_count() or 1
        self._config = WorkerConfig(
            source=self._source.url,
            target=self._target.url,
            ocr=args.ocr == "on" and settings.ocr.enabled,
            formats=formats,
            processes=self._workers,
            password=_password(args.password_file),
        )
        self._plan = PlanOptions(
            args.shard_pages,
            args.limit,
            not args.no_dedupe,
            DocumentFilter(
                pattern, args.since or 0.0, _keys(args.keys), _inside(self._source.url, self._target.url)
            ),
            {"ocr": "on" if self._config.ocr else "off", "formats": ",".join(formats)},
        )
        self._bulk = BulkRun(self._source, self._target, self._plan)

    async def run(self) -> int:
        if self._args.no_plan:
            plans = await self._bulk.plans()
            if not plans.headers:
                raise StateConflictError(
                    f"There is no plan in {self._target.url} yet. Run `quire bulk` with --plan-only first."
                )
        else:
            plans, _added = await self._bulk.plan(SystemClock())
        share = ShardShare(self._args.shard_index, self._args.shard_count)
        queue, done = await self._bulk.waiting(plans, share)
        shown = _Shown(queue, len(done), sum(one.documents for one in plans.headers), quiet=self._args.quiet)
        if self._args.plan_only:
            return OK
        outcome = await self._bulk.read(self._engine(), queue, share, shown.count)
        by_ai = None
        if self._args.ai != bulk_ai.OFF and outcome.ai_shards:
            by_ai = await bulk_ai.read_by_ai(self._args, self._settings, self._config, outcome)
            await self._bulk.count_parts(outcome, share)
        report = report_of(outcome, self._args.source, self._target.url)
        if by_ai is not None:
            report["ai"] = bulk_ai.ai_report(by_ai)
        place = await write_report(self._target, report, share)
        shown.finish(outcome, f"{self._target.url}/{place}")
        if self._args.json:
            print(json.dumps(report))
        if not outcome.is_complete or outcome.damaged_parts or (by_ai is not None and by_ai.stopped):
            return FAILED
        return PARTIAL if outcome.total.errors else OK

    async def estimate(self) -> int:
        plans = await Plans.load(self._target)
        self._bulk.check(plans)
        found, sample = await count_new(
            Planner(self._source, self._target, plans, self._plan), self._args.shard_pages
        )
        options = shard_options(self._config, self._settings)
        async with ShardReader.open(self._source, self._target, options) as reader:
            await measure(found, sample, reader)
        price = _price(found.ai_pages or 0, self._settings)
        if self._args.json:
            print(json.dumps(asdict(found) | {"ai_cost_usd": price}))
        else:
            for line in _estimate_lines(found, price, self._workers):
                print(line)
        return OK

    def _engine(self) -> BulkEngine:
        if self._args.engine == "local":
            return LocalEngine(self._config, self._workers)
        from quire.bulk.ray_engine import RayEngine

        return RayEngine(self._config, self._args.workers, self._args.address)


class _Shown:
    """The progress: a line that is drawn anew on a terminal, a line now and then elsewhere."""

    def __init__(self, queue: ShardQueue, before: int, documents: int, *, quiet: bool) -> None:
        self._queue = queue
        self._quiet = quiet
        self._now = ShardStats()
        self._live = sys.stderr.isatty()
        self._began = self._said = time.monotonic()
        if not quiet:
            say(f"{documents:,} documents planned; {queue.total:,} shards to read, {before:,} done before.")

    def count(self, stats: ShardStats) -> None:
        self._now.merge(stats)
        now = time.monotonic()
        if self._quiet or now - self._said < (_EVERY_S if self._live else _EVERY_LINE_S):
            return
        self._said = now
        line = self._line(now - self._began)
        if self._live:
            sys.stderr.write(f"\r\x1b[2K{printable(line)}")
            sys.stderr.flush()
        else:
            say(line)

    def _line(self, seconds: float) -> str:
        queue, now = self._queue, self._now
        rate = now.pages / seconds if seconds else 0.0
        left = (
            f"{_duration(seconds / queue.finished * (queue.total - queue.finished))} left"
            if queue.finished
            else "…"
        )
        return (
            f"{queue.finished:,}/{queue.total:,} shards, {now.documents:,} documents, {now.pages:,} pages, "
            f"{now.errors:,} errors, {rate:.1f} pages/s, {left}"
        )

    def finish(self, outcome: RunOutcome, report: str) -> None:
        if self._live and not self._quiet:
            sys.stderr.write("\r\x1b[2K")
        for failed in outcome.failed[:10]:
            say(f"quire: shard {failed.number} could not be read: {failed.error}")
        for name in outcome.damaged_parts[:10]:
            say(f"quire: {name} is damaged. Delete it and run again.")
        if self._quiet:
            return
        total = outcome.total
        say(
            f"{total.documents:,} documents, {total.pages:,} pages, {total.errors:,} rows with errors, "
            f"{total.duplicates:,} duplicates; {outcome.now.pages:,} pages in {_duration(outcome.seconds)} now. "
            f"Report: {report}"
        )


def _estimate_lines(found: RunEstimate, price: float | None, workers: int) -> Sequence[str]:
    types = ", ".join(f"{count:,} {name}" for name, count in list(found.types.items())[:8])
    lines = [
        f"new documents   {found.documents:,} ({found.bytes / 1e6:,.1f} MB): {types or 'none'}",
        f"duplicates      {found.duplicates:,}",
        f"deleted         {found.deleted:,}",
        f"shards          about {found.shards:,}",
    ]
    if found.pages is not None:
        seconds = _duration(found.seconds) if found.seconds is not None else "unknown"
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


def _formats(text: str) -> tuple[str, ...]:
    found = tuple(sorted({one.strip() for one in text.split(",") if one.strip()} - {"md", "markdown"}))
    unknown = [one for one in found if one not in FORMATS]
    if unknown:
        raise CommandUsageError(f"--formats: {unknown[0]} is unknown. Known are {', '.join(FORMATS)}.")
    return found


def _password(path: str | None) -> str | None:
    return Path(path).read_text().rstrip("\r\n") if path else None


def _keys(path: str | None) -> frozenset[str] | None:
    if path is None:
        return None
    try:
        with Path(path).open(encoding="utf-8") as lines:
            return keys_from(lines)
    except (OSError, UnicodeDecodeError, ObjectsError) as error:
        raise CommandUsageError(f"--keys: {path} can't be used: {_reason(error)}") from error


def _reason(error: Any) -> str:
    return str(getattr(error, "public", None) or getattr(error, "strerror", None) or "it is not UTF-8")


def _inside(source: str, target: str) -> str:
    """The prefix of keys that are in the target, where that is inside the source."""
    top = source.rstrip("/") + "/"
    return target.removeprefix(top).rstrip("/") + "/" if target.startswith(top) else ""


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
