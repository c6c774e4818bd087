"""The bytes of a file that hangs on a mail. Runs in the child pool."""

from __future__ import annotations

from quire.errors import PageError
from quire.reading.document import open_documents
from quire.reading.office.limits import OfficeLimits
from quire.reading.office.source import OfficeSource


def attached_bytes(path: str, limits: OfficeLimits, place: int, start: int, most: int) -> bytes:
    """Up to `most` bytes of the attachment at that place, from `start` on. Raises PageError if there is none."""
    source = open_documents().get(path, None, limits)
    if not isinstance(source, OfficeSource) or not 0 <= place < len(source.attachments):
        raise PageError("The mail has no such attachment.")
    return source.attachments[place].data[start : start + most]
