"""A Ray cluster as the driver of a bulk run uses it: joins it, starts actors on it, and leaves it.

A driver whose node or head has died may wait in Ray's library without end. So every call of Ray has a deadline, and
runs in a daemon thread, which does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

from quire.errors import QuireError, SettingsError

T = TypeVar("T")

_NEW = "local"
_LOOPBACK = "127.0.0.1"
_ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable for clusters of several machines, on Linux too. Unless it is off, Ray replaces a loopback address by
one that other machines reach, and listens on all addresses."""
_JOIN_S = 180.0
_ANSWER_S = 60.0
_LEAVE_S = 10.0
_LOST = "The Ray cluster does not answer. Run the same command again to go on with the shards that are left."


class ClusterLostError(QuireError):
    """The cluster no longer answers the driver."""

    code = "ray_cluster_lost"
    retryable = True


class RayCluster:
    """The cluster that this process has joined. Every method raises ClusterLostError where it does not answer."""

    def __init__(self, ray: Any, thread: RayThread) -> None:
        self._ray = ray
        self._call = thread.call
        self.actor_error: type[Exception] = ray.exceptions.RayActorError
        self.any_error: type[Exception] = ray.exceptions.RayError

    @classmethod
    @contextlib.asynccontextmanager
    async def joined(cls, address: str | None) -> AsyncIterator[RayCluster]:
        """The cluster at `address` or RAY_ADDRESS, or a new one that other machines can't reach.

        Raises SettingsError where Ray is missing or the cluster can't be reached, ClusterLostError where no new one
        can be started.
        """
        address = address or os.environ.get("RAY_ADDRESS") or _NEW
        if address == _NEW:
            os.environ[_ONE_MACHINE] = "0"  # it is read when Ray is loaded
        try:
            import ray
        except ImportError as error:
            raise SettingsError("The engine ray needs Ray. Run: pip install 'quire[ray]'") from error
        options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "error"}
        if address == _NEW:
            options |= {"include_dashboard": False, "_node_ip_address": _LOOPBACK}
        thread = RayThread()
        try:
            await thread.call(lambda: ray.init(**options), _JOIN_S)
        except Exception as error:  # Ray also raises the bare class, on a busy machine for one
            with contextlib.suppress(ClusterLostError):
                await thread.call(ray.shutdown, _LEAVE_S)
            raise _not_joined(address, error) from error
        try:
            if address == _NEW:
                await thread.call(lambda: _check_is_local(ray), _ANSWER_S)
            yield cls(ray, thread)
        finally:
            with contextlib.suppress(ClusterLostError):
                await thread.call(ray.shutdown, _LEAVE_S)

    async def node_cpus(self) -> list[int]:
        """Returns the CPUs of each node that is alive and has any."""
        nodes = await self._call(self._ray.nodes, _ANSWER_S)
        cpus = [int(one["Resources"].get("CPU", 0)) for one in nodes if one["Alive"]]
        return [one for one in cpus if one]

    async def start(self, actor: type, cpus: int, calls_at_once: int, *args: Any) -> Any:
        """Returns the handle of a new actor at once; the actor starts when a node has room.

        Ray neither restarts it nor repeats its calls.
        """
        options = {
            "num_cpus": cpus,
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": calls_at_once,
        }
        return await self._call(lambda: self._ray.remote(**options)(actor).remote(*args), _ANSWER_S)

    async def first_of(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        """Returns a call that has ended; none if there is none within the time."""
        ready, _ = await self._call(
            lambda: self._ray.wait(list(calls), num_returns=1, timeout=timeout_s), timeout_s + _ANSWER_S
        )
        return list(ready)

    async def result(self, call: Any) -> Any:
        """Returns the result of a call that has ended. Raises `actor_error` where its actor has died."""
        return await self._call(lambda: self._ray.get(call), _ANSWER_S)


def _not_joined(address: str, error: Exception) -> QuireError:
    if address == _NEW:
        why = str(error).partition("\n")[0][:200] or type(error).__name__
        return ClusterLostError(f"Ray could not be started: {why} Run the same command again to go on.")
    return SettingsError(f"The Ray cluster can't be reached: {type(error).__name__}.")


def _check_is_local(ray: Any) -> None:
    """Raises SettingsError where a cluster of our own can be reached from other machines: it asks for no password."""
    if any(one["NodeManagerAddress"] != _LOOPBACK for one in ray.nodes()):
        raise SettingsError(
            "This version of Ray can't keep a new cluster to this machine. Start a cluster behind a firewall "
            "(`ray start --head`), and name it with --address."
        )


class RayThread:
    """The thread that calls Ray, as long as the process lives: Ray's servers end with the thread that started them."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ray-calls", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._calls.get()()

    async def call(self, call: Callable[[], T], timeout_s: float) -> T:
        """Raises ClusterLostError where the call does not return in time; no other call can be made then."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result, failure = None, None
            try:
                result = call()
            except BaseException as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: the caller is gone
                loop.call_soon_threadsafe(settle, result, failure)

        self._calls.put(run)
        try:
            async with asyncio.timeout(timeout_s):
                return await done
        except TimeoutError:
            raise ClusterLostError(_LOST) from None
