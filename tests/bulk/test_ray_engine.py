"""The driver of the Ray engine: which actor gets a shard, and what becomes of shards when actors and clusters are lost.

Ray itself is not installed here; `bench/bulk_nodes.py` runs the same with real nodes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import Counter
from dataclasses import asdict, dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from quire.bulk import ray_cluster, ray_engine
from quire.bulk.page_rows import ShardStats
from quire.bulk.ray_cluster import ClusterLostError, RayCluster, RayThread
from quire.bulk.ray_engine import RayDrive, actor_sizes
from quire.bulk.shard_queue import ShardQueue
from quire.bulk.worker_messages import WorkerConfig, WorkerReport
from quire.errors import QuireError, SettingsError
from tests.support.waiting import DEADLINE_S


class _ActorDiedError(Exception):
    pass


@dataclass(eq=False)
class _Method:
    """Stands for `actor.method`, whose `remote` returns a call."""

    answer: Any

    def remote(self, *args: Any) -> asyncio.Future[Any]:
        call = asyncio.ensure_future(self.answer(*args))
        call.add_done_callback(
            lambda one: one.cancelled() or one.exception()
        )  # a dead actor's calls are not awaited
        return call


@dataclass(eq=False)
class _Actor:
    """`place` counts actors in the order of their start."""

    place: int
    cluster: _Cluster

    @property
    def open(self) -> _Method:
        return _Method(self._open)

    @property
    def read(self) -> _Method:
        return _Method(self._read)

    async def _open(self) -> str:
        if self.place in self.cluster.never_placed:
            await asyncio.Event().wait()
        return self.cluster.refusal

    async def _read(self, shard: int) -> tuple[bytes, dict[str, Any]]:
        await asyncio.sleep(0)
        if self.cluster.all_die or self.place in self.cluster.die_reading:
            raise _ActorDiedError
        self.cluster.read[shard] += 1
        return msgspec.json.encode(WorkerReport(finished=shard)), asdict(ShardStats(documents=1))


@dataclass(eq=False)
class _Cluster:
    """What the drive needs of a Ray cluster, in this process."""

    never_placed: tuple[int, ...] = ()
    die_reading: tuple[int, ...] = ()
    all_die: bool = False
    refusal: str = ""
    actor_error: type[Exception] = _ActorDiedError
    any_error: type[Exception] = _ActorDiedError
    started: int = 0
    read: Counter[int] = field(default_factory=Counter)

    async def start(self, *_: Any) -> _Actor:
        self.started += 1
        return _Actor(self.started - 1, self)

    async def first_of(self, calls: list[asyncio.Future[Any]], _timeout_s: float) -> list[Any]:
        done, _ = await asyncio.wait(calls, timeout=0.01, return_when=asyncio.FIRST_COMPLETED)
        return list(done)[:1]

    async def result(self, call: asyncio.Future[Any]) -> Any:
        return await call


async def _drive(cluster: _Cluster, shards: int, sizes: list[int]) -> ShardQueue:
    queue = ShardQueue(range(shards))
    drive = RayDrive(cluster, WorkerConfig("in", "out"), queue, lambda _: None, sizes)  # type: ignore[arg-type]
    async with asyncio.timeout(DEADLINE_S):
        await drive.run()
    return queue


async def test_an_actor_that_no_node_has_room_for_holds_no_shards() -> None:
    cluster = _Cluster(never_placed=(0, 1))
    queue = await _drive(cluster, 9, [2, 2, 1])
    assert (queue.finished, queue.failed) == (9, [])
    assert cluster.read == Counter(range(9))


async def test_the_shards_of_a_dead_actor_are_read_by_others() -> None:
    cluster = _Cluster(die_reading=(0, 1))
    queue = await _drive(cluster, 9, [2, 1])
    assert (queue.finished, queue.failed) == (9, [])
    assert cluster.read == Counter(range(9))
    assert cluster.started in (3, 4)  # the other seat may have nothing left to do


async def test_a_run_ends_with_an_error_when_every_actor_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_LONGEST_PAUSE_S", 0.0)
    with pytest.raises(QuireError, match="as soon as they are started"):
        await _drive(_Cluster(all_die=True), 50, [1, 1])


async def test_a_run_ends_with_an_error_when_no_actor_is_ever_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_PATIENCE_S", 2.0)
    with pytest.raises(QuireError, match="has had room"):
        await _drive(_Cluster(never_placed=(0,)), 5, [1])


async def test_a_node_with_wrong_settings_is_named() -> None:
    with pytest.raises(QuireError, match="can't be used: OCR_DPI is wrong"):
        await _drive(_Cluster(refusal="OCR_DPI is wrong"), 5, [1])


async def test_a_cluster_that_does_not_answer_is_an_error_that_says_how_to_go_on() -> None:
    blocked = threading.Event()
    thread = RayThread()
    try:
        assert await thread.call(lambda: 5, DEADLINE_S) == 5
        with pytest.raises(ClusterLostError, match="Run the same command again"):
            await thread.call(blocked.wait, 0.01)
    finally:
        blocked.set()
    with pytest.raises(ValueError, match="no"):
        await thread.call(lambda: int("no"), DEADLINE_S)
    assert ray_cluster.ClusterLostError.retryable


@dataclass
class _Ray(ModuleType):
    """Stands for the library: a cluster with one node, which listens on an address."""

    listens_on: str
    asked: dict[str, Any] = field(default_factory=dict)
    is_shut_down: bool = False
    failure: str = ""

    def __post_init__(self) -> None:
        super().__init__("ray")
        self.exceptions = SimpleNamespace(RayActorError=_ActorDiedError, RayError=Exception)

    def init(self, **options: Any) -> None:
        self.asked = options
        if self.failure:
            raise Exception(self.failure)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeManagerAddress": self.listens_on, "Alive": True, "Resources": {"CPU": 2.0}}]

    def shutdown(self) -> None:
        self.is_shut_down = True


@pytest.mark.parametrize("named", [False, True])
async def test_a_new_cluster_is_refused_when_other_machines_can_reach_it(
    monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
    ray = _Ray("10.0.0.7")
    monkeypatch.setitem(sys.modules, "ray", ray)
    if named:  # a cluster that exists is where its owner has put it
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.7:6379")
        async with RayCluster.joined(None) as cluster:
            assert await cluster.node_cpus() == [2]
        assert ray.asked["address"] == "10.0.0.7:6379"
    else:
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        with pytest.raises(SettingsError, match="can't keep a new cluster to this machine"):
            async with RayCluster.joined(None):
                raise AssertionError
        assert os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert ray.is_shut_down


async def test_a_cluster_that_does_not_start_is_an_error_that_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray = _Ray("127.0.0.1", failure="The current node timed out during startup.\nMore.")
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(ClusterLostError, match=r"timed out during startup\. Run the same command again"):
        async with RayCluster.joined(None):
            raise AssertionError
    assert ray.is_shut_down


async def test_a_new_cluster_is_used_when_it_listens_on_loopback_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setitem(sys.modules, "ray", _Ray("127.0.0.1"))
    async with RayCluster.joined(None) as cluster:
        assert await cluster.node_cpus() == [2]


@pytest.mark.parametrize(
    ("nodes", "workers", "sizes"),
    [
        ([1, 1, 1], None, [1, 1, 1]),  # two CPUs together are on no node
        ([4, 3], None, [2, 2, 2, 1]),
        ([4, 4], 3, [2, 1]),
        ([2], 5, [2, 1, 1, 1]),
        ([], None, [1]),
    ],
)
def test_no_actor_is_larger_than_a_node(nodes: list[int], workers: int | None, sizes: list[int]) -> None:
    assert actor_sizes(nodes, workers) == sizes
