"""Downloads of links, streamed into a partial file and resumed with range requests where the server allows it.

Redirects are followed here, one by one, and each target is checked.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NoReturn, Protocol
from urllib.parse import unquote

from quire.errors import DownloadError, TooLargeError
from quire.links.addresses import LinkPolicy, ParsedLink, check_url
from quire.links.file_names import safe_filename
from quire.links.link_hops import (
    Lookup,
    answer,
    check_status,
    deadline,
    next_hop,
    redirected,
    system_lookup,
    translated,
)
from quire.links.share_links import LARGEST_PAGE_BYTES, confirmed, direct, is_drive

if TYPE_CHECKING:
    from aiohttp import ClientResponse

Progress = Callable[[int, int | None], Awaitable[None]]

_CHUNK_BYTES = 256 * 1024
_REDIRECTS = {301, 302, 303, 307, 308}
_MOST_RESUMES = 20
_MOST_FRUITLESS = 2  # in a row: bytes that had arrived but were not read yet are lost with their connection
_CLOCKS_APART_S = 60.0
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)


class PartialFile(Protocol):
    """The bytes of a document that have arrived so far, from its beginning."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    @property
    def validator(self) -> str:
        """The server's identifier of their version (ETag or date); empty if the download can't be resumed."""

    async def write(self, chunk: bytes) -> None:
        """Appends a chunk."""

    async def restart(self, validator: str) -> None:
        """Drops all bytes; the next chunk is the beginning of this version."""


@dataclass(frozen=True)
class Downloaded:
    """A finished download. `content_type` and `filename` are claims of the server."""

    final_url: str
    content_type: str
    filename: str
    size: int


@dataclass(frozen=True)
class Start:
    """The first request of a download; `service` is set for a share link, which may answer with a page."""

    link: ParsedLink
    service: str = ""


def starting_point(url: str, policy: LinkPolicy) -> Start:
    """Returns the checked link, or the download behind a share link. Raises LinkRefusedError."""
    # The link is checked as it was given too: a share link does not repair a malformed one.
    link = check_url(url, policy)
    share = direct(url)
    return Start(check_url(share.url, policy), share.service) if share else Start(link)


async def download(
    url: str,
    part: PartialFile,
    policy: LinkPolicy,
    on_progress: Progress | None = None,
    *,
    lookup: Lookup = system_lookup,
) -> Downloaded:
    """Streams the link's document into `part` and calls `on_progress` (bytes so far, bytes expected).

    A broken connection is resumed if the server identified the version that it was sending. A part that has
    bytes already is completed in the same way, or restarted.
    Raises LinkRefusedError, TooLargeError, or DownloadError, whose `retryable` and `retry_after_s` say
    whether and when to retry; the bytes that have arrived stay. Errors of the part are passed on.
    """
    return await fetch(starting_point(url, policy), part, policy, on_progress, lookup=lookup)


async def fetch(
    start: Start,
    part: PartialFile,
    policy: LinkPolicy,
    on_progress: Progress | None = None,
    *,
    lookup: Lookup = system_lookup,
) -> Downloaded:
    """`download` from a starting point that was checked before."""
    async with deadline(policy):
        resumes = fruitless = 0
        while True:
            before = part.size
            try:
                done = await _follow(start, part, policy, on_progress, lookup)
            except _InterruptedError:
                resumes += 1
                fruitless = 0 if part.size > before else fruitless + 1
                if resumes > _MOST_RESUMES or fruitless > _MOST_FRUITLESS:
                    raise
            else:
                if done is not None:
                    return done


class _InterruptedError(DownloadError):
    """The body ended too early, and the download can be resumed."""


async def _follow(
    start: Start, part: PartialFile, policy: LinkPolicy, on_progress: Progress | None, lookup: Lookup
) -> Downloaded | None:
    """Follows the link to its document. Returns None if the part was dropped and the link must be followed again."""
    link = start.link
    if part.size and not part.validator:
        await part.restart("")
    headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
    if part.size:
        headers |= {"Range": f"bytes={part.size}-", "If-Range": part.validator}
    for _ in range(policy.max_redirects + 1):
        async with answer("GET", link, policy, lookup, headers=headers) as response:
            if response.status in _REDIRECTS:
                link = redirected(link, response, policy)
            elif start.service and _is_page(response):
                link = await _confirmed_link(start, link, response, policy)
            elif part.size and (response.status == 416 or not _continues(part, response)):
                await part.restart("")
                return None
            else:
                return await _receive(link, response, part, policy, on_progress)
    raise DownloadError(f"The link was redirected more than {policy.max_redirects} times.", retryable=False)


def _is_page(response: ClientResponse) -> bool:
    """Returns whether a share link answered with a web page: documents of any kind come as attachments."""
    offered = response.content_disposition
    attached = offered is not None and offered.type == "attachment"
    return response.status == 200 and response.content_type == "text/html" and not attached


