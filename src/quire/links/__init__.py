"""Links that users give, fetched and called without letting them reach what they should not."""

from __future__ import annotations

from quire.links.addresses import LinkPolicy, ParsedLink, check_url, is_reachable
from quire.links.download import (
    Downloaded,
    Part,
    Progress,
    Start,
    download,
    fetch,
    starting_point,
)
from quire.links.hops import Lookup, system_lookup
from quire.links.names import safe_filename
from quire.links.posting import post_json
from quire.links.shares import Share, direct
from quire.links.signatures import sign, verify

__all__ = [
    "Downloaded",
    "LinkPolicy",
    "Lookup",
    "ParsedLink",
    "Part",
    "Progress",
    "Share",
    "Start",
    "check_url",
    "direct",
    "download",
    "fetch",
    "is_reachable",
    "post_json",
    "safe_filename",
    "sign",
    "starting_point",
    "system_lookup",
    "verify",
]
