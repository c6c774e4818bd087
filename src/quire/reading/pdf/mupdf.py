"""MuPDF, loaded when first used, with its messages off. The only importer of pymupdf."""

from __future__ import annotations

import functools
from typing import Any


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
