"""Services that several tests share. They end when the run goes to another folder: an idle service costs CPU too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S


class SharedServices:
    def __init__(self) -> None:
        self._running: dict[str, Server] = {}

    def get(self, name: str, start: Callable[[], Server]) -> Server:
        """The service of this name; the first test that asks for it starts it."""
        if name not in self._running:
            self._running[name] = start()
        return self._running[name].wait_ready()

    def stop(self) -> None:
        """Ends all, at the same time; each must end well."""
        running, self._running = self._running, {}
        for server in running.values():
            server.process.terminate()
        for name, server in running.items():
            code = server.process.wait(DEADLINE_S)
            assert code == 0, (
                f"the service {name!r} ended with {code}:\n{server.log_path.read_text()[-4000:]}"
            )


_SHARED = SharedServices()


@pytest.fixture(scope="session")
def shared_services() -> SharedServices:
    return _SHARED


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or _folder(nextitem) != _folder(item):
        _SHARED.stop()


def _folder(item: pytest.Item) -> str:
    """The folder below `tests`; those inside it share their services."""
    return item.nodeid.split("/")[1]
