"""Lists of a Word file of before 2007 ([MS-DOC]): how each level of each list is numbered."""

from __future__ import annotations

from quire.reading.office.word_styles import Numbering, NumberingLevel

_FORMATS = {
    **{0: "decimal", 1: "upperRoman", 2: "lowerRoman", 3: "upperLetter", 4: "lowerLetter"},
    **{22: "decimalZero", 23: "bullet", 255: "none"},
}
_MOST_LISTS, _MOST_USES = 4096, 65_536
_LONGEST_NUMBER = 100


def read_lists(table: bytes, lists: tuple[int, int], uses: tuple[int, int]) -> Numbering:
    """The numbering by the numbers of the uses of lists; both pairs are offset and length in `table`."""
    levels = _read_levels(table, *lists)
    at, size = uses
    held = table[at : at + size]
    found: dict[str, dict[int, NumberingLevel]] = {}
    shared: dict[str, str] = {}
    for use in range(min(_u32(held, 0), len(held) // 16, _MOST_USES)):
        entry = held[4 + 16 * use : 20 + 16 * use]
        name = _u32(entry, 0)
        found[str(use + 1)] = levels.get(name, {})
        # A use that overrides levels counts by itself; the others go on where one of the same list ended.
        shared[str(use + 1)] = f"{name}/{use}" if len(entry) > 12 and entry[12] else str(name)
    return Numbering(found, shared)


def _read_levels(table: bytes, at: int, size: int) -> dict[int, dict[int, NumberingLevel]]:
    if not size:
        return {}
    count = _u16(table, at)
    heads = [table[at + 2 + 28 * one : at + 30 + 28 * one] for one in range(min(count, _MOST_LISTS))]
    at += size
    found: dict[int, dict[int, NumberingLevel]] = {}
    for head in heads:
        if len(head) < 28:
            break
        levels = found.setdefault(_u32(head, 0), {})
        for depth in range(1 if head[26] & 1 else 9):
            level = table[at : at + 28]
            if len(level) < 28:
                return found
            at += 28 + level[24] + level[25]
            length = _u16(table, at)
            text = table[at + 2 : at + 2 + 2 * min(length, _LONGEST_NUMBER)].decode("utf-16-le", "replace")
            at += 2 + 2 * length
            start = min(_u32(level, 0), 1_000_000)
            shown = "".join(f"%{ord(sign) + 1}" if sign < "\x09" else sign.replace("%", "") for sign in text)
            levels[depth] = NumberingLevel(_FORMATS.get(level[4], "decimal"), shown, start)
    return found


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
