"""Headers and footers of Word documents are elements, which Markdown has only when it is asked for them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from quire.domain.element import ElementKind
from quire.reading.files.document_source import inspect
from quire.reading.pdf.page_reader import read_pages
from quire.rendering.page_markdown import MarkdownOptions, render_markdown
from tests.support.office_files import NAMESPACES, docx, p, relations


def _with_headers(body: str, texts: dict[str, str], settings: str = "") -> bytes:
    """A document with parts of the names given, each with a relation of its name."""
    out = io.BytesIO(docx(body))
    rows = [(name, name.rstrip("0123456789"), f"{name}.xml") for name in (*texts, "settings")]
    with zipfile.ZipFile(out) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["word/_rels/document.xml.rels"] = relations(*rows).encode()
    for name, inner in texts.items():
        parts[f"word/{name}.xml"] = f"<w:hdr {NAMESPACES}>{inner}</w:hdr>".encode()
    parts["word/settings.xml"] = f"<w:settings {NAMESPACES}>{settings}</w:settings>".encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return made.getvalue()


def _section(*names: str, more: str = "") -> str:
    inner = "".join(
        f'<w:{name.rstrip("0123456789")}Reference w:type="{kind}" r:id="{name}"/>'
        for name, _, kind in (one.partition(":") for one in names)
    )
    return f"<w:sectPr>{inner}{more}</w:sectPr>"


_TEXTS = {
    "header1": p("Annual *report*"),
    "header2": p("Annex"),
    "header3": p("Cover"),
    "header4": p("Left"),
    "footer1": p("Seaside Ltd") + p("Page 1"),
}


def _lines(folder: Path, document: bytes) -> list[list[str]]:
    """Of each page the headers and footers, after a look at its Markdown without and with them."""
    path = folder / "document.docx"
    path.write_bytes(document)
    count = inspect(str(path), None, 100).page_count
    found = []
    for page in read_pages(str(path), None, range(1, count + 1)):
        running = [one for one in page.elements if one.kind is not ElementKind.PARAGRAPH]
        assert all(one.repeated for one in running)
        assert len({one.id for one in page.elements}) == len(page.elements)
        assert page.markdown == render_markdown(page.elements)
        kept = render_markdown(page.elements, MarkdownOptions(keep_running=True))
        assert all((one.markdown or one.text) in kept for one in running)
        found.append([f"{one.kind.value}: {one.text}" for one in running])
    return found


def test_headers_come_once_for_each_section_when_they_differ(tmp_path: Path) -> None:
    first, same = _section("header1:default", "footer1:default"), _section()
    body = p("one", properties=first) + p("two", properties=same) + p("three") + _section("header2:default")
    assert _lines(tmp_path, _with_headers(body, _TEXTS)) == [
        ["running_header: Annual *report*", "running_footer: Seaside Ltd Page 1"],
        [],
        ["running_header: Annex", "running_footer: Seaside Ltd Page 1"],
    ]


def test_headers_of_first_and_even_pages_come_only_when_the_document_uses_them(tmp_path: Path) -> None:
    names = ("header3:first", "header1:default", "header4:even")
    plain = _with_headers(p("one") + _section(*names), _TEXTS)
    assert _lines(tmp_path, plain) == [["running_header: Annual *report*"]]
    used = _with_headers(p("one") + _section(*names, more="<w:titlePg/>"), _TEXTS, "<w:evenAndOddHeaders/>")
    assert _lines(tmp_path, used) == [
        ["running_header: Cover", "running_header: Annual *report*", "running_header: Left"]
    ]


def test_document_is_read_when_its_header_is_damaged(tmp_path: Path) -> None:
    assert _lines(tmp_path, _with_headers(p("one") + _section("header1:default"), {"header1": "<w:p>"})) == [
        []
    ]
