"""How report.docx, book.xlsx and talk.pptx were made: by libraries that know nothing of Quire.

python3.11 -m venv /tmp/peer && /tmp/peer/bin/pip install python-docx openpyxl python-pptx
/tmp/peer/bin/python tests/reading/office/data/make.py tests/reading/office/data
"""

from __future__ import annotations

import datetime
import io
import sys
from pathlib import Path

import docx  # type: ignore[import-not-found]
import openpyxl  # type: ignore[import-not-found]
import pptx  # type: ignore[import-not-found]
from docx.shared import Inches  # type: ignore[import-not-found]
from openpyxl.comments import Comment  # type: ignore[import-not-found]
from PIL import Image, ImageDraw
from pptx.util import Inches as SlideInches  # type: ignore[import-not-found]

PROSE = "Members asked about the cost of the new building and the time it would take. " * 4


def picture(color: str) -> io.BytesIO:
    made = Image.new("RGB", (300, 200), color)
    ImageDraw.Draw(made).rectangle((75, 50, 225, 150), fill="white")
    out = io.BytesIO()
    made.save(out, "PNG")
    return out


def word(path: Path) -> None:
    document = docx.Document()
    document.core_properties.title, document.core_properties.author = "Annual report", "Jane Doe"
    document.add_heading("Annual report", 0)
    for n in (1, 2):
        document.add_heading(f"Chapter {n}", 1)
        paragraph = document.add_paragraph("The committee met in the ")
        paragraph.add_run("large").bold = True
        paragraph.add_run(" hall and ")
        paragraph.add_run("heard").italic = True
        paragraph.add_run(" the report of the secretary. Use a_b and *stars*, <b>tags</b>.")
        document.add_heading(f"Lists {n}", 2)
        items = ("First bullet", ""), ("Nested bullet", " 2"), ("Second bullet", "")
        for text, depth in items:
            document.add_paragraph(text, style=f"List Bullet{depth}")
        document.add_paragraph("Step one", style="List Number")
        document.add_paragraph("Step two", style="List Number")
        document.add_heading(f"Table {n}", 2)
        table = document.add_table(rows=0, cols=3)
        rows = [
            ("Name", "Qty", "Price|net"),
            *((f"Item {n}-{j}", str(j), f"{j * 1.5:.2f}") for j in range(8)),
        ]
        for row in rows:
            for cell, text in zip(table.add_row().cells, row, strict=True):
                cell.text = text
        for _ in range(6):
            document.add_paragraph(PROSE)
        if n == 1:
            document.add_picture(picture("red"), width=Inches(2))
    document.add_page_break()
    document.add_paragraph("After the break.")
    document.save(str(path))


def sheets(path: Path) -> None:
    book = openpyxl.Workbook()
    data = book.active
    data.title = "Data"
    data.append(["Id", "Name", "Amount", "Share", "When"])
    for n in range(40):
        day = datetime.datetime(2024, 1, 1) + datetime.timedelta(days=n)
        data.append([n, f"Name {n}", n * 1.1, n / 1000, day])
        data.cell(n + 2, 4).number_format = "0.0%"
    data["B2"].comment = Comment("Check this", "me")
    data["B3"].hyperlink = "https://example.org/x"
    hidden = book.create_sheet("Secret")
    hidden.sheet_state = "hidden"
    hidden["B2"], hidden["XFD1048576"] = "hidden value", "corner"
    book.create_sheet("Empty")
    book.save(str(path))


def slides(path: Path) -> None:
    show = pptx.Presentation()
    for n in (1, 2, 3):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = f"Slide title {n}"
        frame = slide.placeholders[1].text_frame
        frame.text = "First point"
        for text, level in (("Sub point", 1), ("Second point", 0)):
            paragraph = frame.add_paragraph()
            paragraph.text, paragraph.level = text, level
        slide.notes_slide.notes_text_frame.text = f"Notes of slide {n}"
        if n == 2:
            slide.shapes.add_picture(picture("blue"), SlideInches(1), SlideInches(3))
        if n == 3:
            place = [SlideInches(size) for size in (1, 4, 4, 1)]
            table = slide.shapes.add_table(3, 2, *place).table
            for row in range(3):
                for column in range(2):
                    table.cell(row, column).text = f"r{row}c{column}"
    show.save(str(path))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    word(folder / "report.docx")
    sheets(folder / "book.xlsx")
    slides(folder / "talk.pptx")
