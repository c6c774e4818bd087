"""The Ray engine: actors on the nodes of a Ray cluster read shards. Only numbers of shards and counts go through Ray.

An actor parses nothing itself: it has killable reader processes, as a local worker has. Ray's own retries are off: a
shard is tried again by the queue. Credentials and limits come from the environment of each node.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import msgspec

from quire.bulk.page_rows import ShardStats
from quire.bulk.shard_plan import Plans
from quire.bulk.shard_queue import ShardQueue
from quire.bulk.shard_reader import ShardReader
from quire.bulk.worker_process import WorkerConfig, WorkerReport, clouds_of, read_shard, shard_options
from quire.errors import QuireError, SettingsError
from quire.objects.bulk_locations import BulkLocation
from quire.settings import load

_CPUS_AN_ACTOR = 2
_SHARDS_AHEAD = 2
_LOOK_EVERY_S = 1.0
_DEATHS_IN_A_ROW = 20


class ShardActor:
    """Runs in a process of Ray, in its event loop."""

    def __init__(self, config: bytes) -> None:
        self._config = msgspec.json.decode(config, type=WorkerConfig)
        self._reader: ShardReader | None = None
        self._plans: Plans | None = None
        self._opening = asyncio.Lock()
        self._contexts: list[Any] = []

    async def read(self, number: int) -> tuple[bytes, dict[str, Any]]:
        """Returns the report of the shard and the counts of its documents."""
        async with self._opening:
            if self._reader is None:
                await self._open()
        if self._reader is None or self._plans is None:
            raise SettingsError("The reader processes could not be started.")
        stats = ShardStats()
        report = await read_shard(self._plans, self._reader, number, stats)
        return msgspec.json.encode(report), asdict(stats)

    async def _open(self) -> None:
        settings = load(os.environ)
        clouds = clouds_of(settings)
        source = BulkLocation.open(self._config.source, clouds)
        target = BulkLocation.open(self._config.target, clouds)
        self._plans = await Plans.load(target)
        context = ShardReader.open(source, target, shard_options(self._config, settings))
        self._contexts.append(context)  # it is open as long as the actor lives
        self._reader = await context.__aenter__()


class RayEngine:
    """Reads all shards of a queue on a Ray cluster: the one at `address`, or a new one on this machine."""

    def __init__(self, config: WorkerConfig, workers: int | None, address: str | None) -> None:
        self._config = config
        self._workers = workers
        self._address = address
        self._deaths = 0

    async def run(self, queue: ShardQueue, on_stats: Callable[[ShardStats], None]) -> None:
        """Raises SettingsError where Ray is missing or its cluster can't be reached."""
        try:
            import ray
        except ImportError as error:
            raise SettingsError("The engine ray needs Ray. Run: pip install 'quire[ray]'") from error
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self._address is None:
            options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        else:
            options["address"] = self._address
        try:
            await asyncio.to_thread(ray.init, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise SettingsError(f"The Ray cluster can't be reached: {type(error).__name__}.") from error
        try:
            await self._drive(ray, queue, on_stats)
        finally:
            await asyncio.to_thread(ray.shutdown)

    async def _drive(self, ray: Any, queue: ShardQueue, on_stats: Callable[[ShardStats], None]) -> None:
        seats = self._seats(ray)
        waiting: dict[Any, tuple[int, int]] = {}  # a call, its actor's place and its shard
        while not queue.is_done:
            for place, (actor, _) in enumerate(seats):
                while sum(1 for one, _ in waiting.values() if one == place) < _SHARDS_AHEAD:
                    shard = queue.take()
                    if shard is None:
                        break
                    waiting[actor.read.remote(shard)] = (place, shard)
            ready, _ = await asyncio.to_thread(ray.wait, list(waiting), num_returns=1, timeout=_LOOK_EVERY_S)
            for call in ready:
                place, shard = waiting.pop(call)
                try:
                    raw, stats = await asyncio.to_thread(ray.get, call)
                except ray.exceptions.RayActorError:
                    queue.fail(shard, "Its worker died each time.")
                    self._count_death(queue)
                    if not any(one == place for one, _ in waiting.values()):
                        seats[place] = (self._actor(ray, seats[place][1]), seats[place][1])
                    continue
                except ray.exceptions.RayError as error:
                    queue.fail(shard, f"Ray failed: {type(error).__name__}.")
                    self._count_death(queue)
                    continue
                self._settle(msgspec.json.decode(raw, type=WorkerReport), queue)
                on_stats(ShardStats(**stats))

    def _settle(self, report: WorkerReport, queue: ShardQueue) -> None:
        if report.finished is not None:
            self._deaths = 0
            queue.finish()
        elif report.failed is not None:
            queue.fail(report.failed, report.error, retryable=report.retryable)

    def _count_death(self, queue: ShardQueue) -> None:
        self._deaths += 1
        if self._deaths >= _DEATHS_IN_A_ROW and not queue.is_done:
            raise QuireError("Workers in the Ray cluster end as soon as they are started: check its nodes.")

    def _seats(self, ray: Any) -> list[tuple[Any, int]]:
        """One actor for each two CPUs of the cluster, or as many as `workers` need."""
        cpus = self._workers or int(ray.cluster_resources().get("CPU", 1))
        shares = [_CPUS_AN_ACTOR] * (cpus // _CPUS_AN_ACTOR) + [1] * (cpus % _CPUS_AN_ACTOR)
        return [(self._actor(ray, share), share) for share in shares]

    def _actor(self, ray: Any, cpus: int) -> Any:
        remote = ray.remote(
            num_cpus=cpus, max_restarts=0, max_task_retries=0, max_concurrency=_SHARDS_AHEAD + 1
        )(ShardActor)
        config = msgspec.structs.replace(self._config, processes=cpus)
        return remote.remote(msgspec.json.encode(config))
