"""Calls to links that users give: the callback when a job is over."""

from __future__ import annotations

from collections.abc import Mapping

from quire.links.addresses import LinkPolicy, check_url
from quire.links.hops import Lookup, answer, check_status, deadline, system_lookup


async def post_json(
    url: str, body: bytes, headers: Mapping[str, str], policy: LinkPolicy, *, lookup: Lookup = system_lookup
) -> int:
    """Posts the body and gives back the status, one of the 2xx. The answer's body is not read.

    Raises LinkRefusedError, or DownloadError when there was no answer in time, when the answer was an error,
    or when it was a redirect, which is never followed: the receiver should give its real address.
    """
    link = check_url(url, policy)
    sent = {"Content-Type": "application/json", **headers}
    async with deadline(policy), answer("POST", link, policy, lookup, headers=sent, body=body) as response:
        check_status(link, response, good=range(200, 300))
        return response.status
