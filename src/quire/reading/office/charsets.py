"""Text in an unknown encoding: guessing and decoding."""

from __future__ import annotations

import codecs
import re

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_IN_MARKUP = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_IN_XML = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})")
_LEGACY = "cp1252"


def decode(data: bytes, declared: str = "") -> str:
    """The text, whatever it takes: by its byte order mark, what was declared, UTF-8, or Windows' Western one."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    for name in (declared, "utf-8"):
        if name and _is_text_encoding(name):
            try:
                return data.decode(name)
            except (UnicodeDecodeError, LookupError):
                continue
    if data and data.count(0) > len(data) // 4:
        return data.decode(
            "utf-16-le" if data[1::2].count(0) >= data[::2].count(0) else "utf-16-be", "replace"
        )
    return data.decode(_LEGACY, "replace")


def declared_in_markup(head: bytes) -> str:
    """The encoding that a page says it is in; "" if it says nothing, or something that can't be so."""
    found = _IN_XML.match(head) or _IN_MARKUP.search(head, 0, 4096)
    name = found[1].decode() if found else ""
    # A page whose declaration can be read as bytes is not in UTF-16, whatever it says.
    return "" if name.lower().startswith(("utf-16", "utf-7", "ucs", "unicode")) else name


def _is_text_encoding(name: str) -> bool:
    try:
        return bool(getattr(codecs.lookup(name), "_is_text_encoding", False))
    except (LookupError, ValueError):
        return False
