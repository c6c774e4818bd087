"""The local engine: worker processes on this machine. A worker that dies is replaced, and its shards are read again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable

import msgspec

from quire.bulk.page_rows import ShardStats
from quire.bulk.shard_queue import ShardQueue
from quire.bulk.worker_process import WorkerConfig, WorkerReport
from quire.errors import QuireError

_READERS_A_WORKER = 8
"""Reader processes that one worker can keep busy; its own work is about a tenth of theirs."""
_SHARDS_AHEAD = 2
_DEATHS_IN_A_ROW = 5
_LINE_BYTES = 1 << 20

OnStats = Callable[[ShardStats], None]


class LocalEngine:
    """Reads all shards of a queue with `processes` reader processes, divided among as few workers as can feed them."""

    def __init__(self, config: WorkerConfig, processes: int) -> None:
        count = -(-processes // _READERS_A_WORKER)
        self._shares = [processes // count + (place < processes % count) for place in range(count)]
        self._config = config

    async def run(self, queue: ShardQueue, on_stats: OnStats) -> None:
        """Raises QuireError where workers can't be started."""
        async with asyncio.TaskGroup() as group:
            for share in self._shares:
                config = msgspec.structs.replace(self._config, processes=share)
                group.create_task(_Seat(config, queue, on_stats).run())


class _Seat:
    """The place of one worker: the process that is there now, and the next one if it dies."""

    def __init__(self, config: WorkerConfig, queue: ShardQueue, on_stats: OnStats) -> None:
        self._config = config
        self._queue = queue
        self._on_stats = on_stats
        self._held: set[int] = set()
        self._deaths = 0

    async def run(self) -> None:
        while not self._queue.is_done:
            await self._one_worker()
            if self._queue.is_done:
                return
            for shard in sorted(self._held):
                self._queue.fail(shard, "Its worker died each time.")
            self._held.clear()
            if self._queue.is_done:
                return
            self._deaths += 1
            if self._deaths >= _DEATHS_IN_A_ROW:
                raise QuireError(
                    "Workers of the bulk run end as soon as they are started. Their last words are above; "
                    "`quire doctor` checks this installation."
                )
            await asyncio.sleep(min(2.0, 0.1 * 2**self._deaths))

    async def _one_worker(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "quire.bulk.worker_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
            env=dict(os.environ),
            start_new_session=True,  # Ctrl-C in a terminal is for the driver alone
        )
        assert process.stdin is not None  # noqa: S101 - it was asked for
        assert process.stdout is not None  # noqa: S101 - it was asked for
        try:
            process.stdin.write(msgspec.json.encode(self._config) + b"\n")
            self._feed(process.stdin)
            listening = asyncio.create_task(self._listen(process.stdout, process.stdin))
            while not listening.done():
                await asyncio.wait({listening}, timeout=0.5)
                self._feed(process.stdin)  # a shard of another worker may have come back
                if self._queue.is_done:
                    break
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
        finally:
            process.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _feed(self, out: asyncio.StreamWriter) -> None:
        while len(self._held) < _SHARDS_AHEAD and (shard := self._queue.take()) is not None:
            self._held.add(shard)
            out.write(b"%d\n" % shard)

    async def _listen(self, lines: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        while line := await lines.readline():
            report = msgspec.json.decode(line, type=WorkerReport)
            if report.stats is not None:
                self._on_stats(ShardStats(**report.stats))
            if report.finished is not None:
                self._held.discard(report.finished)
                self._deaths = 0
                self._queue.finish()
            if report.failed is not None:
                self._held.discard(report.failed)
                self._queue.fail(report.failed, report.error, retryable=report.retryable)
            if self._queue.is_done:
                return
            self._feed(out)
