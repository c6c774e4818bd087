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

from quire.reading import document, pages, render
from quire.reading.office import books, hypertext, mail, separated, sheets, slides, word

_OFFICE = (books, hypertext, mail, separated, sheets, slides, word)
__all__ = ["PIL", "document", "liteparse", "pages", "pymupdf", "render"]
