"""A new version of a document in the vault reads only the pages whose content has changed."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pymupdf
import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from quire.domain.element import Element, ElementKind, PageElements
from quire.domain.element_codec import decode, encode
from quire.domain.job import JobOptions, PageRecord, ReadingEffort, conversion_job_id
from quire.domain.page import Grade, PageSource
from quire.errors import DocumentError
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.page_reuse import _is_reusable, renumbered
from quire.pipeline.vault.vault import Vault
from quire.pipeline.vault.vault_intake import VaultIntake
from quire.reading.pdf.content_fingerprints import content_fingerprints, text_keys
from quire.reading.pdf.page_fingerprints import page_fingerprints
from tests.support.marked_documents import scanned_pdf
from tests.support.vault_running import TEAM, add, settled, vault_at

QUIET = {
    "LOCAL_CLASSIFIER": "0",
    "EMBEDDING_PROVIDER": "off",
    "VAULT_SWEEP_INTERVAL": "1d",
    "READER_PROCESSES": "1",
}
SENTENCES = [
    f"Page {letter} of the handbook explains the duty of watch {letter} in plain words."
    for letter in "ABCDEF"
]


def made(texts: list[str], path: Path) -> bytes:
    document = pymupdf.open()
    for text in texts:
        document.new_page().insert_text((72, 100), text)
    document.save(path)
    return path.read_bytes()


def changed(old: bytes, path: Path) -> bytes:
    """A new first page, and another text on what was the third; all objects get other numbers."""
    document = pymupdf.open(stream=old, filetype="pdf")
    document.new_page(0).insert_text((72, 100), "A foreword that is new in this version of the handbook.")
    document[3].insert_text((72, 140), "This paragraph was added to the page by hand.")
    document.save(path, garbage=3)
    return path.read_bytes()


async def add_version(vault: Vault, data: bytes, earlier: str, **options: object) -> str:
    chosen = JobOptions(version_of=conversion_job_id(TEAM, earlier), **options)  # type: ignore[arg-type]
    submission = Submission(team=TEAM, options=chosen, filename="handbook.pdf", force=True)
    intake = VaultIntake(vault)
    upload = await intake.begin_upload(submission)
    async with upload.writer:
        await upload.write(data)
    return (await intake.accept_upload(submission, upload)).document.id


async def test_only_changed_pages_are_read_when_a_new_version_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.pipeline.page_reuse._PIECE_PAGES", 3)  # so that a chunk needs several pieces
    first = made(SENTENCES, tmp_path / "1.pdf")
    second = changed(first, tmp_path / "2.pdf")
    async with vault_at(tmp_path / "data", **QUIET) as (one, vault):
        old_id = await add(vault, first, name="handbook.pdf")
        old_row = await settled(vault, old_id)
        ids = [
            await add_version(vault, second, old_id),
            await add_version(vault, second, old_id, reading_effort=ReadingEffort.FAST),
            await add(vault, second, name="handbook.pdf"),
        ]
        rows = [await settled(vault, document_id) for document_id in ids]
        jobs = [await vault.conversion(row) for row in (old_row, *rows)]
        records: list[list[PageRecord]] = [await one.engine.pages(job) for job in jobs if job]
        results = [
            b"".join([x async for x in one.engine.text(await one.engine.result(job))]) for job in jobs if job
        ]
        elements = [
            [element async for run in (await one.engine.elements(job)).runs() for element in run]
            for job in (jobs[1], jobs[3])
            if job
        ]
        metadata = [job.result["metadata"] for job in jobs if job and job.result]

    old_job = conversion_job_id(TEAM, old_id)
    taken = [record.reused_from for record in records[1]]
    assert taken == [
        None,
        *(f"{old_job}-p{n}" for n in (1, 2)),
        None,
        *(f"{old_job}-p{n}" for n in (4, 5, 6)),
    ]
    assert results[1] == results[3], "the same text as without the version before"
    assert [page.page for page in elements[0]] == [page.page for page in elements[1]], "and the same elements"
    assert [bool(record.reused_from) for record in records[2]] == [False] * 7, (
        "other options may read a page otherwise"
    )
    assert [found.get("pages_reused") for found in metadata] == [None, 5, None, None]


async def test_scans_are_not_read_again_when_a_program_has_written_the_file_anew(tmp_path: Path) -> None:
    first = scanned_pdf("HARBOUR", 2)
    document = pymupdf.open(stream=first, filetype="pdf")
    document[1].draw_line((10, 10), (90, 10))
    document.save(tmp_path / "2.pdf", garbage=4, clean=True, deflate=True, deflate_images=True)
    second = (tmp_path / "2.pdf").read_bytes()
    async with vault_at(tmp_path / "data", **QUIET) as (one, vault):
        old_id = await add(vault, first, name="handbook.pdf")
        await settled(vault, old_id)
        row = await settled(vault, await add_version(vault, second, old_id))
        job = await vault.conversion(row)
        assert job is not None
        records = await one.engine.pages(job)

    (tmp_path / "1.pdf").write_bytes(first)
    raw = [page_fingerprints(str(tmp_path / name))[0] for name in ("1.pdf", "2.pdf")]
    assert raw[0] != raw[1], "otherwise this tests nothing"
    assert [record.source for record in records] == [PageSource.OCR] * 2
    assert [record.reused_from for record in records] == [f"{conversion_job_id(TEAM, old_id)}-p1", None]


def written_by_reportlab(*pages: str, shift: float = 0.0, dot: int = 0) -> bytes:
    """Pages with a font that is cut to the letters of the whole document, a picture and a line."""
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))
    picture = Image.new("L", (40, 40), 255)
    picture.putpixel((20, 20), dot)
    out = BytesIO()
    canvas = Canvas(out, invariant=1)
    for text in pages:
        canvas.setFont("Vera", 12)
        canvas.drawString(72 + shift, 700, text)
        canvas.drawImage(ImageReader(picture), 72, 500, 40, 40)
        canvas.line(72, 400, 300, 400)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def test_contents_are_equal_only_when_all_that_is_seen_is(tmp_path: Path) -> None:
    def found(data: bytes) -> tuple[str, str]:
        path = tmp_path / "a.pdf"
        path.write_bytes(data)
        (content,) = content_fingerprints(str(path), [1])
        assert content
        return page_fingerprints(str(path))[0], content

    def shaded(colour: str) -> bytes:
        """Neither letters nor pictures nor lines tell of a shading."""
        document = pymupdf.open(stream=written_by_reportlab("Duty of watch", "More"), filetype="pdf")
        xref, name = document.get_new_xref(), "Resources/Shading"
        document.update_object(
            xref,
            "<</ShadingType 2/ColorSpace/DeviceRGB/Coords[0 0 100 100]/Extend[true true]/Function<</FunctionType 2"
            f"/Domain[0 1]/C0[{colour}]/C1[1 1 1]/N 1>>>>",
        )
        document.xref_set_key(document[0].xref, name, f"<</S0 {xref} 0 R>>")
        contents = document[0].get_contents()[0]
        document.update_stream(contents, document.xref_stream(contents) + b"\nq 10 10 90 90 re W n /S0 sh Q")
        return document.tobytes()

    first = found(written_by_reportlab("Duty of watch", "More"))
    again = found(written_by_reportlab("Duty of watch", "Other letters: ñçø"))
    assert again[0] != first[0], "the font is cut to other letters"
    assert again[1] == first[1]
    others = [
        written_by_reportlab("Duty of match", "More"),
        written_by_reportlab("Duty of watch", "More", shift=0.5),
        written_by_reportlab("Duty of watch", "More", dot=3),
        shaded("1 0 0"),
        shaded("1 0.1 0"),
    ]
    contents = [found(data)[1] for data in others]
    assert len({first[1], *contents}) == 6
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7 nothing")
    with pytest.raises(DocumentError):
        text_keys(str(tmp_path / "b.pdf"))


def test_elements_get_the_number_of_their_new_page() -> None:
    elements = (
        Element("p3-e1", ElementKind.FIGURE),
        Element("p3-e2", ElementKind.CAPTION, "Figure", parent="p3-e1"),
    )
    page = decode(renumbered(encode(PageElements(3, elements, "mupdf")), 12))
    assert page.number == 12
    assert [(one.id, one.parent) for one in page.elements] == [("p12-e1", None), ("p12-e2", "p12-e1")]
    assert renumbered(b"", 12) == b""


def test_badly_read_pages_are_read_again() -> None:
    good = PageRecord.unpack(1, {"st": "completed", "src": "local", "w": 5, "ref": "x", "gr": "good"})
    assert _is_reusable(good)
    assert not _is_reusable(None)
    for change in ({"grade": Grade.LOW}, {"grade": None}, {"words": 0}, {"ref": None}):
        assert not _is_reusable(replace(good, **change)), change  # type: ignore[arg-type]
    fallback = PageRecord.unpack(1, {**good.packed(), "src": "mupdf_fallback"})
    assert not _is_reusable(fallback)


def test_fingerprints_follow_what_is_on_the_page(tmp_path: Path) -> None:
    first = made(SENTENCES[:2], tmp_path / "1.pdf")
    before = page_fingerprints(str(tmp_path / "1.pdf"))
    assert len(set(before)) == 2

    def after(edit: str) -> list[str]:
        document = pymupdf.open(stream=first, filetype="pdf")
        page = document[0]
        if edit == "link":
            page.insert_link(
                {"kind": pymupdf.LINK_URI, "from": pymupdf.Rect(1, 1, 9, 9), "uri": "https://e.example"}
            )
        elif edit == "turn":
            page.set_rotation(90)
        elif edit == "picture":
            pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 4, 4))
            page.insert_image(pymupdf.Rect(10, 10, 50, 50), pixmap=pixmap)
        document.save(tmp_path / "2.pdf", garbage=4, deflate=edit == "nothing")
        return page_fingerprints(str(tmp_path / "2.pdf"))

    assert after("nothing") == before
    for edit in ("link", "turn", "picture"):
        assert after(edit)[0] != before[0], edit
        assert after(edit)[1] == before[1], edit
    (tmp_path / "3.pdf").write_bytes(b"%PDF-1.7 nothing")
    with pytest.raises(DocumentError):
        page_fingerprints(str(tmp_path / "3.pdf"))


def test_page_has_no_fingerprint_when_its_objects_are_too_deep_and_others_keep_theirs(tmp_path: Path) -> None:
    made(SENTENCES[:2], tmp_path / "1.pdf")
    before = page_fingerprints(str(tmp_path / "1.pdf"))
    document = pymupdf.open(tmp_path / "1.pdf")
    below = "1"
    for _ in range(40):
        xref = document.get_new_xref()
        document.update_object(xref, f"<</Below {below}>>")
        below = f"{xref} 0 R"
    document.xref_set_key(document[0].xref, "Resources", f"<</Properties {below}>>")
    document.save(tmp_path / "2.pdf")
    assert page_fingerprints(str(tmp_path / "2.pdf")) == ["", before[1]]
