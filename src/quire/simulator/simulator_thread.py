"""The simulator in a thread of its own, for tests: a real server on a free port."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import quote

from quire.clock import SystemClock
from quire.simulator.provider_server import Simulator, start
from quire.simulator.scenario import parse

_START_TIMEOUT_S = 30.0


class RunningSimulator:
    """A simulator at `url`, controlled over HTTP; the methods block for a moment."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        return self.url

    def stats(self, *, with_calls: bool = False) -> dict[str, Any]:
        """`{"models": {name: counters}, "total": counters}`, and each call under `log` if wanted."""
        return self._ask("/_sim/stats?calls=1" if with_calls else "/_sim/stats")

    def request(self, model: str, containing: str = "") -> dict[str, Any]:
        """The body of the latest call to the model; of the latest eight, the newest whose JSON contains the text."""
        return self._ask(f"/_sim/request?model={quote(model)}&containing={quote(containing)}")

    def play(self, scenario: Mapping[str, Any]) -> None:
        """Starts another scenario; its time counts from now."""
        self._ask("/_sim/scenario", json.dumps(scenario).encode())

    def reset(self) -> None:
        """Empties the records and starts the scenario again."""
        self._ask("/_sim/reset", b"")

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        # No proxies: the address is always on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, data=body, timeout=_START_TIMEOUT_S) as response:
            answer: dict[str, Any] = json.loads(response.read())
        return answer


@contextmanager
def simulator(scenario: Mapping[str, Any] | None = None, *, seed: int = 0) -> Iterator[RunningSimulator]:
    """Runs until the block ends. Raises RequestError for a scenario that is wrong."""
    parsed = parse(scenario or {})
    started: Future[tuple[str, Callable[[], object]]] = Future()

    async def serve() -> None:
        one = Simulator(parsed, SystemClock(), seed=seed)
        runner, url = await start(one)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        started.set_result((url, partial(loop.call_soon_threadsafe, ended.set)))
        try:
            await ended.wait()
        finally:
            one.stop()
            await runner.cleanup()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run, name="simulator", daemon=True)
    thread.start()
    url, stop = started.result(_START_TIMEOUT_S)
    try:
        yield RunningSimulator(url)
    finally:
        stop()
        thread.join(_START_TIMEOUT_S)
