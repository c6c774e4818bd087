"""`quire convert`: the same pipeline as the service, in this process, in a private data directory."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from quire.bootstrap import runtime
from quire.cli import exit_codes, interrupts
from quire.cli.convert_sources import (
    STDIN,
    SUFFIXES,
    ConvertResult,
    ConvertSource,
    all_sources,
    named_buckets,
    take_stdin,
    targets,
)
from quire.cli.exit_codes import CommandUsageError, printable
from quire.cli.mail_attachments import relinked, write_attachments
from quire.cli.plain_text import plain_text
from quire.cli.progress import Progress, progress
from quire.cli.startup import errors_only, everything
from quire.cli.terminal_text import summary_lines
from quire.domain.included_details import IncludedDetails
from quire.domain.job import JobOptions, JobSecrets, JobStatus, MainJob, Mode, ReadingEffort, UnitKind
from quire.domain.output_options import FigureForm, HeaderForm, OutputOptions, TableForm
from quire.domain.page_ranges import PageRanges
from quire.domain.page_view import page_view
from quire.domain.text_chunk import ChunkOptions
from quire.errors import PasswordRequiredError, PasswordWrongError, QuireError, RequestError
from quire.pipeline.chunk_table import check_parquet, chunks_parquet
from quire.pipeline.docling_file import docling_document
from quire.pipeline.document_formats import chunks_lines, html_document
from quire.pipeline.engine import Engine
from quire.pipeline.intake.upload_intake import Submission
from quire.reading.pool.server_process import ServerProcess
from quire.rendering.element_json import SCHEMA_VERSION, document_page_json
from quire.settings import Settings, load

_TEAM = "cli"
_IN_FLIGHT = 16
"""Documents submitted at a time: enough to keep every core busy, few enough to keep progress readable."""
_NO_DEADLINE = "30d"
_PIECE_BYTES = 256 << 10
_FROM_ELEMENTS = frozenset({"html", "docling", "chunks", "zip", "parquet"})
_BINARY = {"pdf": "PDF", "zip": "zip", "parquet": "Parquet file"}
_PASSWORD_CODES = (PasswordRequiredError.code, PasswordWrongError.code)


@dataclass(frozen=True, slots=True)
class _Task:
    place: int
    source: ConvertSource
    target: Path | None  # None: standard output, by way of a spool file


@dataclass(frozen=True, slots=True)
class _Request:
    """What holds for every document of this run."""

    options: JobOptions
    password: str | None
    format: str
    spool: Path
    chunking: ChunkOptions
    output: OutputOptions
    included: IncludedDetails

    def submission(self, source: ConvertSource | None = None) -> Submission:
        return Submission(
            _TEAM,
            options=self.options,
            secrets=JobSecrets(password=self.password, source_url=source.url if source else None),
            filename=source.filename if source and source.path else "",
        )


def run(args: argparse.Namespace, readers: ServerProcess) -> int:
    """Exit code: the worst that happened to any document. Raises CommandUsageError before any work starts."""
    everything() if args.debug else errors_only()
    options = JobOptions(
        mode=Mode(args.mode),
        pages=args.pages,
        force_ocr=args.force_ocr,
        ocr_languages=args.ocr_languages,
        reading_effort=ReadingEffort(args.reading_effort) if args.reading_effort else None,
    )
    try:
        PageRanges.parse(args.pages)
    except RequestError as error:
        raise CommandUsageError(error.public) from error
    chunking, output, included = _chunking(args), _output(args), _included(args)
    if args.password_file == STDIN and STDIN in args.sources:
        raise CommandUsageError("Standard input can't be both the document and the password file.")
    with private_folder(args.data_dir) as work_dir:
        sources = all_sources(args.sources, work_dir)
        places = targets(sources, args.output, args.format)
        _check_stdout(args.format, output, places)
        settings = own_settings(work_dir, named_buckets(sources))
        password = read_password(args.password_file)
        request = _Request(options, password, args.format, work_dir / "stdout", chunking, output, included)
        tasks = [_Task(n, *pair) for n, pair in enumerate(zip(sources, places, strict=True))]
        take_stdin(sources, work_dir)
        shown = progress(len(tasks), quiet=args.quiet)
        try:
            codes = asyncio.run(interrupts.stoppable(_convert_all(settings, request, tasks, shown, readers)))
        finally:
            shown.close()
        if places == [None] and request.spool.exists():
            _to_stdout(request.spool)
        return _worst(codes)


def _chunking(args: argparse.Namespace) -> ChunkOptions:
    """Raises CommandUsageError where the sizes are out of range, or there are sizes but no chunks."""
    given = {"max_tokens": args.max_tokens, "overlap": args.overlap}
    chosen = {name: value for name, value in given.items() if value is not None}
    if chosen and args.format not in ("chunks", "parquet"):
        raise CommandUsageError("--max-tokens and --overlap go with --format chunks or parquet.")
    try:
        if args.format == "parquet":
            check_parquet()
        return ChunkOptions(**chosen)
    except RequestError as error:
        raise CommandUsageError(error.public) from error


def _included(args: argparse.Namespace) -> IncludedDetails:
    """Raises CommandUsageError for an unknown name, or another format than JSON."""
    try:
        chosen = IncludedDetails.parse(args.include)
    except RequestError as error:
        raise CommandUsageError(error.public) from error
    if chosen and args.format != "json":
        raise CommandUsageError("--include goes with --format json.")
    return chosen


def _output(args: argparse.Namespace) -> OutputOptions:
    """Raises CommandUsageError where there are options of Markdown but another format."""
    try:
        chosen = OutputOptions(
            args.page_break,
            args.front_matter,
            TableForm(args.tables or TableForm.MARKDOWN),
            HeaderForm(args.headers or HeaderForm.DROP),
            FigureForm(args.figures or FigureForm.NONE),
            args.join_tables,
        )
    except RequestError as error:
        raise CommandUsageError(error.public) from error
    if args.format == "zip" and args.figures:
        raise CommandUsageError("--figures goes with --format md: a zip always has the figures as files.")
    if not chosen.is_default and args.format not in ("md", "zip"):
        raise CommandUsageError(
            "--page-break, --front-matter, --tables, --headers, --figures and --join-tables go with --format md "
            "(a zip has them too)."
        )
    return chosen


def _check_stdout(wanted: str, output: OutputOptions, places: list[Path | None]) -> None:
    """Raises CommandUsageError where the result can't go to standard output."""
    if None not in places:
        return
    if output.figures is FigureForm.FILES and wanted == "md":
        raise CommandUsageError("--figures files writes files beside the result: add -o FILE.")
    if wanted in _BINARY and sys.stdout.isatty():
        raise CommandUsageError(f"A {_BINARY[wanted]} is not written to a terminal: add -o FILE.")


