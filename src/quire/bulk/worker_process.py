"""A worker of a bulk run: a process that reads the shards it is sent, and reports on standard output.

The driver writes the configuration and then numbers of shards to standard input, one JSON value a line. The worker ends
when standard input closes, so it does not outlive a driver that was killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict

import msgspec

from quire.bulk.page_rows import ShardStats
from quire.bulk.shard_plan import Plans
from quire.bulk.shard_reader import ShardOptions, ShardReader
from quire.bulk.worker_messages import WorkerConfig, WorkerReport, clouds_of
from quire.errors import QuireError
from quire.objects.bulk_locations import BulkLocation
from quire.reading.document_reading import DocumentOptions
from quire.reading.local_reader import LocalLimits, LocalOptions
from quire.reading.ocr import page_ocr
from quire.reading.ocr.page_ocr import OcrOptions
from quire.settings import Settings, load


def document_options(settings: Settings, *, ocr: bool) -> DocumentOptions:
    """How a document is read, with the limits of the settings."""
    limits = LocalLimits(
        settings.reading.page_timeout_s, settings.ocr.page_timeout_s, settings.reading.document_budget_s
    )
    return DocumentOptions(
        LocalOptions(ocr=OcrOptions.of(settings.ocr), limits=limits),
        ocr and page_ocr.available(),
        max_pages=settings.limits.max_pages,
        chunk_pages=settings.reading.chunk_pages,
    )


def shard_options(config: WorkerConfig, settings: Settings) -> ShardOptions:
    """The options of the run with the limits of the settings."""
    return ShardOptions(
        document_options(settings, ocr=config.ocr),
        frozenset(config.formats),
        config.processes,
        settings.reading.memory_bytes,
        config.password,
        settings.reading.cage,
    )


async def read_shard(plans: Plans, reader: ShardReader, number: int, stats: ShardStats) -> WorkerReport:
    """Reads one shard and writes its part; `stats` counts documents as they are done.

    Never raises an Exception: the driver waits for a report of each shard. A defect of ours is also on standard error.
    """
    try:
        await reader.write_part(await plans.shard(number), stats.merge)
    except Exception as error:
        cause = _first(error)
        if isinstance(cause, QuireError):
            return WorkerReport(failed=number, error=cause.public, retryable=cause.retryable)
        traceback.print_exception(error)
        return WorkerReport(failed=number, error=f"{type(cause).__name__}: {cause}")
    return WorkerReport(finished=number)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _serve(config: WorkerConfig, settings: Settings, lines: asyncio.StreamReader) -> None:
    clouds = clouds_of(settings)
    source, target = BulkLocation.open(config.source, clouds), BulkLocation.open(config.target, clouds)
    plans: Plans | None = None
    async with ShardReader.open(source, target, shard_options(config, settings)) as reader:
        running: set[asyncio.Task[None]] = set()
        stats = ShardStats()

        async def one(plans: Plans, number: int) -> None:
            report = await read_shard(plans, reader, number, stats)
            _say(stats)
            _write(report)

        ticker = asyncio.create_task(_tick(stats))
        try:
            while line := await lines.readline():
                plans = plans or await Plans.load(target)  # with the first shard, the plan is stored
                task = asyncio.create_task(one(plans, int(line)))
                running.add(task)
                task.add_done_callback(running.discard)
        finally:
            ticker.cancel()
            for task in running:  # the driver is gone: another one reads these shards again
                task.cancel()


async def _tick(stats: ShardStats) -> None:
    while True:
        await asyncio.sleep(1)
        _say(stats)


def _say(stats: ShardStats) -> None:
    """Reports what was counted since the last report, and begins to count anew."""
    if stats.documents:
        _write(WorkerReport(stats=asdict(stats)))
        stats.__init__()  # type: ignore[misc]


def _write(report: WorkerReport) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


async def _run() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    first = await lines.readline()
    if first.endswith(b"\n"):  # otherwise the driver was killed before it had written it
        await _serve(msgspec.json.decode(first, type=WorkerConfig), load(os.environ), lines)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: the loop is most of what a worker does beside its readers."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # no wheel for this platform
        return None
    return new_event_loop


def main() -> int:
    """The whole process. Exit code 0: standard input was closed."""
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run())
    except (QuireError, ExceptionGroup) as error:
        sys.stderr.write(f"quire: a bulk worker could not go on: {error}\n")
        return 1
    except BrokenPipeError:  # the driver is gone
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
