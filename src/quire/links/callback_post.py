"""Callbacks: the signed POST to a caller's link when a job has ended.

The signature proves to the receiver, who has the key, that the call is ours and when it was made.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

from quire.links.addresses import LinkPolicy, check_url
from quire.links.link_hops import Lookup, answer, check_status, deadline, system_lookup


def sign(body: bytes, secret: str, timestamp: int) -> str:
    """Returns the signature header of a callback: `t=<timestamp>,v1=<HMAC-SHA256 of "timestamp.body" in hex>`."""
    mac = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"t={timestamp},v1={mac.hexdigest()}"


def verify(body: bytes, secret: str, signature: str, now: float, tolerance_s: float = 300.0) -> bool:
    """Returns whether `sign` made this signature for this body, at most `tolerance_s` before or after `now`."""
    match = re.fullmatch(r"t=(\d{1,12}),v1=[0-9a-f]{64}", signature, re.ASCII)
    if match is None or abs(now - int(match[1])) > tolerance_s:
        return False
    return hmac.compare_digest(sign(body, secret, int(match[1])), signature)


async def post_json(
    url: str, body: bytes, headers: Mapping[str, str], policy: LinkPolicy, *, lookup: Lookup = system_lookup
) -> int:
    """Posts the body and returns the 2xx status. The response's body is not read.

    Raises LinkRefusedError, or DownloadError for a timeout, an error status or a redirect. Redirects are not
    followed: the caller should give the final address.
    """
    link = check_url(url, policy)
    sent = {"Content-Type": "application/json", **headers}
    async with deadline(policy), answer("POST", link, policy, lookup, headers=sent, body=body) as response:
        check_status(link, response, good=range(200, 300))
        return response.status
