"""Signed links to results, for callers that have no API key."""

from __future__ import annotations

from quire.domain.delivery import Delivery, Destination
from quire.domain.job import MainJob
from quire.objects.buckets import Address
from quire.pipeline.engine import Text
from quire.pipeline.parts import Parts
from quire.pipeline.stages.download_stage import buckets_of


async def signed_result(parts: Parts, job: MainJob, text: Text, for_s: float) -> str | None:
    """Returns a signed link to a job's Markdown: in our own store, or at the address that `result_to` named.

    Returns None if neither store can sign; a directory can't. Raises ObjectsError.
    """
    signed = await parts.objects.link(text.key, for_s)
    if signed is not None or job.export is None or job.delivery is None or job.delivery.url is None:
        return signed
    if Delivery.from_dict(job.export).destination is not Destination.PREFIX:
        return None  # the text next to an original is in GhostServer's format, not the Markdown
    return await buckets_of(parts).link(Address.parse(job.delivery.url), for_s)
