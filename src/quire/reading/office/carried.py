"""Pictures that a page carries in its own text, as `data:` addresses."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote_to_bytes

_MAX_BYTES = 16 << 20
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]{1,30}(;[a-z0-9=;-]{0,60})?,", re.IGNORECASE)


class HeldPictures:
    """Those of one page, up to a bound; what goes beyond it is as good as not there."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}
        self._bytes = 0

    def get(self, ref: str) -> bytes:
        return self._held.get(ref, b"")

    def hold(self, address: str) -> str:
        """A name for the picture in the address; "" if there is none, or no more room."""
        if not _DATA_URL.match(address) or self._bytes + len(address) > _MAX_BYTES * 2:
            return ""
        head, _, body = address.partition(",")
        try:
            data = unquote_to_bytes(body)
            data = base64.b64decode(data) if "base64" in head else data
        except (binascii.Error, ValueError):
            return ""
        if self._bytes + len(data) > _MAX_BYTES:
            return ""
        self._bytes += len(data)
        ref = f"data:{len(self._held)}"
        self._held[ref] = data
        return ref
