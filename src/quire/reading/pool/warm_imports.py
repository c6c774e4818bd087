"""Importing this module loads every heavy reader, so that a fork server pays for them once."""

from __future__ import annotations

import liteparse
import PIL.BmpImagePlugin
import PIL.GifImagePlugin
import PIL.Image
import PIL.JpegImagePlugin
import PIL.PngImagePlugin
import PIL.TiffImagePlugin
import PIL.WebPImagePlugin
import pymupdf

from quire.reading.files import document_source, markdown_elements
from quire.reading.office import (
    csv_reader,
    docx_reader,
    epub_reader,
    html_reader,
    mail_reader,
    pptx_reader,
    xlsx_reader,
)
from quire.reading.pdf import page_reader, page_render

_OFFICE = (csv_reader, docx_reader, epub_reader, html_reader, mail_reader, pptx_reader, xlsx_reader)
__all__ = [
    "PIL",
    "document_source",
    "liteparse",
    "markdown_elements",
    "page_reader",
    "page_render",
    "pymupdf",
]
