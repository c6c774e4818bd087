"""Links that callers give: downloads and callbacks, restricted to addresses that callers may reach (no SSRF)."""

from __future__ import annotations

from quire.links.addresses import LinkPolicy, ParsedLink, check_url, is_reachable
from quire.links.callback_post import post_json, sign, verify
from quire.links.download import (
    Downloaded,
    PartialFile,
    Progress,
    Start,
    download,
    fetch,
    starting_point,
)
from quire.links.file_names import safe_filename, unique_name
from quire.links.file_put import put_file
from quire.links.link_hops import Lookup, system_lookup
from quire.links.share_links import Share, direct

__all__ = [
    "Downloaded",
    "LinkPolicy",
    "Lookup",
    "ParsedLink",
    "PartialFile",
    "Progress",
    "Share",
    "Start",
    "check_url",
    "direct",
    "download",
    "fetch",
    "is_reachable",
    "post_json",
    "put_file",
    "safe_filename",
    "sign",
    "starting_point",
    "system_lookup",
    "unique_name",
    "verify",
]
