"""The interface of Apache Tika: the requests of tika-client, tika-python, Open WebUI and curl."""

from __future__ import annotations

import base64
from collections.abc import Callable
from xml.etree import ElementTree

import aiohttp
import pytest

from quire.api.doors.tika_routes import ocr_options
from quire.domain.job import JobOptions
from quire.errors import RequestError
from tests.support.serving import Client, Server
from tests.support.submitted_documents import fresh

Pdf = Callable[..., bytes]
JSON = {"Accept": "application/json"}


def tika_form(data: bytes, name: str = "report.pdf") -> aiohttp.FormData:
    """As tika-client sends it."""
    found = aiohttp.FormData(quote_fields=False)
    found.add_field("upload-file", data, filename=name, content_type="application/pdf")
    return found


async def test_text_and_metadata_come_as_json_when_open_webui_puts_a_file(
    client: Client, make_pdf: Pdf
) -> None:
    text = fresh("through the door")
    headers = {"Content-Type": "application/pdf", "X-Tika-PDFextractInlineImages": "true"}
    answer = await client.ask("PUT", "/tika/text", data=make_pdf(text, "second page"), headers=headers)
    assert (answer.status, answer.json["Content-Type"]) == (200, "application/pdf")
    assert answer.json["X-TIKA:content"].split() == [*text.split(), "second", "page"]
    assert answer.json["xmpTPg:NPages"] == "2"


async def test_the_calls_of_tika_client_are_answered(client: Client, make_pdf: Pdf) -> None:
    text = fresh("for paperless")
    pdf = make_pdf(text)
    plain = (await client.post("/tika/form/text", data=tika_form(pdf, "a ü.pdf"), headers=JSON)).json
    assert (plain["X-TIKA:content"], plain["resourceName"]) == (text, "a ü.pdf")
    assert plain["X-TIKA:Parsed-By"][0] == "quire"
    html = (await client.post("/tika/form", data=tika_form(pdf), headers=JSON)).json
    assert html["X-TIKA:content"].startswith("<!DOCTYPE html>")
    assert text in html["X-TIKA:content"]
    meta = (await client.post("/meta/form", data=tika_form(pdf), headers=JSON)).json
    assert (meta["Content-Type"], "X-TIKA:content" in meta) == ("application/pdf", False)
    listed = (await client.post("/rmeta/form/text", data=tika_form(pdf), headers=JSON)).json
    assert [one["X-TIKA:content"] for one in listed] == [text]


async def test_accept_chooses_the_form_when_a_body_is_put(client: Client, make_pdf: Pdf) -> None:
    text = fresh("as accepted")
    pdf = make_pdf(text)
    plain = await client.ask("PUT", "/tika", data=pdf)
    assert (plain.headers["Content-Type"], plain.text) == ("text/plain; charset=utf-8", text)
    html = await client.ask("PUT", "/tika", data=pdf, headers={"Accept": "text/html"})
    assert html.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "sandbox" in html.headers["Content-Security-Policy"]
    assert text in html.text
    table = await client.ask("PUT", "/meta", data=pdf, headers={"Accept": "text/csv"})
    assert '"Content-Type","application/pdf"\n' in table.text
    one = await client.ask("PUT", "/meta/Content-Type", data=pdf)
    assert one.text == "application/pdf"
    named = {"Content-Disposition": "attachment; filename=notes.txt"}
    assert (await client.ask("PUT", "/detect/stream", data=pdf, headers=named)).text == "application/pdf"
    assert (await client.get("/version")).text.startswith("Quire ")
    assert "quire" in (await client.get("/version", headers=JSON)).json
    assert "Please PUT" in (await client.get("/tika")).text