def own_settings(work_dir: Path, buckets: str) -> Settings:
    """The user's settings, but with planes of our own: a running service is neither needed nor disturbed."""
    own = {
        "DATA_DIR": str(work_dir),
        "REDIS_URL": "",
        "OBJECT_STORE": "",
        "SHUTDOWN_TIMEOUT": "0s",  # unfinished work of a private data directory is never resumed
    }
    if buckets:
        own["S3_ALLOWED_BUCKETS"] = buckets
    settings = load(os.environ, own)
    if "DOCUMENT_PROCESSING_TIMEOUT" in settings.origins:
        return settings
    # A deadline protects a service from its callers; here the caller sits in front of it and has Ctrl-C.
    return load(os.environ, own | {"DOCUMENT_PROCESSING_TIMEOUT": _NO_DEADLINE})


@contextmanager
def private_folder(asked: str | None) -> Iterator[Path]:
    """The folder to work in: one that was asked for stays, a private one goes whatever happens."""
    if asked is not None:
        path = Path(asked).absolute()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield path
        return
    with ExitStack() as made:
        with interrupts.held():
            private = tempfile.TemporaryDirectory(prefix="quire-convert-", ignore_cleanup_errors=True)
            folder = made.enter_context(private)
        yield Path(folder)


def read_password(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        text = sys.stdin.readline() if file == STDIN else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandUsageError(f"The password file {file} can't be read: {why}.") from error
    password = text.splitlines()[0] if text else ""
    if not password:
        raise CommandUsageError(f"The password file {file} is empty.")
    return password


async def _convert_all(
    settings: Settings, request: _Request, tasks: list[_Task], shown: Progress, readers: ServerProcess
) -> list[int]:
    async with runtime(settings, owner="quire convert", kinds=list(UnitKind), readers=readers) as running:
        engine = running.engine
        try:
            engine.intake.check(request.submission())
        except RequestError as error:
            raise CommandUsageError(error.public) from error
        room = asyncio.Semaphore(_IN_FLIGHT)

        async def one(task: _Task) -> int:
            async with room:
                return await _convert_one(engine, request, task, shown)

        async with asyncio.TaskGroup() as group:
            running_tasks = [group.create_task(one(task), name=f"convert-{task.place}") for task in tasks]
        return [task.result() for task in running_tasks]


async def _convert_one(engine: Engine, request: _Request, task: _Task, shown: Progress) -> int:
    """Converts one document and writes its result; what is wrong with it is said, not raised."""
    name = task.source.name
    try:
        job = await _finished_job(engine, request, task, shown)
        if job.status is not JobStatus.COMPLETED:
            raise failure(job)
        records = await engine.pages(job)
        with ConvertResult(task.target or request.spool) as out:
            async for piece in _written(engine, request, job, task.target):
                out.write(piece)
        problems: list[str] = []
        if task.target is not None:
            problems = await write_attachments(
                engine,
                job,
                task.target,
                SUFFIXES[request.format],
                lambda found, target: _written(engine, request, found, target),
            )
    except QuireError as error:
        shown.finish(task.place, f"quire: {name}: {error.public}", failed=True)
        return exit_codes.FAILED
    except OSError as error:
        place = "" if error.filename in (None, name) else f"{error.filename}: "
        shown.finish(task.place, f"quire: {name}: {place}{error.strerror or error}.", failed=True)
        return exit_codes.FAILED
    lines = (*summary_lines(name, job, records), *(f"quire: {name}: {problem}" for problem in problems))
    shown.finish(task.place, *lines)
    return exit_codes.PARTIAL if job.pages_failed or problems else exit_codes.OK


def _written(engine: Engine, request: _Request, job: MainJob, target: Path | None) -> AsyncIterator[bytes]:
    """The result as it is written to `target`."""
    if request.format == "zip":
        return _zipped(engine, job, request.output)
    if not request.output.is_default:
        return relinked(_with_options(engine, job, request.output, target), job, target)
    pieces = content(engine, job, request.format, request.chunking, request.included)
    return relinked(pieces, job, target) if request.format == "md" else pieces


async def _with_options(
    engine: Engine, job: MainJob, output: OutputOptions, target: Path | None
) -> AsyncIterator[bytes]:
    """Markdown with options. Figures as files are written to `NAME.figures` beside the target."""
    folder = (target or Path(job.id)).with_name(f"{(target or Path(job.id)).stem}.figures")

    def save(name: str, picture: bytes) -> None:
        with ConvertResult(folder / f"{name}.png") as out:
            out.write(picture)

    place = f"{quote(folder.name)}/{{id}}.png"
    async for piece in engine.markdown(job, output, place, save).pieces(await engine.elements(job)):
        yield piece
    yield b"\n"


async def _zipped(engine: Engine, job: MainJob, output: OutputOptions) -> AsyncIterator[bytes]:
    from quire.api.jobs.written_results import zip_document  # loads the web framework

    pieces = zip_document(
        *(engine, job, await engine.elements(job)),
        title=Path(job.filename or job.id).stem,
        options=output,
        metadata=(job.result or {}).get("metadata", {}),
    )
    async for piece in pieces:
        yield piece


async def _finished_job(engine: Engine, request: _Request, task: _Task, shown: Progress) -> MainJob:
    source = task.source
    shown.update(task.place, source.name, 0, 0)
    if source.path is not None:
        check_readable(source.path)
        accepted = await engine.intake.accept_path(request.submission(source), source.path)
    else:
        accepted = await engine.intake.accept_source(request.submission(source))
    job = await engine.job(_TEAM, accepted.job_id)
    total = 0
    async for event in engine.events(job, ""):
        if event is not None:
            total = event.data.get("total_pages") or total
            done = (event.data.get("pages_completed") or 0) + (event.data.get("pages_failed") or 0)
            shown.update(task.place, source.name, done, total)
    return await engine.job(_TEAM, accepted.job_id)


def failure(job: MainJob) -> QuireError:
    """Why the document failed, with what a user of the command line can do where that differs."""
    error = job.error or {}
    advice = " (--password-file FILE)" if error.get("code") in _PASSWORD_CODES else ""
    return QuireError(f"{error.get('error') or f'The job is {job.status.value}.'}{advice}")


def check_readable(path: Path) -> None:
    """Raises OSError as opening the file would, before any work starts."""
    with path.open("rb"):
        pass


async def content(
    engine: Engine,
    job: MainJob,
    wanted: str,
    chunking: ChunkOptions | None = None,
    included: IncludedDetails | None = None,
) -> AsyncIterator[bytes]:
    """The result in the form that was asked for; a text ends with a newline."""
    if wanted in _FROM_ELEMENTS:
        async for piece in await _from_elements(engine, job, wanted, chunking or ChunkOptions()):
            yield piece
        if wanted == "docling":
            yield b"\n"
        return
    if wanted == "pdf":
        async with aclosing(engine.searchable(job).pieces(await engine.elements(job))) as written:
            async for piece in written:
                yield piece
        return
    pieces = engine.text(await engine.result(job))
    if wanted == "md":
        last = b""
        async for piece in pieces:
            last = piece or last
            yield piece
        if not last.endswith(b"\n"):
            yield b"\n"
        return
    markdown = b"".join([piece async for piece in pieces]).decode("utf-8", "replace")
    if wanted == "text":
        yield plain_text(markdown).encode()
        return
    found = await _json_result(engine, job, markdown, included or IncludedDetails())
    yield json.dumps(found, ensure_ascii=False, indent=2).encode() + b"\n"


async def _json_result(
    engine: Engine, job: MainJob, markdown: str, included: IncludedDetails
) -> dict[str, Any]:
    elements = await engine.elements(job)
    details = await engine.details(job, included.of_file, elements) if included.of_file else None
    return {
        "job_id": job.id,
        "type": "main",
        "schema_version": SCHEMA_VERSION,
        "result": {"markdown": markdown, "metadata": (job.result or {}).get("metadata", {})},
        **({"details": details} if details is not None else {}),
        "pages": [
            document_page_json(one.page, included, note=one.note) | page_view(job.id, one.record)
            async for run in elements.runs()
            for one in run
        ],
    }


async def _from_elements(
    engine: Engine, job: MainJob, wanted: str, chunking: ChunkOptions
) -> AsyncIterator[bytes]:
    """One of the formats that are written from the elements, piece by piece."""
    if wanted == "zip":
        return _zipped(engine, job, OutputOptions())
    elements = await engine.elements(job)
    if wanted == "chunks":
        return chunks_lines(elements, chunking)
    if wanted == "parquet":
        return chunks_parquet({"job_id": job.id, "filename": job.filename or None}, elements, chunking)
    if wanted == "docling":
        return docling_document(job, elements)
    return html_document(Path(job.filename or job.id).stem, elements)


def _to_stdout(spool: Path) -> None:
    """Copies the result out, after everything else has ended: a reader may take its time over it."""
    with spool.open("rb") as file:
        if sys.stdout.isatty():
            for line in file:
                print(_harmless(line.decode("utf-8", "replace")), end="")
            return
        out: BinaryIO = sys.stdout.buffer
        shutil.copyfileobj(file, out, _PIECE_BYTES)
        out.flush()


def _harmless(line: str) -> str:
    """Document text on a terminal: what the terminal would obey is made visible instead."""
    return "".join(c if c in "\n\t" else printable(c) for c in line) if not line.isprintable() else line


def _worst(codes: list[int]) -> int:
    for code in (exit_codes.FAILED, exit_codes.PARTIAL):
        if code in codes:
            return code
    return exit_codes.OK
