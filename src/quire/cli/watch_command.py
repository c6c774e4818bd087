"""`quire watch`: converts each document that is dropped into a folder, once, into another folder."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from quire.bootstrap import runtime
from quire.cli import exit_codes
from quire.cli.convert_command import content, failure
from quire.cli.convert_sources import SUFFIXES
from quire.cli.exit_codes import CommandUsageError, say
from quire.cli.interrupts import until_stopped
from quire.cli.mail_attachments import relinked, write_attachments
from quire.cli.startup import errors_only, everything, run_service
from quire.cli.terminal_text import summary_lines
from quire.cli.watch_inbox import Inbox, InboxFile, digest_of
from quire.cli.watch_journal import Journal
from quire.cli.watch_outbox import Outbox, touched
from quire.clock import Clock, SystemClock
from quire.domain.job import JobOptions, JobStatus, MainJob, Mode, UnitKind
from quire.errors import PlaneError, QuireError, RequestError
from quire.pipeline.engine import Engine
from quire.pipeline.intake.upload_intake import Submission
from quire.settings import Settings, load
from quire.settings.setting_kinds import write_duration

_TEAM = "watch"
_IN_FLIGHT = 8
_NO_DEADLINE = "30d"
_WAIT_S = 3600.0
_EMPTY_S = 60.0
"""An empty file is more likely one that has just been made; so long it is given to be filled."""
_FIRST_DELAY_S = 5.0
_LONGEST_DELAY_S = 300.0


def run(args: argparse.Namespace) -> int:
    """Watches until SIGTERM or SIGINT; with --once, once. Raises CommandUsageError or SettingsError."""
    everything() if args.debug else errors_only()
    inbox, out = Path(args.inbox).absolute(), Path(args.out).absolute()
    failed = Path(args.failed).absolute() if args.failed else out / "failed"
    _check_folders(inbox, out, failed)
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # comes when a file that is looked at is opened by its writer
    journal = Journal(out)
    try:
        outbox = Outbox(out, failed, journal, SUFFIXES[args.format])
        outbox.recover(inbox)
        settings = _settings(args.data_dir, inbox, out)
        folder = Inbox(
            inbox, leave_out=(out, failed, settings.general.data_dir, load(os.environ).general.data_dir)
        )
        options = JobOptions(mode=Mode(args.mode))
        watch = Watch(folder, outbox, journal, WatchOptions(options, args.format, args.every, once=args.once))
        return run_service(_watch(settings, watch, inbox))
    finally:
        journal.close()


def _check_folders(inbox: Path, out: Path, failed: Path) -> None:
    if not inbox.is_dir():
        raise CommandUsageError(f"{inbox} is not a folder.")
    for option, folder in (("--out", out), ("--failed", failed)):
        # Results would be taken for documents, and their results again.
        if inbox.resolve().is_relative_to(folder.resolve()):
            raise CommandUsageError(f"The watched folder must not be {option} or be inside it.")
        if folder.exists() and not folder.is_dir():
            raise CommandUsageError(f"{option} {folder} is a file.")


def _settings(asked: str | None, inbox: Path, out: Path) -> Settings:
    """The user's settings, with planes of our own that stay: after a restart work goes on where it was."""
    given = load(os.environ)
    name = hashlib.sha256(f"{inbox}\0{out}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
    folder = Path(asked) if asked else given.general.data_dir / f"watch-{name}"
    own = {
        "DATA_DIR": str(folder.absolute()),
        "REDIS_URL": "",
        "OBJECT_STORE": "",
        # Half for documents that are nearly done, half for units of work that are.
        "SHUTDOWN_TIMEOUT": write_duration(given.http.shutdown_timeout_s / 2),
    }
    if "DOCUMENT_PROCESSING_TIMEOUT" not in given.origins:
        # A deadline protects a service from its callers; here no caller waits.
        own["DOCUMENT_PROCESSING_TIMEOUT"] = _NO_DEADLINE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return load(os.environ, own)


async def _watch(settings: Settings, watch: Watch, inbox: Path) -> int:
    async with runtime(settings, owner="quire watch", kinds=list(UnitKind)) as running:
        running.ready.set()
        watching = asyncio.create_task(watch.run(running.engine), name="watch")
        stopped = asyncio.create_task(until_stopped(), name="until-stopped")
        try:
            await asyncio.wait({watching, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                watch.stop()
                await asyncio.wait({watching}, timeout=settings.http.shutdown_timeout_s)
                # What is cut off here goes on after the next start: its job is kept.
                return watching.result() if watching.done() else exit_codes.OK
            return watching.result()
        finally:
            for task in (watching, stopped):
                task.cancel()
            await asyncio.wait({watching, stopped})


@dataclass(frozen=True, slots=True)
class WatchOptions:
    job: JobOptions
    format: str = "md"
    every_s: float = 1.0
    once: bool = False


@dataclass(slots=True)
class _Trouble:
    """Something that is not the document's fault: it is tried again, after growing waits."""

    delay_s: float
    until: float


@dataclass(slots=True)
class _Tally:
    converted: int = 0
    partial: int = 0
    failed: int = 0
    left: int = 0

    @property
    def code(self) -> int:
        if self.failed or self.left:
            return exit_codes.FAILED
        return exit_codes.PARTIAL if self.partial else exit_codes.OK


class Watch:
    def __init__(
        self,
        inbox: Inbox,
        outbox: Outbox,
        journal: Journal,
        options: WatchOptions,
        clock: Clock | None = None,
    ) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._journal = journal
        self._options = options
        self._clock = clock or SystemClock()
        self._stopping = asyncio.Event()
        self._busy: set[str] = set()
        self._trouble: dict[str, _Trouble] = {}
        self._tally = _Tally()
        self._unfinished: list[InboxFile] = []

    def stop(self) -> None:
        """Takes no further documents; those in hand may end."""
        self._stopping.set()

    async def run(self, engine: Engine) -> int:
        """Until stopped; with `once`, until everything that is finished is converted. Raises CommandUsageError."""
        try:
            engine.intake.check(Submission(_TEAM, options=self._options.job))
        except RequestError as error:
            raise CommandUsageError(error.public) from error
        if not self._options.once:
            say(f"quire: watching {self._inbox.folder}")
        queue: asyncio.Queue[InboxFile] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            workers = [
                group.create_task(self._work(engine, queue), name=f"watch-{number}")
                for number in range(_IN_FLIGHT)
            ]
            await self._look(queue)
            await self._finish(queue, workers)
        for found in self._unfinished if self._options.once else ():
            say(f"quire: {found.name}: not finished yet, left where it is.")
        return self._tally.code if self._options.once else exit_codes.OK

    async def _look(self, queue: asyncio.Queue[InboxFile]) -> None:
        """Looks at the folder and queues what is finished, again and again; with `once`, two looks."""
        looks = 0
        away = False
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            try:
                finished, self._unfinished = await asyncio.to_thread(self._inbox.look, self._is_wanted)
                away = False
            except OSError as error:
                if self._options.once:
                    raise
                if not away:
                    say(f"quire: {self._inbox.folder}: {error.strerror or error}. Waiting for it.")
                finished, away = [], True
            for found in finished:
                self._busy.add(found.name)
                queue.put_nowait(found)
            looks += 1
            if self._options.once and looks == 2:
                return
            # A folder with very many files takes long to look at; it must not be all that is done.
            pause_s = max(self._options.every_s, 10 * (self._clock.monotonic() - began))
            await _unless(self._stopping, pause_s)

    async def _finish(self, queue: asyncio.Queue[InboxFile], workers: list[asyncio.Task[None]]) -> None:
        """Waits for what is queued, or, when stopping, only for what is in hand."""
        if self._stopping.is_set():
            while not queue.empty():
                queue.get_nowait()
                queue.task_done()
        await queue.join()
        for task in workers:
            task.cancel()

    def _is_wanted(self, found: InboxFile) -> bool:
        if found.name in self._busy:
            return False
        known = self._journal.of(found.name)
        if known is not None and known.state == "done" and known.look == found.look:
            return False
        now = self._clock.now()
        if not found.look.size and not self._options.once and now - found.look.mtime_ns / 1e9 < _EMPTY_S:
            return False
        trouble = self._trouble.get(found.name)
        return trouble is None or trouble.until <= now

    async def _work(self, engine: Engine, queue: asyncio.Queue[InboxFile]) -> None:
        while True:
            found = await queue.get()
            try:
                await self._convert(engine, found)
                self._trouble.pop(found.name, None)
            except (PlaneError, OSError) as error:
                self._put_off(found, error)
            finally:
                self._busy.discard(found.name)
                queue.task_done()

    def _put_off(self, found: InboxFile, error: PlaneError | OSError) -> None:
        before = self._trouble.get(found.name)
        delay_s = min(2 * before.delay_s, _LONGEST_DELAY_S) if before else _FIRST_DELAY_S
        self._trouble[found.name] = _Trouble(delay_s, self._clock.now() + delay_s)
        why = error.public if isinstance(error, PlaneError) else f"{error.strerror or error}."
        again = "" if self._options.once else f" Trying again in {delay_s:.0f} s."
        say(f"quire: {found.name}: {why}{again}")
        self._tally.left += 1

    async def _convert(self, engine: Engine, found: InboxFile) -> None:
        """One document to its end. Raises PlaneError or OSError for what is not its own fault."""
        try:
            sha256, look = await asyncio.to_thread(digest_of, found.path)
        except FileNotFoundError:
            return
        if look != found.look:
            return  # it goes on being written; the next looks will tell
        known = self._journal.of(found.name)
        attempt = 1
        if known is not None and known.sha256 == sha256:
            if known.state == "done":
                await asyncio.to_thread(self._journal.add, touched(known, look))
                return
            attempt = known.attempt + (1 if known.state == "failed" else 0)
        try:
            job = await self._job(engine, found, sha256, attempt)
            await self._publish(engine, found, sha256, attempt, job)
        except PlaneError:
            raise
        except QuireError as error:
            await self._fail(found, sha256, attempt, error)

    async def _job(self, engine: Engine, found: InboxFile, sha256: str, attempt: int) -> MainJob:
        """The finished job of this document: after a restart, the one that was begun before."""
        options = self._options.job
        submission = Submission(
            _TEAM,
            options=options,
            filename=found.path.name,
            idempotency_key=f"{sha256} {attempt} {options.mode.value} {found.name}",
        )
        accepted = await engine.intake.accept_path(submission, found.path)
        while True:
            job = await engine.wait(_TEAM, accepted.job_id, _WAIT_S)
            if job.status is JobStatus.COMPLETED:
                return job
            if job.status.terminal:
                raise failure(job)

    async def _publish(
        self, engine: Engine, found: InboxFile, sha256: str, attempt: int, job: MainJob
    ) -> None:
        target = self._outbox.target_of(found.name)
        records = await engine.pages(job)

        def written(one: MainJob, path: Path) -> AsyncIterator[bytes]:
            pieces = content(engine, one, self._options.format)
            return relinked(pieces, one, path) if self._options.format == "md" else pieces

        # First: once the result is there the document counts as done, also if the process dies in this moment.
        problems = await write_attachments(engine, job, target, SUFFIXES[self._options.format], written)
        if not await self._outbox.publish(found, sha256, attempt, target, written(job, target)):
            return  # changed while it was read: what was read is of no version of it
        self._tally.converted += 1
        self._tally.partial += bool(job.pages_failed or problems)
        for line in summary_lines(found.name, job, records):
            say(line)
        for problem in problems:
            say(f"quire: {found.name}: {problem}")

    async def _fail(self, found: InboxFile, sha256: str, attempt: int, error: QuireError) -> None:
        moved = await asyncio.to_thread(self._outbox.put_aside, found, sha256, attempt, error.public)
        if moved is not None:
            self._tally.failed += 1
            say(f"quire: {found.name}: {error.public} Moved to {moved}.")


async def _unless(event: asyncio.Event, timeout_s: float) -> None:
    """Returns after that time, or as soon as the event comes."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
