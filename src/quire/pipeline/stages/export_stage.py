"""The export unit: delivers a completed job's text to the destination that its caller asked for.

It is a unit like any other: the step that completes the job also stores the unit, another worker takes it over when
its worker dies, it is retried with backoff, and after the last attempt it becomes a dead letter."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from quire.coordination.ghost_records import Served
from quire.coordination.job_records import Claim
from quire.domain.delivery import Delivery, DeliveryOutcome, Destination
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
    """Delivers, and records the outcome. Raises ObjectsError (retried) or LinkRefusedError (final)."""
    job = claim.job
    delivery = Delivery.from_dict(job.export or {})
    outcome = await _deliver(job, delivery, parts)
    claim.outcome_write.begun = True
    kept = await parts.jobs.ghost.exported(job.id, claim.hint.epoch, outcome.as_dict())
    if kept and job.epoch == 1 and delivery.destination is not Destination.PREFIX:
        await parts.jobs.ghost.add_served(_served(job, delivery))


async def export_failed(claim: Claim, parts: Parts, error: QuireError) -> None:
    """Records on the job that the delivery was given up; the result stays available from the service."""
    claim.outcome_write.begun = True
    outcome = DeliveryOutcome(error=error.as_dict())
    await parts.jobs.ghost.exported(claim.job.id, claim.hint.epoch, outcome.as_dict())


async def _deliver(job: MainJob, delivery: Delivery, parts: Parts) -> DeliveryOutcome:
    # The address is checked again, as before a download: the lists may have changed since the job was accepted.
    buckets = buckets_of(parts)
    if delivery.destination is Destination.PREFIX:
        address = prefix_of(parts, delivery.result_to).below(job.id, result_name(job))
        markdown = parts.objects.stream((job.result or {})["key"])
        size = await buckets.put(address, markdown, timeout_s=_UPLOAD_TIMEOUT_S, media_type="text/markdown")
        return DeliveryOutcome(url=str(address), size_bytes=size)
    if delivery.destination is Destination.BUCKET:
        # A bucket that callers may read from may also be written to.
        address = buckets.check(delivery.file_path).beside(RESULT_ENDING)
        size = await buckets.put(address, aggregated(parts.objects, job), timeout_s=_UPLOAD_TIMEOUT_S)
        return DeliveryOutcome(url=str(address), size_bytes=size)
    path = local_result(parts, job.id)
    size = await _write(path, aggregated(parts.objects, job))
    return DeliveryOutcome(path=str(path), size_bytes=size)


async def aggregated(objects: ObjectStore, job: MainJob) -> AsyncIterator[bytes]:
    """Yields the text of a completed job page by page: `=== Page N ===`, its text, a blank line, the next heading."""
    result = job.result or {}
    records = unpack_pages(await objects.get(result["pages_key"]))
    ranges = _RangeReader(objects.stream(result["key"]))
    before = ""
    for number in sorted(records):
        record = records[number]
        text = await ranges.take(record.offset, record.length)
        yield f"{before}=== Page {number} ===\n".encode() + text.strip(b"\r\n")
        before = "\n\n"


def prefix_of(parts: Parts, result_to: str) -> Address:
    """Returns the folder that `result_to` names. Raises LinkRefusedError unless the operator allows it."""
    return buckets_of(parts).check_prefix(result_to, parts.settings.aws.result_places)


def result_name(job: MainJob) -> str:
    """Returns the file name of a result under its prefix: the document's name with the ending `.md`."""
    return f"{Path(safe_filename(job.filename or 'document')).stem}.md"


def local_result(parts: Parts, job_id: str) -> Path:
    """Returns the path of Destination.LOCAL."""
    return parts.settings.general.data_dir.absolute() / "results" / f"{job_id}.txt"


async def forget_local_result(parts: Parts, job_id: str) -> None:
    """Deletes the local result of an expired job, if this machine has it. Raises ObjectsError."""
    path = local_result(parts, job_id)
    try:
        await in_thread(path.unlink, missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


class _RangeReader:
    """Reads consecutive byte ranges from a stream and holds at most one of them in memory."""

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
            # The bytes before the range are a separator and are dropped.
            passed = min(max(offset - self._at, 0), len(self._held))
            del self._held[:passed]
            self._at += passed
        start = offset - self._at
        found = bytes(self._held[start : start + length])
        del self._held[: start + length]
        self._at += start + length
        return found


async def _write(path: Path, text: AsyncIterator[bytes]) -> int:
    """Writes a file atomically and durably (fsync, then rename); returns its size. Raises ObjectsError."""
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


def _served(job: MainJob, delivery: Delivery) -> Served:
    started = job.started_at or job.created_at
    return Served(
        waited_s=max(started - job.created_at, 0.0),
        ahead=int(delivery.details.get("ahead", 0)),
        service_s=max((job.completed_at or started) - started, 0.0),
        pages=job.total_pages,
    )
