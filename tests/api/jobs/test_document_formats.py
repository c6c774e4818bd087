"""A document's elements and its HTML over HTTP."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from io import BytesIO

import aiohttp
import pymupdf
import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from quire.api.jobs.element_views import PageElementsView
from quire.domain.element import PageElements
from quire.rendering.element_json import page_json
from tests.support.long_tables import HEAD, LongTables, fees
from tests.support.marked_documents import scanned_pdf
from tests.support.serving import Client, Server, client_of
from tests.support.submitted_documents import converted, form, fresh
from tests.support.waiting import until

Pdf = Callable[..., bytes]


class Sections(HTMLParser):
    """The words of each page's section; fails on anything that could act."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: dict[str, str] = {}
        self._page = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "iframe", "object", "style", "link")
        if tag == "section":
            self._page = str(dict(attrs)["data-page"])

    def handle_data(self, data: str) -> None:
        if self._page:
            self.words[self._page] = self.words.get(self._page, "") + data


def test_elements_of_a_page_alone_have_all_fields_of_a_page() -> None:
    turned = page_json(PageElements(1, turns=2))
    assert turned["turned"] == 180
    assert set(turned) <= set(PageElementsView.model_fields)


async def test_elements_of_all_pages_come_as_one_object_or_by_line(client: Client, make_pdf: Pdf) -> None:
    texts = [fresh(f"page {n}") for n in range(1, 4)]
    job_id = await converted(client, make_pdf(*texts))
    whole = (await client.get(f"/jobs/{job_id}/elements")).json
    assert (whole["job_id"], whole["filename"], whole["schema_version"]) == (job_id, "report.pdf", 1)
    assert [page["page_number"] for page in whole["pages"]] == [1, 2, 3]
    for page, text in zip(whole["pages"], texts, strict=True):
        alone = (await client.get(f"/jobs/{job_id}/pages/{page['page_number']}/elements")).json
        assert page == {name: alone[name] for name in page}
        assert text in " ".join(element["text"] for element in page["elements"])
        assert page["width"] > 0
    lines = await client.get(f"/jobs/{job_id}/elements?format=jsonl&lines=1&pages=2-")
    assert lines.headers["Content-Type"] == "application/x-ndjson"
    read = [json.loads(line) for line in lines.body.decode().splitlines()]
    assert [(one["schema_version"], one["page_number"]) for one in read] == [(1, 2), (1, 3)]
    assert all(element["lines"] for page in read for element in page["elements"])
    result = (await client.get(f"/jobs/{job_id}/result?include=words,outline,embedded_files")).json["result"]
    assert result["details"] == {"embedded_files": [], "outline": []}
    assert [page["page_number"] for page in result["pages"]] == [1, 2, 3]
    assert all(element["words"] for page in result["pages"] for element in page["elements"])
    one = (await client.get(f"/jobs/{job_id}-p2/result?include=lines")).json["result"]
    assert [page["page_number"] for page in one["pages"]] == [2]
    assert (await client.get(f"/jobs/{job_id}/result?include=lines&format=md")).status == 400
    held = await client.ask("POST", "/convert?wait=240&include=words", data=form(("a.pdf", make_pdf(*texts))))
    assert (
        held.json["result"]["pages"]
        == (await client.get(f"/jobs/{job_id}/result?include=words")).json["result"]["pages"]
    )
    refused = await client.ask("POST", "/convert?include=words&format=md", data=form(("a.pdf", b"x")))
    assert (refused.status, "include" in refused.json["error"]) == (400, True)


async def test_elements_are_refused_in_words_when_they_can_not_be_had(
    client: Client, idle_server: Server, make_pdf: Pdf
) -> None:
    job_id = await converted(client, make_pdf(fresh("one")))
    for query in ("pages=two", "format=xml", "lines=perhaps", "include=colours"):
        assert (await client.get(f"/jobs/{job_id}/elements?{query}")).status == 400
    assert (await client.get(f"/jobs/{job_id}/elements?pages=7")).json["pages"] == []
    assert (await client.get("/jobs/0123456789abcdef/elements")).status == 404
    async with client_of(idle_server) as idle:
        waiting = (await idle.upload(make_pdf(fresh("waits")))).json["job_id"]
        for path in ("elements", "result?format=html"):
            answer = await idle.get(f"/jobs/{waiting}/{path}")
            assert (answer.status, answer.json["code"]) == (409, "not_ready")


