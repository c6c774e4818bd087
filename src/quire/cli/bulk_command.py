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
from quire.bulk.local_engine import LocalEngine
from quire.bulk.page_rows import FORMATS, ShardStats, check_installed
from quire.bulk.plan_options import DocumentFilter, PlanOptions, keys_from, split_pattern
from quire.bulk.shard_plan import Plans
from quire.bulk.shard_queue import ShardQueue
from quire.bulk.worker_messages import WorkerConfig, clouds_of
from quire.cli import interrupts
from quire.cli.bulk_arguments import AI_OFF
from quire.cli.exit_codes import FAILED, OK, PARTIAL, CommandUsageError, printable, say
from quire.cli.progress import duration
from quire.cli.startup import errors_only, everything
from quire.clock import SystemClock
from quire.errors import ObjectsError, RequestError, StateConflictError
from quire.objects.bulk_locations import BulkLocation, FolderLocation
from quire.settings import Settings, load

if TYPE_CHECKING:
    pass

_EVERY_S = 1.0
_EVERY_LINE_S = 30.0


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
    from quire.bulk.compaction import Compaction

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
        _check_ai(args, settings)
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
        share = ShardShare(self._args.shard_index, self._args.shard_count)
        if self._args.plan_only:
            await self._waiting(share)
            return OK
        async with self._engine() as engine:  # the workers start while the source is listed
            queue, shown = await self._waiting(share)
            outcome = await self._bulk.read(engine, queue, share, shown.count)
        by_ai = None
        if self._args.ai != AI_OFF and outcome.ai_shards:
            from quire.cli import bulk_ai

            by_ai = await bulk_ai.read_by_ai(self._args, self._settings, self._config, outcome)
            await self._bulk.count_parts(outcome, share)
        report = report_of(outcome, self._args.source, self._target.url)
        if by_ai is not None:
            report["ai"] = asdict(by_ai) | {"cost_usd": round(by_ai.cost_usd, 6)}
        place = await write_report(self._target, report, share)
        shown.finish(outcome, f"{self._target.url}/{place}")
        if self._args.json:
            print(json.dumps(report))
        if not outcome.is_complete or outcome.damaged_parts or (by_ai is not None and by_ai.stopped):
            return FAILED
        return PARTIAL if outcome.total.errors else OK

    async def _waiting(self, share: ShardShare) -> tuple[ShardQueue, _Shown]:
        """The shards to read, by the plans that are stored and, unless it is not wanted, a new one."""
        if self._args.no_plan:
            plans = await self._bulk.plans()
            if not plans.headers:
                raise StateConflictError(
                    f"There is no plan in {self._target.url} yet. Run `quire bulk` with --plan-only first."
                )
        else:
            plans, _added = await self._bulk.plan(SystemClock())
        queue, done = await self._bulk.waiting(plans, share)
        documents = sum(one.documents for one in plans.headers)
        return queue, _Shown(queue, len(done), documents, plans.shard_count, quiet=self._args.quiet)

    async def estimate(self) -> int:
        from quire.cli.bulk_estimate import BulkEstimate

        self._bulk.check(await Plans.load(self._target))
        work = BulkEstimate(self._source, self._target, self._plan, self._config, self._settings)
        return await work.run(as_json=self._args.json)

    def _engine(self) -> BulkEngine:
        if self._args.engine == "local":
            return LocalEngine(self._config, self._workers)
        from quire.bulk.ray_engine import RayEngine

        return RayEngine(self._config, self._args.workers, self._args.address)


class _Shown:
    """The progress: a line that is drawn anew on a terminal, a line now and then elsewhere."""

    def __init__(self, queue: ShardQueue, before: int, documents: int, shards: int, *, quiet: bool) -> None:
        self._queue = queue
        # Shards are about equal: without those that were read before, this is an estimate.
        self._documents = round(documents * queue.total / shards) if shards else 0
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
        done = min(1.0, now.documents / max(1, self._documents))
        left = f"{duration(seconds / done - seconds)} left" if done else "…"
        return (
            f"{now.documents:,}/{max(self._documents, now.documents):,} documents, {now.pages:,} pages, "
            f"{now.errors:,} errors, {rate:.1f} pages/s, {left} ({queue.finished:,}/{queue.total:,} shards)"
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
            f"{total.duplicates:,} duplicates; {outcome.now.pages:,} pages in {duration(outcome.seconds)} now. "
            f"Report: {report}"
        )


def _check_ai(args: argparse.Namespace, settings: Settings) -> None:
    """Raises CommandUsageError before anything is read."""
    if args.ai == AI_OFF:
        if args.max_cost is not None:
            raise CommandUsageError("--max-cost needs --ai now or --ai batch.")
        return
    from quire.cli import bulk_ai  # loads the clients of providers and Redis, which few runs need

    bulk_ai.check(args, settings)


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
