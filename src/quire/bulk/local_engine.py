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
from quire.bulk.worker_messages import WorkerConfig, WorkerReport
from quire.errors import QuireError

_READERS_A_WORKER = 8
"""Reader processes that one worker can keep busy; its own work is about a tenth of theirs."""
_SHARDS_AHEAD = 2
_DEATHS_IN_A_ROW = 5
_LINE_BYTES = 1 << 20
_END_S = 10.0

OnStats = Callable[[ShardStats], None]


class LocalEngine:
    """Reads all shards of a queue with `processes` reader processes, divided among as few workers as can feed them.

    The workers start with the `async with` block: their readers are ready when the queue is.
    """

    def __init__(self, config: WorkerConfig, processes: int) -> None:
        count = -(-processes // _READERS_A_WORKER)
        shares = (processes // count + (place < processes % count) for place in range(count))
        self._seats = [_Seat(msgspec.structs.replace(config, processes=share)) for share in shares]

    async def __aenter__(self) -> LocalEngine:
        for seat in self._seats:
            await seat.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(seat.end() for seat in self._seats))

    async def run(self, queue: ShardQueue, on_stats: OnStats) -> None:
        """Raises QuireError where workers can't be started."""
        async with asyncio.TaskGroup() as group:
            for seat in self._seats:
                group.create_task(seat.read(queue, on_stats))


class _Seat:
    """The place of one worker: the process that is there now, and the next one if it dies."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._process: asyncio.subprocess.Process | None = None
        self._held: set[int] = set()
        self._has_work = False
        self._deaths = 0

    async def start(self) -> None:
        """Raises QuireError where no process can be started."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "quire.bulk.worker_process"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE_BYTES,
                env=dict(os.environ),
                start_new_session=True,  # Ctrl-C in a terminal is for the driver alone
            )
        except OSError as error:
            raise QuireError(f"A worker of the bulk run can't be started: {error.strerror}.") from error
        self._process, self._has_work = process, False
        _pipes(process)[0].write(msgspec.json.encode(self._config) + b"\n")

    async def end(self) -> None:
        """Returns when the process is gone. It removes its folder on the way, unless that takes too long.

        One that has had no shard may still be starting, and is not waited for; the next run removes its folder.
        """
        process, self._process = self._process, None
        if process is None:
            return
        _pipes(process)[0].close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_S if self._has_work else 0):
                    await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def read(self, queue: ShardQueue, on_stats: OnStats) -> None:
        """Returns when every shard of the queue is read or given up, by this seat or by others."""
        while not queue.is_done:
            if self._process is None:
                await self.start()
            if await self._feed_worker(queue, on_stats):
                return
            await self.end()
            for shard in sorted(self._held):
                queue.fail(shard, "Its worker died each time.")
            self._held.clear()
            self._deaths += 1
            if self._deaths >= _DEATHS_IN_A_ROW and not queue.is_done:
                raise QuireError(
                    "Workers of the bulk run end as soon as they are started. Their last words are above; "
                    "`quire doctor` checks this installation."
                )
            await asyncio.sleep(min(2.0, 0.1 * 2**self._deaths))

    async def _feed_worker(self, queue: ShardQueue, on_stats: OnStats) -> bool:
        """Whether the queue is done; otherwise the worker has ended."""
        assert self._process is not None  # noqa: S101 - `read` has started it
        out, lines = _pipes(self._process)
        self._feed(queue, out)
        listening = asyncio.create_task(self._listen(queue, on_stats, lines, out))
        try:
            while not listening.done() and not queue.is_done:
                await asyncio.wait({listening}, timeout=0.5)
                self._feed(queue, out)  # a shard of another worker may have come back
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
        if queue.is_done:
            out.close()  # it ends while the driver counts the rows
        return queue.is_done

    def _feed(self, queue: ShardQueue, out: asyncio.StreamWriter) -> None:
        while len(self._held) < _SHARDS_AHEAD and (shard := queue.take()) is not None:
            self._held.add(shard)
            self._has_work = True
            out.write(b"%d\n" % shard)

    async def _listen(
        self, queue: ShardQueue, on_stats: OnStats, lines: asyncio.StreamReader, out: asyncio.StreamWriter
    ) -> None:
        while (line := await lines.readline()).endswith(
            b"\n"
        ):  # the last line of a killed worker may be torn
            report = msgspec.json.decode(line, type=WorkerReport)
            if report.stats is not None:
                on_stats(ShardStats(**report.stats))
            if report.finished is not None:
                self._held.discard(report.finished)
                self._deaths = 0
                queue.finish()
            if report.failed is not None:
                self._held.discard(report.failed)
                queue.fail(report.failed, report.error, retryable=report.retryable)
            if queue.is_done:
                return
            self._feed(queue, out)


def _pipes(process: asyncio.subprocess.Process) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    assert process.stdin is not None  # noqa: S101 - it was asked for
    assert process.stdout is not None  # noqa: S101 - it was asked for
    return process.stdin, process.stdout
