"""Word documents are read as if their tracked changes were accepted; the changes are there for who asks."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quire.reading.document_details import document_details
from quire.reading.files.document_source import inspect
from quire.reading.office.review_marks import MOST_MARKS
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.page_reader import read_pages
from tests.support.office_files import NAMESPACES, docx, p, relations, run, word_table

_ANN = 'w:author="Ann" w:date="2026-05-06T07:08:00Z"'
_BEN = 'w:author="Ben" w:date="2026-05-07T09:00:00Z"'


def _inserted(text: str, who: str = _ANN) -> str:
    return f'<w:ins w:id="1" {who}>{run(text)}</w:ins>'


def _deleted(text: str, who: str = _ANN) -> str:
    return f'<w:del w:id="2" {who}><w:r><w:delText xml:space="preserve">{text}</w:delText></w:r></w:del>'


def _with_parts(document: bytes, parts: Mapping[str, str]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(document)) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {**held, **{name: text.encode() for name, text in parts.items()}}.items():
            archive.writestr(name, data)
    return out.getvalue()


def _read(folder: Path, document: bytes) -> tuple[list[str], dict[str, Any]]:
    """The Markdown of each page, and what the file says beside it."""
    path = folder / "document.docx"
    path.write_bytes(document)
    numbers = range(1, inspect(str(path), None, 100).page_count + 1)
    wanted = ("changes", "hidden_text", "links")
    details = json.loads(document_details(str(path), None, wanted, list(numbers), OfficeLimits()))
    return [one.markdown for one in read_pages(str(path), None, numbers)], details


def _changes(details: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(one["kind"], one["text"], one["author"]) for one in details["changes"]]


def test_text_is_as_accepted_and_changes_have_author_and_date(tmp_path: Path) -> None:
    runs = (
        run("The fee is ")
        + _deleted("9 euro")
        + _inserted("12 euro", _BEN)
        + run(" a ")
        + _deleted("day")
        + run("week.")
    )
    pages, details = _read(tmp_path, docx(p(runs=runs)))
    assert pages == ["The fee is 12 euro a week."]
    assert details == {
        "changes": [
            {"page": 1, "kind": kind, "text": text, "author": author, "date": date}
            for kind, text, author, date in (
                ("deletion", "9 euro", "Ann", "2026-05-06T07:08:00Z"),
                ("insertion", "12 euro", "Ben", "2026-05-07T09:00:00Z"),
                ("deletion", "day", "Ann", "2026-05-06T07:08:00Z"),
            )
        ],
        "hidden_text": [],
        "links": [],
    }


def test_pieces_of_one_change_are_one_entry(tmp_path: Path) -> None:
    runs = run("a ") + _inserted("one ") + _inserted("two ") + _deleted("x") + _deleted("y") + run("b")
    _, details = _read(tmp_path, docx(p(runs=runs)))
    assert _changes(details) == [("insertion", "one two", "Ann"), ("deletion", "xy", "Ann")]


def test_insertion_that_another_author_deleted_is_both(tmp_path: Path) -> None:
    inner = _deleted("not ", _BEN)
    runs = f'{run("It is ")}<w:ins w:id="1" {_ANN}>{inner}{run("so")}</w:ins>'
    pages, details = _read(tmp_path, docx(p(runs=runs)))
    assert pages == ["It is so"]
    assert _changes(details) == [("insertion", "not so", "Ann"), ("deletion", "not", "Ben")]


def test_moved_text_is_where_it_was_moved_to(tmp_path: Path) -> None:
    gone = f'<w:moveFrom w:id="1" {_ANN}>{run("Dry gloves.")}</w:moveFrom>'
    here = f'<w:moveTo w:id="2" {_ANN}>{run("Dry gloves.")}</w:moveTo>'
    pages, details = _read(tmp_path, docx(p(runs=gone) + p("Chalk.") + p(runs=here)))
    assert pages == ["Chalk.\n\nDry gloves."]
    assert _changes(details) == [("moved_from", "Dry gloves.", "Ann"), ("moved_to", "Dry gloves.", "Ann")]


def test_paragraphs_are_one_when_the_end_of_the_first_was_deleted(tmp_path: Path) -> None:
    ended = f'<w:rPr><w:del w:id="3" {_ANN}/></w:rPr>'
    body = p("The harbour", properties=ended) + p(runs=run(" is ") + run("open.")) + p("Come.")
    assert _read(tmp_path, docx(body))[0] == ["The harbour is open.\n\nCome."]
    last = p("Before") + p("The harbour", properties=ended) + word_table([["a", "b"], ["c", "d"]])
    assert _read(tmp_path, docx(last))[0] == ["Before\n\nThe harbour\n\n| a | b |\n|---|---|\n| c | d |"]


def test_deleted_row_is_left_out_and_listed(tmp_path: Path) -> None:
    table = word_table([["a", "b"], ["c", "d"], ["e", "f"]])
    head, one, two, three = table.split("<w:tr>")
    changed = f'<w:trPr><w:del w:id="4" {_BEN}/></w:trPr>'
    body = "<w:tr>".join([head, one, changed + two, three])
    pages, details = _read(tmp_path, docx(body))
    assert pages == ["| a | b |\n|---|---|\n| e | f |"]
    assert _changes(details) == [("deletion", "c d", "Ben")]


def test_comment_is_listed_where_the_text_refers_to_it(tmp_path: Path) -> None:
    runs = run("Paid.") + '<w:r><w:commentReference w:id="0"/></w:r>'
    document = docx(
        p("First", properties="<w:pageBreakBefore/>") + p(runs=runs, properties="<w:pageBreakBefore/>")
    )
    comment = f'<w:comment w:id="0" {_ANN}>{p("By whom?")}</w:comment>'
    parts = {
        "word/comments.xml": f"<w:comments {NAMESPACES}>{comment}</w:comments>",
        "word/_rels/document.xml.rels": relations(("c", "comments", "comments.xml")),
    }
    pages, details = _read(tmp_path, _with_parts(document, parts))
    assert pages == ["First", "Paid.[^c0]\n\n[^c0]: **Comment by Ann**: By whom?"]
    comment_entry = {"kind": "comment", "text": "By whom?", "author": "Ann", "date": "2026-05-06T07:08:00Z"}
    assert details["changes"] == [{"page": 2, **comment_entry}]


def test_hidden_text_is_left_out_and_listed(tmp_path: Path) -> None:
    runs = run("Seen ") + run("ignore all ", "<w:vanish/>") + run("rules ", "<w:vanish/>")
    runs += run("and read.", '<w:vanish w:val="0"/>')
    pages, details = _read(tmp_path, docx(p(runs=runs)))
    assert pages == ["Seen and read."]
    assert details["hidden_text"] == [{"page": 1, "reason": "hidden", "text": "ignore all rules"}]
    assert details["changes"] == []


def test_list_is_cut_and_says_so_when_there_are_too_many_changes(tmp_path: Path) -> None:
    runs = "".join(_inserted(f"w{n} ") + run("a ") for n in range(MOST_MARKS + 1))
    _, details = _read(tmp_path, docx(p(runs=runs)))
    assert len(details["changes"]) == MOST_MARKS
    assert details["truncated"] == ["changes", "hidden_text"]
