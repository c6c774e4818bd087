"""Download: bring a linked document into the object plane, hashed on the way."""

from __future__ import annotations

from quire.errors import LinkRefusedError
from quire.links import LinkPolicy, download, safe_filename
from quire.objects.buckets import Buckets, in_bucket
from quire.objects.store import ObjectWriter
from quire.pipeline.documents import original_key
from quire.pipeline.parts import Parts
from quire.queue.jobs import Claim


async def run_download(claim: Claim, parts: Parts) -> None:
    """Raises LinkRefusedError, TooLargeError or DownloadError with a text for the user."""
    job = claim.job
    url = parts.sealer.unseal(job.id, job.sealed).source_url
    if not url:
        raise LinkRefusedError("The job has no link to fetch.")
    key = original_key(job.id)
    async with parts.objects.writer(key) as out:
        filename = await _fetch(url, out, parts)
    await parts.jobs.fetched(
        claim,
        {
            "content_ref": key,
            "sha256": out.sha256,
            "size": out.size,
            "filename": job.filename or filename,
        },
    )


async def _fetch(url: str, out: ObjectWriter, parts: Parts) -> str:
    """Streams the document in and answers its name."""
    policy = link_policy(parts)
    if not in_bucket(url):
        return (await download(url, out.write, policy)).filename
    buckets = buckets_of(parts)
    # Judged again: the list may have been changed since the job was accepted.
    address = buckets.check(url)
    await buckets.fetch(address, out.write, max_bytes=policy.max_bytes, timeout_s=policy.timeout_s)
    return safe_filename(address.name)


def link_policy(parts: Parts) -> LinkPolicy:
    downloads = parts.settings.downloads
    return LinkPolicy(
        allow_private=downloads.allow_private_urls,
        max_redirects=downloads.max_redirects,
        timeout_s=downloads.timeout_s,
        max_bytes=parts.settings.limits.max_upload_bytes,
    )


def buckets_of(parts: Parts) -> Buckets:
    settings = parts.settings
    return Buckets(settings.aws.places, settings.objects_location, settings.aws.credentials())
