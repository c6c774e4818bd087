"""Download: fetches a linked document into the object plane and hashes it.

The bytes are collected in a local file first: the next attempt on the same machine resumes an interrupted one where the
server allows it; on another machine it starts again.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from quire.clock import Clock
from quire.coordination.job_records import Claim
from quire.errors import LinkRefusedError
from quire.links import LinkPolicy, download, safe_filename
from quire.objects.buckets import Buckets, in_bucket
from quire.objects.cloud_clients import Clouds
from quire.objects.partial_downloads import Partial, remove_old_partials
from quire.pipeline.intake.direct_uploads import DirectUploads, is_direct_upload
from quire.pipeline.object_keys import original_key
from quire.pipeline.parts import Parts
from quire.settings import Settings

_REPORT_EVERY_S = 0.5
_PARTIAL_KEPT_S = 6 * 3600.0


async def run_download(claim: Claim, parts: Parts) -> None:
    """Raises LinkRefusedError, TooLargeError or DownloadError with a text for the user."""
    job = claim.job
    url = parts.sealer.unseal(job.id, job.sealed).source_url
    if not url:
        raise LinkRefusedError("The job has no link to fetch.")
    key = original_key(job.id, job.filename or urlsplit(url).path)
    if is_direct_upload(url):
        await _take_upload(claim, parts, url, key)
        return
    await forget_old_downloads(parts)
    partial = Partial(_downloads(parts), job.id, parts.sealer.fingerprint("download", url))
    async with partial, parts.objects.writer(key) as out:
        filename = await _fetch(url, partial, _ProgressReporter(claim, parts), parts)
        async for piece in partial.pieces():
            await out.write(piece)
    await parts.jobs.fetched(
        claim,
        {
            "content_ref": key,
            "sha256": out.sha256,
            "size": out.size,
            "filename": job.filename or filename,
        },
    )


async def _take_upload(claim: Claim, parts: Parts, url: str, key: str) -> None:
    upload, sha256 = await DirectUploads(parts).copy_to(key, claim.job.team, url)
    filename = claim.job.filename or upload.filename
    await parts.jobs.fetched(
        claim, {"content_ref": key, "sha256": sha256, "size": upload.size, "filename": filename}
    )


async def forget_old_downloads(parts: Parts) -> None:
    """Removes partial downloads on this machine that no attempt has resumed."""
    await remove_old_partials(_downloads(parts), parts.clock.now() - _PARTIAL_KEPT_S)


async def _fetch(url: str, partial: Partial, reporter: _ProgressReporter, parts: Parts) -> str:
    """Streams the document into the partial file and returns its name."""
    policy = link_policy(parts)
    if not in_bucket(url):
        done = await download(url, partial, policy, reporter.report)
        await reporter.report(done.size, done.size, last=True)
        return done.filename
    buckets = buckets_of(parts)
    # Checked again: the allowed buckets may have changed since the job was accepted.
    address = buckets.check(url)
    await buckets.fetch(
        address, partial, max_bytes=policy.max_bytes, timeout_s=policy.timeout_s, on_progress=reporter.report
    )
    await reporter.report(partial.size, partial.size, last=True)
    return safe_filename(address.name)


class _ProgressReporter:
    """Reports the progress of a download: at its start, at its end, and at intervals between."""

    def __init__(self, claim: Claim, parts: Parts) -> None:
        self._claim = claim
        self._fetches = parts.jobs.fetches
        self._clock: Clock = parts.clock
        self._reported_at: float | None = None

    async def report(self, done: int, total: int | None, *, last: bool = False) -> None:
        now = self._clock.monotonic()
        if not last and self._reported_at is not None and now - self._reported_at < _REPORT_EVERY_S:
            return
        self._reported_at = now
        claim = self._claim
        await self._fetches.progress(claim.job.id, claim.hint.epoch, claim.token, done, total)


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
    return Buckets(settings.aws.places, settings.objects_location, clouds_of(settings))


def clouds_of(settings: Settings) -> Clouds:
    """The credentials for every kind of bucket."""
    clouds = settings.clouds
    return Clouds(settings.aws.credentials(), clouds.google(), clouds.azure(), clouds.proxy_url)


def _downloads(parts: Parts) -> Path:
    return parts.settings.general.data_dir.absolute() / "downloads"
