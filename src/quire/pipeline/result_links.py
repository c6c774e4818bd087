"""Signed links to results, for callers that have no API key."""

from __future__ import annotations

from quire.domain.delivery import Destination, GhostRequest
from quire.domain.job import MainJob
from quire.objects.buckets import Address
from quire.pipeline.engine import Text
from quire.pipeline.parts import Parts
from quire.pipeline.stages.download_stage import buckets_of


async def signed_result(parts: Parts, job: MainJob, text: Text, for_s: float) -> str | None:
    """A signed link to a job's Markdown: in our own store, or where `result_to` has put it.

    None if neither can be signed: a directory signs nothing. Raises ObjectsError.
    """
    signed = await parts.objects.link(text.key, for_s)
    delivered = job.delivery.get("s3_url")
    if signed is not None or delivered is None or job.export is None:
        return signed
    if GhostRequest.from_dict(job.export).destination is not Destination.PREFIX:
        return None  # the text next to its original follows GhostServer's format, not ours
    return await buckets_of(parts).link(Address.parse(delivered), for_s)
