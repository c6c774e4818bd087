"""Uploads to links that callers give: one PUT of a file, to an address that callers may reach."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from typing import BinaryIO

from quire.links.addresses import LinkPolicy, check_url
from quire.links.link_hops import Lookup, answer, check_status, deadline, system_lookup

_PIECE_BYTES = 256 << 10


async def put_file(
    url: str,
    file: BinaryIO,
    media_type: str,
    policy: LinkPolicy,
    *,
    form_name: str = "",
    lookup: Lookup = system_lookup,
) -> int:
    """Puts the file and returns the 2xx status. With `form_name` the file is the field `file` of a form, by that name.

    Raises LinkRefusedError, or DownloadError for a timeout, an error status or a redirect, which is not followed.
    """
    link = check_url(url, policy)
    file.seek(0, 2)
    size = file.tell()
    before, after, sent_type = b"", b"", media_type
    if form_name:
        boundary = secrets.token_hex(16)
        before = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{form_name}"\r\n'
            f"Content-Type: {media_type}\r\n\r\n"
        ).encode()
        after = f"\r\n--{boundary}--\r\n".encode()
        sent_type = f"multipart/form-data; boundary={boundary}"
    headers: Mapping[str, str] = {
        "Content-Type": sent_type,
        "Content-Length": str(len(before) + size + len(after)),
    }
    body = _body(before, file, after)
    async with deadline(policy), answer("PUT", link, policy, lookup, headers=headers, body=body) as response:
        check_status(link, response, good=range(200, 300))
        return response.status


async def _body(before: bytes, file: BinaryIO, after: bytes) -> AsyncIterator[bytes]:
    if before:
        yield before
    file.seek(0)
    while piece := file.read(_PIECE_BYTES):
        yield piece
    if after:
        yield after