async def _confirmed_link(
    start: Start, link: ParsedLink, response: ClientResponse, policy: LinkPolicy
) -> ParsedLink:
    """Returns the link behind Drive's confirmation page for large files. Raises DownloadError for any other page."""
    if is_drive(link.host):
        page = bytearray()
        async for chunk in _body(link, response):
            page += chunk
            if len(page) > LARGEST_PAGE_BYTES:
                break
        if target := confirmed(link.url, page.decode("utf-8", "replace")):
            return next_hop(link, target, policy)
    raise DownloadError(
        f"{start.service} answered with a page instead of the document. "
        "Change the sharing to 'anyone with the link'.",
        retryable=False,
    )


def _continues(part: PartialFile, response: ClientResponse) -> bool:
    """Returns whether the response fits the part: the whole document, an error, or exactly the missing rest."""
    if response.status != 206:
        return True
    found = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    tag = response.headers.get("ETag", "")
    same = not part.validator.startswith('"') or tag in ("", part.validator)
    return found is not None and int(found[1]) == part.size and same and not _encoding(response)


async def _receive(
    link: ParsedLink,
    response: ClientResponse,
    part: PartialFile,
    policy: LinkPolicy,
    on_progress: Progress | None,
) -> Downloaded:
    check_status(link, response, good=(200, 203, 206) if part.size else (200, 203))
    total = response.content_length if not _encoding(response) else None
    announced = response.content_length
    if response.status == 206:
        found = _RANGE.fullmatch(response.headers["Content-Range"].strip())
        total = announced = int(found[3]) if found and found[3] != "*" else None
    else:
        await part.restart(_validator(response))
    if announced is not None and announced > policy.max_bytes:
        _too_large(policy)
    async for chunk in _resumable(part, _body(link, response)):
        if part.size + len(chunk) > policy.max_bytes:
            _too_large(policy)
        await part.write(chunk)
        if on_progress is not None:
            await on_progress(part.size, total)
    if total is not None and part.size < total:
        raise _InterruptedError(f"{link.host} closed the connection before the document was complete.")
    offered = response.content_disposition
    name = (offered.filename if offered else None) or unquote(response.url.raw_name)
    return Downloaded(link.url, response.content_type, safe_filename(name), part.size)


async def _resumable(part: PartialFile, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the body; raises _InterruptedError where it ends too early and the download can be resumed."""
    try:
        async for chunk in body:
            yield chunk
    except DownloadError as error:
        if error.retryable and part.validator:
            raise _InterruptedError(error.public) from error
        raise


def _encoding(response: ClientResponse) -> str:
    """Returns the content encoding; empty if there is none."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


def _validator(response: ClientResponse) -> str:
    """Returns the identifier of exactly these bytes, for a resume; empty if there is none.

    A weak ETag may identify several versions. So may a date, unless it was old when it was sent.
    """
    if _encoding(response) or response.headers.get("Accept-Ranges", "").strip().lower() == "none":
        return ""
    tag = response.headers.get("ETag", "").strip()
    if re.fullmatch(r'"[\x21\x23-\x7e]{0,256}"', tag):
        return tag
    try:
        changed, sent = (
            parsedate_to_datetime(response.headers.get(name, "")) for name in ("Last-Modified", "Date")
        )
        old = (sent - changed).total_seconds() >= _CLOCKS_APART_S
    except (TypeError, ValueError):
        return ""
    return response.headers["Last-Modified"].strip() if old else ""


async def _body(link: ParsedLink, response: ClientResponse) -> AsyncIterator[bytes]:
    """Yields the content in chunks, decompressed if the server compressed it although asked not to."""
    encoding = _encoding(response)
    if encoding not in {"", "gzip", "x-gzip", "deflate"}:
        raise DownloadError(f"{link.host} sent an encoding that was not asked for.", retryable=False)
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if encoding else None
    while True:
        with translated(link):
            chunk = await response.content.read(_CHUNK_BYTES)
        if decompressor is None:
            if not chunk:
                return
            yield chunk
            continue
        try:
            while (
                chunk and not decompressor.eof
            ):  # in steps, so that the byte limit stops a decompression bomb
                if part := decompressor.decompress(chunk, _CHUNK_BYTES):
                    yield part
                chunk = decompressor.unconsumed_tail
        except zlib.error as error:
            raise DownloadError(f"{link.host} sent damaged data.") from error
        if decompressor.eof:
            return
        if response.content.at_eof():
            raise DownloadError(f"{link.host} closed the connection before the document was complete.")


def _too_large(policy: LinkPolicy) -> NoReturn:
    raise TooLargeError(f"The document is larger than {policy.max_bytes / (1 << 20):g} MB.")
