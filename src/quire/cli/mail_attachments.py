"""Attachments of converted mails: each beside its mail, in `NAME.attachments/`, and theirs beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import quote

from quire.cli.convert_sources import ConvertResult
from quire.cli.exit_codes import printable
from quire.domain.job import JobStatus, MainJob
from quire.pipeline.engine import Engine

_WAIT_S = 3600.0
_LINK = b"](attachments/"

Content = Callable[[MainJob, Path], AsyncIterator[bytes]]


def folder_of(target: Path) -> Path:
    return target.with_name(f"{target.stem}.attachments")


async def relinked(pieces: AsyncIterator[bytes], job: MainJob, target: Path | None) -> AsyncIterator[bytes]:
    """A mail's Markdown whose links lead to where its attachments are written; other documents as they are."""
    if target is None or not job.info.get("attachments"):
        async for piece in pieces:
            yield piece
        return
    text = b"".join([piece async for piece in pieces])
    yield text.replace(_LINK, f"]({quote(folder_of(target).name)}/".encode())


async def write_attachments(
    engine: Engine, job: MainJob, target: Path, suffix: str, content: Content
) -> list[str]:
    """Waits for the attachments of a mail and writes their results; a line for each that could not be converted."""
    problems: list[str] = []
    for entry in job.info.get("attachments", ()):
        name = str(entry["name"])
        if not entry.get("job_id"):
            if entry.get("error"):
                problems.append(f"attachment {printable(name)}: {entry['error']}")
            continue
        while not (found := await engine.wait(job.team, entry["job_id"], _WAIT_S)).status.terminal:
            pass  # it takes its time; written off, it would be lost with the mail done
        if found.status is not JobStatus.COMPLETED:
            why = (found.error or {}).get("error") or f"The job is {found.status.value}."
            problems.append(f"attachment {printable(name)}: {why}")
            continue
        path = folder_of(target) / f"{name}{suffix}"
        with ConvertResult(path) as out:
            async for piece in content(found, path):
                out.write(piece)
        problems += await write_attachments(engine, found, path, suffix, content)
    return problems