async def test_attachments_are_in_the_list_when_a_mail_is_sent(client: Client) -> None:
    inner = fresh("inside the attachment")
    mail = (
        "From: a@example.org\r\nTo: b@example.org\r\nSubject: Fees\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\nSee below.\r\n'
        "--x\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=fees.txt\r\n\r\n"
        f"{inner}\r\n--x--\r\n"
    ).encode()
    listed = (await client.ask("PUT", "/rmeta/text", data=mail, headers=JSON)).json
    assert [one["X-TIKA:embedded_depth"] for one in listed] == ["0", "1"]
    assert listed[1]["resourceName"] == "fees.txt"
    assert inner in listed[1]["X-TIKA:content"]
    whole = (await client.ask("PUT", "/tika/text", data=mail)).json["X-TIKA:content"]
    assert "See below." in whole
    assert inner in whole
    for path, accept in (("/tika", "text/xml"), ("/tika/html", "text/html"), ("/tika", "application/json")):
        answer = await client.ask("PUT", path, data=mail, headers={"Accept": accept})
        html = answer.json["X-TIKA:content"] if accept == "application/json" else answer.text
        root = ElementTree.fromstring(html)
        assert "See below." in "".join(root.itertext())
        entry = root.find(".//div[@class='package-entry']")
        assert entry is not None
        assert [entry.findtext("h1"), inner in "".join(entry.itertext())] == ["fees.txt", True]


def test_headers_for_ocr_become_options() -> None:
    assert ocr_options({"x-tika-ocrlanguage": "deu+eng"}).ocr_languages == "deu+eng"
    assert ocr_options({"x-tika-pdfocrstrategy": "OCR_ONLY"}).force_ocr
    assert ocr_options({"x-tika-pdfocrstrategy": "no_ocr"}).text_only
    assert ocr_options({"x-tika-ocrskipocr": "True"}).text_only
    assert ocr_options({"x-tika-pdfocrstrategy": "auto"}) == JobOptions()
    with pytest.raises(RequestError, match="X-Tika-OCRLanguage"):
        ocr_options({"x-tika-ocrlanguage": "../eng"})


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"\x7fELF" + b"\0" * 99, 422, "Linux program"),
        (b"", 400, "empty"),
        (b"%PDF-1.4 broken", 422, ""),
    ],
)
async def test_an_error_is_plain_text_when_the_document_is_bad(
    client: Client, data: bytes, status: int, words: str
) -> None:
    answer = await client.ask("PUT", "/tika", data=data)
    assert (answer.status, answer.headers["Content-Type"]) == (status, "text/plain; charset=utf-8")
    assert words in answer.text


async def test_a_key_is_demanded_and_may_be_in_the_address(server: Server, make_pdf: Pdf) -> None:
    basic = base64.b64encode(b"quire:key-of-alpha").decode()
    async with aiohttp.ClientSession() as session:
        one = Client(server.url, session)
        refused = await one.ask("PUT", "/tika", data=make_pdf("x"))
        assert (refused.status, refused.headers["Content-Type"]) == (401, "text/plain; charset=utf-8")
        assert refused.headers["WWW-Authenticate"]
        for given in (basic, basic[:-1] + "!"):
            answer = await one.ask(
                "PUT", "/tika", data=make_pdf("x"), headers={"Authorization": f"Basic {given}"}
            )
            assert answer.status == (200 if given == basic else 401)


async def test_open_webui_gets_one_entry_for_each_page(client: Client, make_pdf: Pdf) -> None:
    pages = [fresh("first"), fresh("second")]
    headers = {"X-Filename": "annual%20report.pdf", "X-OpenWebUI-User-Id": "1"}
    answer = await client.ask("PUT", "/process", data=make_pdf(*pages), headers=headers)
    assert [one["page_content"] for one in answer.json] == pages
    assert [one["metadata"]["page"] for one in answer.json] == [1, 2]
    assert {one["metadata"]["source"] for one in answer.json} == {"annual report.pdf"}
    notes = b'# Perl notes\n\nmy $x = 5;\nuse strict;\nprint "hello $x\\n";\n'
    named = await client.ask("PUT", "/process", data=notes, headers={"X-Filename": "notes.md"})
    assert "```" not in str(named.json), "the ending decides where the content could be several things"
    refused = await client.ask("PUT", "/process", data=b"\x7fELF" + b"\0" * 99)
    assert (refused.status, refused.headers["Content-Type"]) == (415, "text/plain; charset=utf-8")
    assert refused.text.startswith("This is a file of type")
