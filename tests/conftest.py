"""Documents that any test may need, made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest


@pytest.fixture(scope="session")
def make_pdf() -> Callable[..., bytes]:
    """Builds a PDF with one page for each text; with a password it is encrypted."""

    def make(*texts: str, password: str | None = None) -> bytes:
        from reportlab.lib.pdfencrypt import StandardEncryption
        from reportlab.pdfgen.canvas import Canvas

        out = BytesIO()
        lock = StandardEncryption(password, ownerPassword="owner", strength=128) if password else None
        canvas = Canvas(out, encrypt=lock, invariant=1)
        for text in texts:
            canvas.setFont("Helvetica", 12)
            for row, line in enumerate(text.splitlines() or [""]):
                canvas.drawString(72, 720 - 16 * row, line)
            canvas.showPage()
        canvas.save()
        return out.getvalue()

    return make