async def test_html_has_a_section_for_each_page_and_nothing_that_acts(client: Client, make_pdf: Pdf) -> None:
    hostile = fresh("<script>alert(1)</script> & more")
    job_id = await converted(client, make_pdf(fresh("first"), hostile))
    whole = await client.get(f"/jobs/{job_id}/result?format=html")
    assert whole.headers["Content-Type"] == "text/html; charset=utf-8"
    assert whole.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert whole.headers["Content-Disposition"].startswith('attachment; filename="report.html"')
    text = whole.body.decode()
    assert text.startswith("<!DOCTYPE html>")
    assert text.endswith("</html>\n")
    words = Sections(text).words
    assert list(words) == ["1", "2"]
    assert hostile in words["2"]
    page = await client.get(f"/jobs/{job_id}-p2/result?format=html")
    assert page.headers["Content-Disposition"].startswith('attachment; filename="report-p2.html"')
    assert list(Sections(page.body.decode()).words) == ["2"]
    assert (await client.get(f"/jobs/{job_id}-split/result?format=html")).status == 404
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    assert (await client.get(f"/jobs/{job_id}/result", headers=browser)).json["job_id"] == job_id


async def test_html_is_answered_at_once_when_waited_for(client: Client, make_pdf: Pdf) -> None:
    text = fresh("waited for")
    form = aiohttp.FormData()
    form.add_field("file", make_pdf(text), filename="report.pdf")
    answer = await client.post("/convert?wait=240&format=html", data=form)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert text in Sections(answer.body.decode()).words["1"]


async def test_docling_document_has_the_elements_of_the_document_or_of_one_page(
    client: Client, make_pdf: Pdf
) -> None:
    texts = [fresh("first"), fresh("second")]
    job_id = await converted(client, make_pdf(*texts))
    whole = (await client.get(f"/jobs/{job_id}/result?format=docling")).json
    assert (whole["schema_name"], whole["name"]) == ("DoclingDocument", "report")
    assert whole["origin"]["mimetype"] == "application/pdf"
    assert [one["text"] for one in whole["texts"]] == texts
    assert whole["body"]["children"] == [{"$ref": "#/texts/0"}, {"$ref": "#/texts/1"}]
    assert list(whole["pages"]) == ["1", "2"]
    page = (await client.get(f"/jobs/{job_id}-p2/result?format=docling")).json
    assert [one["text"] for one in page["texts"]] == texts[1:]
    assert (await client.get(f"/jobs/{job_id}/result?format=docling&partial=1")).status == 200


async def test_extraction_without_ai_says_what_to_set_and_what_can_be_had(
    client: Client, make_pdf: Pdf
) -> None:
    job_id = await converted(client, make_pdf(fresh("Berth: 17")))
    body = {"job_id": job_id, "schema": {"type": "object", "properties": {"berth": {"type": "integer"}}}}
    answer = await client.post("/extract", json=body)
    assert (answer.status, answer.json["code"]) == (409, "ai_not_configured")
    assert "OPENAI_API_KEY" in answer.json["error"]
    assert answer.json["found"]["pairs"][0]["key"] == "Berth"


async def test_markdown_has_the_options_of_the_request(client: Client, make_pdf: Pdf) -> None:
    texts = [fresh("first"), fresh("second")]
    job_id = await converted(client, make_pdf(*texts))
    path = f"/jobs/{job_id}/result?format=md"
    broken = (await client.get(f"{path}&page_break=%0C{{page}}&front_matter=true")).body.decode()
    head, _, rest = broken.removeprefix("---\n").partition("---\n\n")
    assert 'filename: "report.pdf"\n' in head
    assert "pages: 2\n" in head
    assert rest == f"{texts[0]}\n\n\f2\n\n{texts[1]}"
    kept = (await client.get(f"{path}&headers=keep&tables=html")).body.decode()
    assert kept == f"{texts[0]}\n\n---\n\n{texts[1]}"
    assert (await client.get(f"/jobs/{job_id}-p2/result?format=md&figures=files")).body.decode() == texts[1]
    inside = (await client.get(f"/jobs/{job_id}/result?page_break=X")).json["result"]["markdown"]
    assert inside == f"{texts[0]}\n\nX\n\n{texts[1]}"
    for query in ("tables=ascii", "headers=some", "figures=all", f"page_break={'x' * 201}"):
        assert (await client.get(f"{path}&{query}")).status == 400


async def test_a_table_over_pages_is_written_once_when_it_is_asked_for(client: Client) -> None:
    drawn = LongTables(rules=True)
    drawn.table(HEAD, fees(50))
    job_id = await converted(client, drawn.pdf())
    path = f"/jobs/{job_id}/result?format=md"
    stored, joined = [(await client.get(path + more)).body.decode() for more in ("", "&join_tables=true")]
    assert (stored.count("| Boat |"), joined.count("| Boat |")) == (2, 1)
    assert [text.count("| Boat") for text in joined.split("\n\n---\n\n")] == [51, 0]
    alone = (await client.get(f"/jobs/{job_id}-p2/result?format=md&join_tables=true")).body.decode()
    assert alone == stored.split("\n\n---\n\n")[1]
    pages = (await client.get(f"/jobs/{job_id}/elements")).json["pages"]
    tables = [one for page in pages for one in page["elements"] if one["kind"] == "table"]
    assert [one.get("continues") for one in tables] == [None, tables[0]["id"]]


