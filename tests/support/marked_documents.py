"""Documents made for one test: PDFs whose pages each carry a word that no other page has, scans and photographs."""

from __future__ import annotations

import hashlib
import struct
from io import BytesIO
from pathlib import Path

_WORDS = (
    "harbour",
    "tide",
    "gauge",
    "lantern",
    "rope",
    "ledger",
    "pilot",
    "ferry",
    "storm",
    "quay",
    "anchor",
    "buoy",
)


def marker(seed: int, number: int) -> str:
    return "zq" + hashlib.sha256(f"{seed}/{number}".encode()).hexdigest()[:12]


def marked_pdf(path: Path, pages: int, seed: int = 1, password: str | None = None) -> Path:
    """Writes a PDF of that many short text pages, encrypted if there is a password."""
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    lock = StandardEncryption(password, ownerPassword="owner", strength=128) if password else None
    canvas = Canvas(str(path), encrypt=lock, invariant=1)
    for number in range(1, pages + 1):
        digest = hashlib.sha256(f"{seed}.{number}".encode()).digest()
        words = [_WORDS[byte % len(_WORDS)] for byte in digest]
        canvas.setFont("Helvetica", 12)
        for row in range(4):
            line = " ".join(words[row * 7 : row * 7 + 7])
            canvas.drawString(
                72, 700 - 16 * row, line if row != 2 else f"{line} {marker(seed, number)} {words[-1]}"
            )
        canvas.showPage()
    canvas.save()
    return path


def markers_in(text: str) -> list[str]:
    """The words that mark pages, in the order in which they stand."""
    words = text.replace("\n", " ").split()
    return [word for word in words if word.startswith("zq") and len(word) == 14]


def scanned_pdf(word: str, number: int = 1) -> bytes:
    """A PDF of small pages that are only pictures of a word."""
    from PIL import Image, ImageDraw, ImageFont
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    out = BytesIO()
    canvas = Canvas(out, pagesize=(300, 100), invariant=1)
    for _ in range(number):
        picture = Image.new("L", (900, 300), 255)
        ImageDraw.Draw(picture).text((60, 80), word, fill=0, font=ImageFont.load_default(110))
        canvas.drawImage(ImageReader(picture), 0, 0, width=300, height=100)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def heic_of(text: str, padding: int = 0) -> bytes:
    """A photograph of some words; with padding the file is that much larger and shows the same."""
    import pillow_heif
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (900, 220), "white")
    ImageDraw.Draw(picture).text((40, 70), text, fill="black", font=ImageFont.load_default(64))
    out = BytesIO()
    pillow_heif.from_pillow(picture).save(out, quality=90)
    return out.getvalue() + (struct.pack(">I4s", padding + 8, b"free") + bytes(padding) if padding else b"")
