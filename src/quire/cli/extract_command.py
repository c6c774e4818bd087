"""`quire extract`: values by a JSON Schema from one document, converted and asked about in this process."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from quire.bootstrap import runtime
from quire.cli import exit_codes, interrupts
from quire.cli.convert_command import check_readable, failure, own_settings, private_folder, read_password
from quire.cli.convert_sources import STDIN, ConvertSource, all_sources, named_buckets
from quire.cli.exit_codes import CommandUsageError
from quire.cli.startup import errors_only, everything
from quire.domain.job import JobOptions, JobSecrets, JobStatus, MainJob, Mode, UnitKind
from quire.domain.page_ranges import PageRanges
from quire.errors import QuireError, RequestError
from quire.pipeline.engine import Engine
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.extraction.extraction_run import Extraction, NoModelError
from quire.pipeline.intake.upload_intake import Submission
from quire.settings import Settings

_TEAM = "cli"
_CHECK_S = 60.0


def run(args: argparse.Namespace) -> int:
    """Writes the result as JSON. Raises CommandUsageError before any work starts."""
    everything() if args.debug else errors_only()
    if args.source == STDIN:
        raise CommandUsageError("quire extract reads a file or a link, not standard input.")
    wanted = _wanted(args)
    with interrupts.as_keyboard_interrupt(), private_folder(args.data_dir) as folder:
        sources = all_sources([args.source], folder)
        if len(sources) != 1:
            raise CommandUsageError("quire extract takes one document.")
        settings = own_settings(folder, named_buckets(sources))
        work = _extracted(settings, args, sources[0], wanted)
        found = asyncio.run(interrupts.stoppable(work))
    if isinstance(found, NoModelError):
        _write(args.output, found.found)
    if isinstance(found, QuireError | OSError):
        why = found.public if isinstance(found, QuireError) else f"{found.strerror or found}."
        print(f"quire: {args.source}: {why}", file=sys.stderr)
        return exit_codes.FAILED
    _write(args.output, found["values"] if args.values else found)
    return exit_codes.OK if found["complete"] and found["valid"] else exit_codes.PARTIAL


def _wanted(args: argparse.Namespace) -> ExtractionRequest:
    try:
        text = Path(args.schema).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandUsageError(f"The schema {args.schema} can't be read.") from error
    try:
        PageRanges.parse(args.pages)
        return ExtractionRequest.of(text, args.instructions, args.ungrounded)
    except RequestError as error:
        raise CommandUsageError(error.public) from error


async def _extracted(
    settings: Settings, args: argparse.Namespace, source: ConvertSource, wanted: ExtractionRequest
) -> dict[str, Any] | QuireError | OSError:
    """The result, or what is wrong with this document: that is no error of the runtime, which would wrap it."""
    async with runtime(settings, owner="quire extract", kinds=list(UnitKind)) as running:
        engine = running.engine
        extraction = Extraction(running.parts, engine)
        try:
            await extraction.check(wanted)
            job = await _converted(engine, args, source)
            if job.status is not JobStatus.COMPLETED:
                return failure(job)
            return await extraction.extract(job, wanted)
        except (QuireError, OSError) as error:
            return error


async def _converted(engine: Engine, args: argparse.Namespace, source: ConvertSource) -> MainJob:
    submission = Submission(
        _TEAM,
        options=JobOptions(mode=Mode(args.mode), pages=args.pages),
        secrets=JobSecrets(password=read_password(args.password_file), source_url=source.url),
        filename=source.filename if source.path else "",
    )
    engine.intake.check(submission)
    if source.path is not None:
        check_readable(source.path)
        accepted = await engine.intake.accept_path(submission, source.path)
    else:
        accepted = await engine.intake.accept_source(submission)
    while True:
        job = await engine.wait(_TEAM, accepted.job_id, _CHECK_S)
        if job.status.terminal:
            return job


def _write(output: str | None, found: Any) -> None:
    text = json.dumps(found, ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n"
    if output is None or output == "-":
        sys.stdout.buffer.write(text)
        return
    try:
        Path(output).write_bytes(text)
    except OSError as error:
        raise CommandUsageError(f"{output} can't be written: {error.strerror}.") from error