async def test_figures_are_cut_from_their_pages_and_all_formats_come_as_a_zip(client: Client) -> None:
    job_id = await converted(client, pictured_pdf(fresh("A page with a picture")))
    elements = (await client.get(f"/jobs/{job_id}/pages/1/elements")).json["elements"]
    (drawn,) = [one for one in elements if one["kind"] == "figure"]
    cut = await client.get(f"/jobs/{job_id}/figures/{drawn['id']}.png")
    assert (cut.status, cut.headers["Content-Type"]) == (200, "image/png")
    picture = Image.open(BytesIO(cut.body)).convert("RGB")
    x0, y0, x1, y1 = drawn["box"]
    assert picture.width == pytest.approx((x1 - x0) * 150 / 72, abs=2)
    assert picture.height == pytest.approx((y1 - y0) * 150 / 72, abs=2)
    red, green, blue = picture.getpixel((picture.width // 2, picture.height // 2))
    assert red > 200
    assert max(green, blue) < 60
    place = f"/jobs/{job_id}/figures/{drawn['id']}.png"
    by_form = {
        form: (await client.get(f"/jobs/{job_id}/result?format=md&figures={form}")).body.decode()
        for form in ("none", "placeholder", "embedded", "files")
    }
    assert "figure" not in by_form["none"]
    assert f"<!-- figure {drawn['id']} -->" in by_form["placeholder"]
    assert "](data:image/png;base64,iVBOR" in by_form["embedded"]
    assert f"]({place})" in by_form["files"]
    for wrong in ("p1-e99", "p2-e1", "x", "p1-e99.png"):
        assert (await client.get(f"/jobs/{job_id}/figures/{wrong}")).status == 404
    packed = await client.get(f"/jobs/{job_id}/result?format=zip")
    assert packed.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(BytesIO(packed.body)) as archive:
        assert set(archive.namelist()) == {
            "document.md",
            "document.html",
            "document.docling.json",
            "elements.json",
            "chunks.jsonl",
            "metadata.json",
            f"figures/{drawn['id']}.png",
        }
        assert f"](figures/{drawn['id']}.png)" in archive.read("document.md").decode()
        assert archive.read(f"figures/{drawn['id']}.png") == cut.body
        assert json.loads(archive.read("metadata.json"))["pages"] == 1


async def test_scan_comes_back_as_a_pdf_whose_words_are_found(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    scan = await client.upload(scanned_pdf("HARBOUR", 2), force_ocr="true", reading_effort="fast")
    job_id = scan.json["job_id"]
    await client.over(job_id)
    found = await client.get(f"/jobs/{job_id}/result?format=pdf")
    assert (found.status, found.headers["Content-Type"]) == (200, "application/pdf")
    with pymupdf.open(stream=found.body, filetype="pdf") as made:
        assert len(made) == 2
        for page in made:
            (place,) = page.search_for("HARBOUR")
            assert pymupdf.Point(80, 50) in place
    alone = await client.get(f"/jobs/{job_id}-p2/result?format=pdf")
    with pymupdf.open(stream=alone.body, filetype="pdf") as made:
        assert [page.get_text().strip() for page in made] == ["HARBOUR"]
    text = fresh("typed")
    typed = await client.get(f"/jobs/{await converted(client, make_pdf(text))}/result?format=pdf")
    with pymupdf.open(stream=typed.body, filetype="pdf") as made:
        assert made[0].get_text().strip() == text
    note = await client.upload(fresh("words of a note").encode(), name="note.txt")
    await client.over(note.json["job_id"])
    refused = await client.get(f"/jobs/{note.json['job_id']}/result?format=pdf")
    assert (refused.status, refused.json["code"]) == (409, "conflict")
    assert "text/plain" in refused.json["error"]
    written = server.data_dir / "scratch" / "searchable"
    await until(lambda: written.is_dir() and not list(written.iterdir()), "temporary files are deleted")


def pictured_pdf(text: str) -> bytes:
    """A page with a line of text and a red picture."""
    out = BytesIO()
    canvas = Canvas(out, invariant=1)
    canvas.drawString(72, 720, text)
    for row in range(12):
        canvas.drawString(
            72, 690 - 14 * row, f"Line {row} of the words that this page has beside its picture."
        )
    canvas.drawImage(ImageReader(Image.new("RGB", (60, 40), (230, 10, 10))), 150, 300, 180, 120)
    canvas.showPage()
    canvas.save()
    return out.getvalue()
