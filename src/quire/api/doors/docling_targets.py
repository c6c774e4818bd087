"""The targets of docling-serve to which results are delivered: `put` (a link) and `s3` (a bucket of the caller's)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse

from quire.api.doors.docling_options import OptionError
from quire.domain.batch_target import BatchTarget, BucketTarget, PutTarget
from quire.domain.job import JobStatus, MainJob
from quire.links import LinkPolicy, check_url

DELIVERED = ("put", "s3")
_ENDPOINT = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9a-fA-F:.]+\](:[0-9]{1,5})?")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_LONGEST_PREFIX = 512


def read_target(body: Mapping[str, Any], policy: LinkPolicy) -> BatchTarget | None:
    """The target of a JSON body if results are to be delivered. Raises OptionError, or LinkRefusedError."""
    found = body.get("target")
    if not isinstance(found, dict) or found.get("kind") not in DELIVERED:
        return None
    return _put(found, policy) if found["kind"] == "put" else _bucket(found, policy)


def counts_answer(jobs: Mapping[str, MainJob], total: int) -> Response:
    """What is answered when the results are where they should be: only how many there are."""
    done = [job for job in jobs.values() if job.status is JobStatus.COMPLETED]
    partial = sum(bool(job.pages_failed) for job in done)
    took = sum((job.completed_at or 0) - (job.started_at or 0) for job in done)
    return JSONResponse(
        {
            "processing_time": round(max(0.0, took), 3),
            "num_converted": total,
            "num_succeeded": len(done) - partial,
            "num_partially_succeeded": partial,
            "num_failed": total - len(done),
        }
    )


def _put(found: Mapping[str, Any], policy: LinkPolicy) -> PutTarget:
    url = _text(found, "url")
    check_url(url, policy)
    return PutTarget(url)


def _bucket(found: Mapping[str, Any], policy: LinkPolicy) -> BucketTarget:
    host = _text(found, "endpoint").strip()
    if not _ENDPOINT.fullmatch(host):
        raise OptionError("target.endpoint", "a host without protocol, such as s3.example.org")
    if not isinstance(found.get("verify_ssl", True), bool):
        raise OptionError("target.verify_ssl", "true or false")
    endpoint = f"{'https' if found.get('verify_ssl', True) else 'http'}://{host}"
    check_url(f"{endpoint}/", policy)
    bucket, prefix = _text(found, "bucket"), _text(found, "key_prefix", needed=False)
    if not _BUCKET.fullmatch(bucket):
        raise OptionError("target.bucket", "the name of a bucket")
    if len(prefix) > _LONGEST_PREFIX or not prefix.isprintable() or {"..", "."} & set(prefix.split("/")):
        raise OptionError("target.key_prefix", f"a prefix of keys, up to {_LONGEST_PREFIX} characters")
    return BucketTarget(
        endpoint,
        bucket,
        prefix.lstrip("/"),
        _text(found, "region", needed=False),
        _text(found, "access_key"),  # the service's own credentials are not lent to callers
        _text(found, "secret_key"),
    )


def _text(found: Mapping[str, Any], name: str, *, needed: bool = True) -> str:
    value = found.get(name)
    if value in (None, "") and not needed:
        return ""
    if not isinstance(value, str) or not value or len(value) > 8_192:
        raise OptionError(f"target.{name}", "a text")
    return value
