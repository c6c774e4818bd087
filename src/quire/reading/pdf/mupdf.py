"""MuPDF, loaded when first used, with its messages off and a bound for what it keeps. The only importer of pymupdf."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

_MOST_GROWTH = 16 << 20


@functools.cache
def mupdf() -> Any:
    """The `pymupdf` module. Its complaints about damaged files are kept off the standard streams."""
    import pymupdf

    module: Any = pymupdf
    module.TOOLS.mupdf_display_errors(False)
    module.TOOLS.mupdf_display_warnings(False)
    return module


@functools.cache
def text_flags() -> int:
    """How text is taken from a page: without pictures, and with letters instead of ligatures."""
    module = mupdf()
    return int(module.TEXTFLAGS_TEXT & ~module.TEXT_PRESERVE_LIGATURES)


def empty_store() -> None:
    """Lets go of decoded pictures and fonts: MuPDF keeps up to 256 MB of them for each process otherwise."""
    mupdf().mupdf.fz_empty_store()


class StoreBound:
    """Empties the store when the process has grown by 16 MB since it was last emptied.

    Pages of a document have fonts in common, and opening them anew for every chunk took a fifteenth of the time of
    plain pages. MuPDF does not tell how large its store is, so the memory of the process is bounded instead.
    """

    def __init__(self, own_bytes: Callable[[], int | None], empty: Callable[[], None]) -> None:
        self._own_bytes = own_bytes
        self._empty = empty
        self._least: int | None = None

    def check(self) -> None:
        """To be called after each chunk. Where the memory is not known, the store is emptied each time."""
        own = self._own_bytes()
        if own is not None and self._least is not None and own - self._least <= _MOST_GROWTH:
            self._least = min(self._least, own)
        else:
            self._empty()
            self._least = self._own_bytes()


def _own_bytes() -> int | None:
    """The resident memory of this process without what it shares with files, such as libraries; None if not known."""
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 - for every chunk
            _, resident, shared, *_ = map(int, statm.read().split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


bound_store = StoreBound(_own_bytes, empty_store).check
