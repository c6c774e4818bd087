"""Export: a job's text, put where its caller looks for it once the job is done.

A GhostServer job's goes next to its original or into a file; that of a job with `result_to` under that prefix.

It is a unit like any other: kept with the job in the same step that completes it, taken over when its worker
dies, tried again with growing waits, and given up into the dead letters."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from quire.coordination.ghost_records import Served
from quire.coordination.job_records import Claim
from quire.domain.delivery import Destination, GhostRequest
from quire.domain.job import MainJob
from quire.errors import ObjectsError, QuireError
from quire.links import safe_filename
from quire.objects.buckets import Address
from quire.objects.object_store import ObjectStore, in_thread
from quire.pipeline.parts import Parts
from quire.pipeline.stages.download_stage import buckets_of
from quire.pipeline.stages.merge_stage import unpack_pages

RESULT_ENDING = ".result.txt"
_UPLOAD_TIMEOUT_S = 120.0
_WRITTEN_AT_ONCE = 1 << 20


async def run_export(claim: Claim, parts: Parts) -> None:
    """Raises ObjectsError (worth another try unless it says otherwise) or LinkRefusedError (final)."""
    job = claim.job
    request = GhostRequest.from_dict(job.export or {})
    outcome: dict[str, Any]
    # Judged again, as before the download: the lists may have been changed since the job was accepted.
    buckets = buckets_of(parts)
    if request.destination is Destination.PREFIX:
        address = prefix_of(parts, request.result_to).below(job.id, result_name(job))
        markdown = parts.objects.stream((job.result or {})["key"])
        size = await buckets.put(address, markdown, timeout_s=_UPLOAD_TIMEOUT_S, media_type="text/markdown")
        outcome = {"s3_url": str(address), "text_len": size}
    elif request.destination is Destination.BUCKET:
        # What may be read from may be written to.
        address = buckets.check(request.file_path).beside(RESULT_ENDING)
        size = await buckets.put(address, aggregated(parts.objects, job), timeout_s=_UPLOAD_TIMEOUT_S)
        outcome = {"s3_url": str(address), "text_len": size}
    else:
        path = local_result(parts, job.id)
        size = await _write(path, aggregated(parts.objects, job))
        outcome = {"local_path": str(path), "text_len": size}
    claim.settlement.begun = True
    kept = await parts.jobs.ghost.exported(job.id, claim.hint.epoch, outcome)
    if kept and job.epoch == 1 and request.destination is not Destination.PREFIX:
        await parts.jobs.ghost.add_served(_served(job, request))


async def export_failed(claim: Claim, parts: Parts, error: QuireError) -> None:
    """Nobody will try again: the job says so, and its result can still be had from the service."""
    claim.settlement.begun = True
    await parts.jobs.ghost.exported(claim.job.id, claim.hint.epoch, {"error": error.as_dict()})


async def aggregated(objects: ObjectStore, job: MainJob) -> AsyncIterator[bytes]:
    """The text of a completed job page by page: `=== Page N ===`, its text, a blank line, the next heading."""
    result = job.result or {}
    records = unpack_pages(await objects.get(result["pages_key"]))
    cut = _Cut(objects.stream(result["key"]))
    before = ""
    for number in sorted(records):
        record = records[number]
        text = await cut.take(record.offset, record.length)
        yield f"{before}=== Page {number} ===\n".encode() + text.strip(b"\r\n")
        before = "\n\n"


def prefix_of(parts: Parts, result_to: str) -> Address:
    """The folder that `result_to` names. Raises LinkRefusedError unless results may be put there."""
    return buckets_of(parts).check_prefix(result_to, parts.settings.aws.result_places)


def result_name(job: MainJob) -> str:
    """What the result is called under its prefix: as the document, with another ending."""
    return f"{Path(safe_filename(job.filename or 'document')).stem}.md"


def local_result(parts: Parts, job_id: str) -> Path:
    return parts.settings.general.data_dir.absolute() / "results" / f"{job_id}.txt"


async def forget_local_result(parts: Parts, job_id: str) -> None:
    """Removes the file of a job whose time is up, if this machine has it."""
    path = local_result(parts, job_id)
    try:
        await in_thread(path.unlink, missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


class _Cut:
    """Takes stretches that follow each other out of a stream, holding no more than one of them."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._at = 0
        self._held = bytearray()

    async def take(self, offset: int, length: int) -> bytes:
        while self._at + len(self._held) < offset + length:
            piece = await anext(self._stream, None)
            if piece is None:
                break
            self._held += piece
            # What lies before the stretch is a separator: not worth holding.
            passed = min(max(offset - self._at, 0), len(self._held))
            del self._held[:passed]
            self._at += passed
        start = offset - self._at
        found = bytes(self._held[start : start + length])
        del self._held[: start + length]
        self._at += start + length
        return found


async def _write(path: Path, text: AsyncIterator[bytes]) -> int:
    """Writes a file that is seen whole or not at all and outlives a power cut; answers its size."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    size = 0
    try:
        await in_thread(path.parent.mkdir, parents=True, exist_ok=True)
        file = await in_thread(fresh.open, "wb")
        try:
            block = bytearray()
            async for piece in text:
                size += len(piece)
                block += piece
                if len(block) >= _WRITTEN_AT_ONCE:
                    await in_thread(file.write, bytes(block))
                    block.clear()
            await in_thread(file.write, bytes(block))
            await in_thread(file.flush)
            await in_thread(os.fsync, file.fileno())
        finally:
            await in_thread(file.close)
        await in_thread(fresh.replace, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        await in_thread(fresh.unlink, missing_ok=True)
    return size


def _unwritable(path: Path, error: OSError) -> ObjectsError:
    return ObjectsError(f"The folder {path.parent} can't be used: {error.strerror or type(error).__name__}.")


def _served(job: MainJob, request: GhostRequest) -> Served:
    started = job.started_at or job.created_at
    return Served(
        waited_s=max(started - job.created_at, 0.0),
        ahead=request.ahead,
        service_s=max((job.completed_at or started) - started, 0.0),
        pages=job.total_pages,
    )
