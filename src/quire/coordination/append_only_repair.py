"""Repair of the embedded server's append-only file after a torn write: the damaged tail is cut, a copy is kept aside.

The file is a list of commands. Everything up to the last complete command is valid; what follows was being written when
the machine stopped. A transaction that is not complete is cut as a whole.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

_MOST_ARGUMENTS = 1 << 20
_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class AppendOnlyRepair:
    """What was done: how many bytes were cut from the end, or that the whole file was put aside."""

    kept: Path
    """Where the damaged files are now."""
    cut_bytes: int
    is_whole: bool = False

    def describe(self) -> str:
        if self.is_whole:
            return (
                f"the queue's file could not be read and was put aside ({self.kept}); the queue starts empty"
            )
        return (
            f"{self.cut_bytes} damaged bytes were cut from the end of the queue's file; a copy is {self.kept}"
        )


def cut_damaged_tail(folder: Path, aside: Path, *, dry_run: bool = False) -> AppendOnlyRepair | None:
    """Cuts what is not a complete command from the end of each log in `folder`; None if there is nothing to cut."""
    cut = 0
    kept = aside / time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    for log in sorted(folder.glob("*.incr.aof")):
        size, valid = log.stat().st_size, valid_length(log)
        if valid == size:
            continue
        cut += size - valid
        if not dry_run:
            kept.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy2(log, kept / log.name)
            with log.open("r+b") as file:
                file.truncate(valid)
                os.fsync(file.fileno())
    return AppendOnlyRepair(kept, cut) if cut else None


def put_aside(folder: Path, aside: Path) -> AppendOnlyRepair:
    """Moves all append-only files away, so that the server starts empty."""
    kept = aside / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-all"
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = sum(one.stat().st_size for one in folder.iterdir())
    folder.rename(kept)
    return AppendOnlyRepair(kept, size, is_whole=True)


def valid_length(log: Path) -> int:
    """How many bytes from the start of the file are complete commands."""
    if not log.stat().st_size:
        return 0
    with log.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        end, transaction = 0, None
        for start, stop, name in _commands(data):
            if name == b"MULTI" and transaction is None:
                transaction = start
            elif name == b"EXEC":
                transaction = None
            end = stop
        return end if transaction is None else transaction


def _commands(data: mmap) -> Iterator[tuple[int, int, bytes]]:
    """Start, end and name of each command, until one is damaged. Lines with # are comments of the server."""
    at, size = 0, len(data)
    while at < size:
        if data[at] == ord("#"):
            line_end = data.find(b"\r\n", at, at + 1024)
            if line_end < 0:
                return
            at = line_end + 2
            yield at, at, b""
            continue
        found = _command(data, at)
        if found is None:
            return
        end, name = found
        yield at, end, name
        at = end


def _command(data: mmap, at: int) -> tuple[int, bytes] | None:
    count = _number(data, at, ord("*"))
    if count is None or not 0 < count[0] <= _MOST_ARGUMENTS:
        return None
    at, name = count[1], b""
    for place in range(count[0]):
        length = _number(data, at, ord("$"))
        if length is None or length[0] < 0:
            return None
        end = length[1] + length[0]
        if data[end : end + 2] != b"\r\n":
            return None
        if place == 0:
            name = data[length[1] : end].upper()
        at = end + 2
    return at, name


def _number(data: mmap, at: int, mark: int) -> tuple[int, int] | None:
    """The number of a line that begins with `mark`, and where the next line begins."""
    if at >= len(data) or data[at] != mark:
        return None
    end = data.find(b"\r\n", at, at + _MOST_DIGITS)
    digits = data[at + 1 : end] if end > 0 else b""
    return (int(digits), end + 2) if digits.isdigit() else None
