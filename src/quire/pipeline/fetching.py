"""Download: bring a linked document into the object plane, hashed on the way."""

from __future__ import annotations

from quire.errors import LinkRefusedError
from quire.links import LinkPolicy, download
from quire.pipeline.documents import original_key
from quire.pipeline.parts import Parts
from quire.queue.jobs import Claim


async def run_download(claim: Claim, parts: Parts) -> None:
    """Raises LinkRefusedError, TooLargeError or DownloadError with a text for the user."""
    job = claim.job
    url = parts.sealer.unseal(job.id, job.sealed).source_url
    if not url:
        raise LinkRefusedError("The job has no link to fetch.")
    policy = link_policy(parts)
    key = original_key(job.id)
    async with parts.objects.writer(key) as out:
        found = await download(url, out.write, policy)
    await parts.jobs.fetched(
        claim,
        {
            "content_ref": key,
            "sha256": out.sha256,
            "size": out.size,
            "filename": job.filename or found.filename,
        },
    )


def link_policy(parts: Parts) -> LinkPolicy:
    downloads = parts.settings.downloads
    return LinkPolicy(
        allow_private=downloads.allow_private_urls,
        max_redirects=downloads.max_redirects,
        timeout_s=downloads.timeout_s,
        max_bytes=parts.settings.limits.max_upload_bytes,
    )
