"""Split: opens the document, counts its pages, selects the wanted ones, issues the first units."""

from __future__ import annotations

import json

from quire.coordination.connection import Arg
from quire.coordination.job_records import Claim
from quire.domain.page_ranges import PageRanges
from quire.errors import TooManyPagesError
from quire.pipeline.intake.attachment_jobs import Attachments
from quire.pipeline.local_readers import local_reader
from quire.pipeline.object_keys import local_document
from quire.pipeline.page_reuse import plan_reuse, reading_identity
from quire.pipeline.parts import Parts
from quire.reading.files.document_source import sha256_of


async def run_split(claim: Claim, parts: Parts) -> None:
    """Raises a DocumentError, whose text the user sees, for what can't be opened."""
    job = claim.job
    password = parts.sealer.unseal(job.id, job.sealed).password
    async with local_document(parts.objects, job.content_ref or "") as path:
        info = await local_reader(claim, parts, str(path), password).inspect()
        # A file that is read in place was not hashed at upload; the cache of AI answers needs the hash.
        sha256 = job.sha256 or (await _hash(parts, str(path)) if parts.ai is not None else "")
        identity = reading_identity(parts, job)
        if not info.encrypted:
            await plan_reuse(parts, job, str(path), info.mime, identity)
        attachments = await Attachments(claim, parts, str(path), info.attachments).create()
    limit = parts.settings.limits.max_pages
    ranges = PageRanges.parse(job.options.pages).clip(info.page_count)
    if len(ranges) > limit:
        raise TooManyPagesError(
            f"The document has {len(ranges)} pages, more than the {limit} allowed (MAX_PAGES). "
            "Ask for some of them with `pages`."
        )
    found: dict[str, Arg] = {
        "ranges": str(ranges),
        "mime": info.mime,
        "sha256": sha256,
        "info": json.dumps(
            {
                "page_count": info.page_count,
                "encrypted": info.encrypted,
                "title": info.title,
                "author": info.author,
                "reading": identity,
                **({"attachments": attachments} if attachments else {}),
            }
        ),
    }
    reading = parts.settings.reading
    chunk = chunk_size(len(ranges), reading.chunk_pages, parts.reader_processes)
    window = max(parts.settings.jobs.pages_in_queue_per_document, chunk)
    await parts.jobs.split_done(claim, len(ranges), chunk, window, found)


async def _hash(parts: Parts, path: str) -> str:
    return await parts.pool.run(sha256_of, path, timeout_s=parts.settings.reading.page_timeout_s * 3)


def chunk_size(total: int, most: int, processes: int) -> int:
    """Full chunks for long documents; short ones are spread over all reader processes."""
    return max(1, min(most, -(-total // max(processes, 1))))
