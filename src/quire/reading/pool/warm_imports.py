"""Importing this module loads every heavy reader, so that a fork server pays for them once.

The garbage collector is paused meanwhile, and looks at none of it later: what a module defines stays. Looking through
it again and again took a fifteenth of the time.
"""

from __future__ import annotations

import gc
import importlib

_READERS = (
    "PIL.BmpImagePlugin",
    "PIL.GifImagePlugin",
    "PIL.JpegImagePlugin",
    "PIL.PngImagePlugin",
    "PIL.TiffImagePlugin",
    "PIL.WebPImagePlugin",
    "liteparse",
    "pymupdf",
    "quire.reading.files.kind_guessing",
    "quire.reading.files.markdown_elements",
    "quire.reading.files.page_chunks",
    "quire.reading.office.csv_reader",
    "quire.reading.office.docx_reader",
    "quire.reading.office.epub_reader",
    "quire.reading.office.html_reader",
    "quire.reading.office.mail_reader",
    "quire.reading.office.office_readers",
    "quire.reading.office.pptx_reader",
    "quire.reading.office.xlsx_reader",
    "quire.reading.pdf.page_render",
)


def _load() -> None:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for name in _READERS:
            importlib.import_module(name)
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


_load()
