"""Readers that break in their child on some page. A module of its own, so that children can import it."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from quire.reading.files import page_chunks
from quire.reading.files.page_chunks import Chunk
from quire.reading.ocr.page_ocr import OcrOptions
from quire.reading.pdf.page_reader import ReadOptions

BAD = 3


def crash(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool
) -> Chunk:
    if BAD in numbers:
        ctypes.string_at(0)
    return page_chunks.read_chunk(path, password, numbers, options, quick)


def crash_unless_quick(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool
) -> Chunk:
    if BAD in numbers and not quick:
        ctypes.string_at(0)
    return page_chunks.read_chunk(path, password, numbers, options, quick)


def hang(path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool) -> Chunk:
    if BAD in numbers:
        sleep_forever(path)
    return page_chunks.read_chunk(path, password, numbers, options, quick)


def hang_unless_quick(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool
) -> Chunk:
    if not quick:
        sleep_forever(path)
    return page_chunks.read_chunk(path, password, numbers, options, quick)


def balloon(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool
) -> Chunk:
    if BAD in numbers:
        held = []
        while True:
            held.append(bytearray(16 << 20))
    return page_chunks.read_chunk(path, password, numbers, options, quick)


def lose_the_fork_server(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool
) -> Chunk:
    """As if somebody killed the machinery, three times: no fault of any page."""
    tally = Path(f"{path}.kills")
    done = len(tally.read_bytes()) if tally.exists() else 0
    if done < 3:
        tally.write_bytes(b"x" * (done + 1))
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    return page_chunks.read_chunk(path, password, numbers, options, quick)


def linger(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool
) -> Chunk:
    """Takes its time, so that something can happen in the middle."""
    time.sleep(0.15)
    return page_chunks.read_chunk(path, password, numbers, options, quick)


def hanging_ocr(path: str, password: str | None, number: int, options: OcrOptions) -> Chunk:
    sleep_forever(path)


def sleep_forever(path: str) -> NoReturn:
    """Leaves its process id beside the document, then sleeps inside one native call."""
    Path(f"{path}.{os.getpid()}.pid").touch()
    while True:
        ctypes.CDLL(None).pause()
