"""File names that callers and servers give, made safe to store and show."""

from __future__ import annotations

import re
import unicodedata


def safe_filename(name: str) -> str:
    """Returns a name that is safe to store and show: one path part, printable, at most 200 bytes, never empty."""
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    kept = "".join(_safe_character(c) for c in unicodedata.normalize("NFC", last))
    kept = re.sub(r"\s+", " ", kept).strip(" .")
    if re.fullmatch(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", kept, re.IGNORECASE):
        kept = f"_{kept}"  # these open devices on Windows
    stem, dot, ending = kept.rpartition(".")
    if not stem or len(ending.encode()) > 20:
        stem, dot, ending = kept, "", ""
    room = 200 - len(f"{dot}{ending}".encode())
    stem = stem.encode()[:room].decode("utf-8", "ignore").rstrip(" .")
    return f"{stem}{dot}{ending}" or "document"


def unique_name(wanted: str, taken: set[str]) -> str:
    """Returns `wanted` as a safe name, with a number if `taken` has it in any case; `taken` gets the result."""
    whole = safe_filename(wanted)
    stem, dot, ending = whole.rpartition(".")
    if not stem:
        stem, dot, ending = whole, "", ""
    name, number = whole, 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem}-{number}{dot}{ending}"
    taken.add(name.casefold())
    return name


def _safe_character(c: str) -> str:
    # Cc: control; Cf: invisible, among them those that turn the writing direction; Cs: broken; Zl, Zp: lines.
    if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}:
        return " " if c in "\t\n\r" else ""
    looks_like = unicodedata.normalize("NFKC", c)
    return "_" if any(part in '/\\<>:"|?*' for part in looks_like) else c
