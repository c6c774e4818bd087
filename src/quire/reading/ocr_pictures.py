"""OCR of a picture that comes as bytes, by the same way as a page of a document."""

from __future__ import annotations

import tempfile
from pathlib import Path

from quire.reading.document import open_documents
from quire.reading.ocr import OcrOptions, recognise_page


def recognise_picture(picture: bytes, options: OcrOptions) -> str:
    """The picture's text as Markdown. Raises PageError where OCR fails."""
    with tempfile.TemporaryDirectory(prefix="quire-ocr-") as folder:
        path = Path(folder) / "picture"
        path.write_bytes(picture)
        try:
            return recognise_page(str(path), None, 1, options).block.decode("utf-8", "replace")
        finally:
            open_documents().forget()  # the file goes, and nobody will ask for it again
