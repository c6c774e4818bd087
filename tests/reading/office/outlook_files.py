"""Outlook messages as the tests want them: a compound file written sector by sector."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

_SECTOR = 512
_SMALL = 4096
_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_NONE = 0xFFFFFFFF
_TEXT, _BINARY, _NUMBER = 0x001F, 0x0102, 0x0003


def outlook_message(
    subject: str, body: str, *, sender: str = "Ann", html: str = "", files: Mapping[str, bytes] | None = None
) -> bytes:
    properties: dict[tuple[int, int], bytes | int] = {
        (0x0037, _TEXT): _utf16(subject),
        (0x1000, _TEXT): _utf16(body),
        (0x0C1A, _TEXT): _utf16(sender),
        (0x0C1F, _TEXT): _utf16("ann@example.org"),
        (0x3FDE, _NUMBER): 65001,
    }
    if html:
        properties[0x1013, _BINARY] = html.encode()
    tree = _storage(properties, struct.pack("<8x4I8x", 0, 0, 0, len(files or {})))
    for number, (name, data) in enumerate((files or {}).items()):
        attached: dict[tuple[int, int], bytes | int] = {
            (0x3707, _TEXT): _utf16(name),
            (0x3701, _BINARY): data,
            (0x3705, _NUMBER): 1,
        }
        tree[f"__attach_version1.0_#{number:08X}"] = _storage(attached, bytes(8))
    return compound_file(tree)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


def _storage(properties: Mapping[tuple[int, int], bytes | int], head: bytes) -> dict[str, Any]:
    rows, streams = head, {}
    for (number, kind), value in properties.items():
        if isinstance(value, int):
            rows += struct.pack("<HHIIxxxx", kind, number, 6, value)
        else:
            rows += struct.pack("<HHIIxxxx", kind, number, 6, len(value))
            streams[f"__substg1.0_{number:04X}{kind:04X}"] = value
    return {"__properties_version1.0": rows, **streams}


def compound_file(tree: Mapping[str, Any]) -> bytes:
    """Streams (bytes) and storages (mappings). Small streams share a stream of small sectors of their own."""
    sectors: list[bytes] = []
    table: list[int] = []
    small: list[bytes] = []
    small_table: list[int] = []
    entries: list[bytearray] = []

    def chained(data: bytes, size: int, into: list[bytes], links: list[int]) -> int:
        count = -(-len(data) // size)
        start = len(into)
        for n in range(count):
            into.append(data[n * size : (n + 1) * size].ljust(size, b"\0"))
            links.append(start + n + 1 if n < count - 1 else _END)
        return start if count else _END

    def store(data: bytes) -> int:
        return chained(data, _SECTOR, sectors, table)

    def store_stream(data: bytes) -> int:
        return store(data) if len(data) >= _SMALL else chained(data, 64, small, small_table)

    def entry(name: str, kind: int, start: int, size: int) -> int:
        raw = name.encode("utf-16-le") + b"\0\0"
        packed = raw.ljust(64, b"\0") + struct.pack("<HBB", len(raw), kind, 1)
        packed += struct.pack("<III", _NONE, _NONE, _NONE) + bytes(36) + struct.pack("<IQ", start, size)
        entries.append(bytearray(packed))
        return len(entries) - 1

    def fill(parent: int, held: Mapping[str, Any]) -> None:
        # Siblings hang one below the other; names go by length, then by letter.
        before = None
        for name in sorted(held, key=lambda one: (len(one), one.upper())):
            value = held[name]
            if isinstance(value, bytes):
                place = entry(name, 2, store_stream(value), len(value))
            else:
                place = entry(name, 1, 0, 0)
            holder, at = (parent, 76) if before is None else (before, 72)
            struct.pack_into("<I", entries[holder], at, place)
            before = place
            if not isinstance(value, bytes):
                fill(place, value)

    root = entry("Root Entry", 5, _END, 0)
    fill(root, tree)
    struct.pack_into("<IQ", entries[root], 116, store(b"".join(small)), len(small) * 64)
    links = struct.pack(f"<{len(small_table)}I", *small_table)
    links = links.ljust(-(-len(links) // _SECTOR) * _SECTOR, b"\xff")
    small_at = store(links)
    directory = store(b"".join(entries).ljust(-(-len(entries) // 4) * _SECTOR, b"\0"))
    count = 1
    while (len(table) + count) * 4 > count * _SECTOR:
        count += 1
    first = len(sectors)
    table += [_FAT] * count
    packed = struct.pack(f"<{len(table)}I", *table).ljust(count * _SECTOR, b"\xff")
    places = [first + n for n in range(count)] + [_FREE] * (109 - count)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIII", 0, count, directory, 0, _SMALL)
    header += struct.pack("<IIII", small_at, len(links) // _SECTOR, _END, 0)
    return header + struct.pack("<109I", *places) + b"".join(sectors) + packed
