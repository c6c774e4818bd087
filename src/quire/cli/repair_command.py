"""`quire repair`: checks the three planes and mends what can be mended; `--dry-run` only says what it would do."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from quire.bootstrap import Runtime, runtime
from quire.catalog.database.file_repair import problems_of, rewrite
from quire.cli import exit_codes, interrupts
from quire.cli.exit_codes import printable
from quire.cli.startup import errors_only, everything, settings_from
from quire.coordination.append_only_repair import cut_damaged_tail
from quire.coordination.embedded_server import EmbeddedServer
from quire.pipeline.upkeep.job_journal import JobRecovery, RecoveryReport
from quire.settings import Settings


def run(args: argparse.Namespace) -> int:
    """Exit code 0 if all is well or was mended, 1 if something is left (with --dry-run: to be done)."""
    everything() if args.debug else errors_only()
    settings = settings_from(args)
    with interrupts.as_keyboard_interrupt():
        return asyncio.run(interrupts.stoppable(_Repair(settings, args.dry_run).run()))


class _Repair:
    def __init__(self, settings: Settings, dry_run: bool) -> None:
        self._settings = settings
        self._dry_run = dry_run
        self._left = False
        self._data_dir = settings.general.data_dir.absolute()
        own = not settings.coordination.redis_url
        self._is_running = own and EmbeddedServer.attach_url(self._data_dir) is not None

    async def run(self) -> int:
        if not self._settings.catalog.database_url:
            await asyncio.to_thread(self._catalog, self._settings.catalog_file)
        else:
            _say("catalog", "PostgreSQL checks and repairs itself; use its own tools and backups")
        if self._queue_file():
            async with runtime(
                self._settings, owner="quire repair", kinds=None, attach=self._is_running, vault=True
            ) as running:
                await self._objects(running)
                await self._jobs(running)
                await self._documents(running)
        return exit_codes.FAILED if self._left else exit_codes.OK

    def _catalog(self, path: Path) -> None:
        found = problems_of(path)
        if not found:
            _say("catalog", "sound")
            return
        _say("catalog", f"damaged: {found[0]}")
        if self._dry_run:
            self._left = True
            _say("catalog", "would write it anew and keep the damaged file beside it")
        elif self._is_running:
            self._left = True
            _say("catalog", "stop the service, then run `quire repair` again")
        elif (kept := rewrite(path)) is not None:
            _say("catalog", f"written anew; the damaged file is {kept}")
        else:
            self._left = True
            _say("catalog", f"could not be read; restore {path} from a backup")

    def _queue_file(self) -> bool:
        """Reports the state of the embedded server's file; False if jobs can't be checked before it is mended."""
        folder = self._data_dir / "coordination" / "appendonlydir"
        if self._settings.coordination.redis_url or self._is_running or not folder.is_dir():
            return True
        found = cut_damaged_tail(folder, self._data_dir / "coordination" / "damaged", dry_run=self._dry_run)
        if found is None:
            _say("queue", "sound")
            return True
        if not self._dry_run:
            _say("queue", found.describe())
            return True
        self._left = True
        _say("queue", f"would cut {found.cut_bytes} damaged bytes from the end of its file, and keep a copy")
        _say("jobs", "are checked once the queue's file is mended")
        return False

    async def _objects(self, running: Runtime) -> None:
        if self._dry_run:
            await running.parts.objects.check()
            _say("objects", "can be read and written")
        else:
            swept = await running.parts.objects.sweep_temporaries()
            _say("objects", f"{swept} half-written files of ended processes removed" if swept else "sound")

    async def _jobs(self, running: Runtime) -> None:
        recovery = JobRecovery(running.parts, running.connection)
        report = await recovery.run(dry_run=self._dry_run, check_results=True)
        self._left = self._left or (self._dry_run and not report.is_clean) or report.unreadable > 0
        _say("jobs", _described(report, self._dry_run))

    async def _documents(self, running: Runtime) -> None:
        """Rows of the vault that the catalog has lost; their conversions have all that is needed."""
        if running.vault is None or running.vault.is_unused():
            return
        lost = await running.vault.lost.compare_all(dry_run=self._dry_run)
        self._left = self._left or (self._dry_run and lost > 0)
        done = "would be put back" if self._dry_run else "put back"
        _say(
            "documents",
            f"{lost} that the catalog had lost {done}" if lost else "none missing from the catalog",
        )


def _described(report: RecoveryReport, dry_run: bool) -> str:
    if report.is_clean:
        return f"{report.jobs_seen} in the object plane, none missing from the queue"
    done = "would be " if dry_run else ""
    texts = {
        f"finished jobs {done}found again": report.finished,
        f"unfinished jobs {done}started again": report.restarted,
        "whose document, record or result is missing": report.unreadable,
    }
    return ", ".join(f"{count} {text}" for text, count in texts.items() if count)


def _say(plane: str, text: str) -> None:
    print(printable(f"{plane:<10}{text}"), flush=True)
