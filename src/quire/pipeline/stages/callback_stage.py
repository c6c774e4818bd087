"""Callback: posts a signed message to the caller when a job ends; the worker retries it until it is delivered."""

from __future__ import annotations

import json

from quire.coordination.job_records import Claim
from quire.links import post_json, sign
from quire.pipeline.parts import Parts
from quire.pipeline.stages.download_stage import link_policy

SIGNATURE_HEADER = "X-Quire-Signature"


async def run_callback(claim: Claim, parts: Parts) -> None:
    """Raises LinkRefusedError (final) or DownloadError (worth another try)."""
    job = claim.job
    url = parts.sealer.unseal(job.id, job.sealed).callback_url
    if url:
        body = json.dumps(
            {
                "job_id": job.id,
                "status": job.status.value,
                "total_pages": job.total_pages,
                "pages_completed": job.pages_completed,
                "pages_failed": job.pages_failed,
                "error": job.error,
                "result_url": f"/jobs/{job.id}/result",
                "completed_at": job.completed_at,
            }
        ).encode()
        headers = {"Content-Type": "application/json", "X-Quire-Delivery": f"{job.id}-{job.epoch}"}
        secret = parts.settings.callbacks.secret
        if secret:
            headers[SIGNATURE_HEADER] = sign(body, secret, int(parts.clock.now()))
        await post_json(url, body, headers, link_policy(parts))
    await parts.jobs.drop_unit(claim)
