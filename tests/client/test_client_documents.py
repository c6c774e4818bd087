"""The vault through the client: added, named, found, saved, tried again, deleted."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from quire.client import (
    AsyncQuire,
    ConflictError,
    Filters,
    InvalidError,
    NotFoundError,
    Options,
    Quire,
    TookTooLongError,
    UsageError,
)
from tests.client.conftest import KEY, QUICK, Wire
from tests.support.serving import Server

Pdf = Callable[..., bytes]

INVOICE = "Invoice 4711\nAcme Ltd bills three days of consulting.\nDate: 14 March 2026\nTotal: 2400 EUR"


def test_document_is_named_found_and_saved_when_it_was_added(
    quire: Quire, make_pdf: Pdf, tmp_path: Path
) -> None:
    data = make_pdf(INVOICE, "Terms of payment: within a fortnight.")
    added = quire.documents.upload(data, name="invoice.pdf")
    assert (added.filename, added.deduplicated) == ("invoice.pdf", False)
    found = quire.documents.wait(added.document_id, wait_s=60)
    assert (found.status, found.pages, found.type) == ("completed", 2, "pdf")
    assert found.title
    assert isinstance(found.date, date | None)
    assert "fortnight" in quire.documents.content(added.document_id)
    assert "".join(quire.documents.text(added.document_id)) == quire.documents.content(added.document_id)
    assert added.document_id in [one.document_id for one in quire.documents.list()]
    assert added.document_id in [one.document_id for one in quire.documents.list(query="fortnight")]
    hit = next(hit for hit in quire.documents.search("payment fortnight") if hit.document == found)
    assert hit.snippet is not None
    assert any(piece.match for piece in hit.snippet.pieces)
    assert "fortnight" in str(hit.snippet)
    assert quire.documents.download(added.document_id, tmp_path / "back.pdf").read_bytes() == data
    again = quire.documents.upload(data, name="invoice.pdf")
    assert (again.document_id, again.deduplicated) == (added.document_id, True)


def test_list_and_search_are_paged_and_filtered_when_there_is_more_than_fits_a_page(
    quire: Quire, make_pdf: Pdf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.client.async_documents._AT_ONCE", 2)
    names = [f"paged-{number}.pdf" for number in range(5)]
    added = [quire.documents.upload(make_pdf(f"Quokka {name}"), name=name).document_id for name in names]
    for one in added:
        quire.documents.wait(one, wait_s=60)
    listed = [one.document_id for one in quire.documents.list(query="quokka")]
    assert listed == added[::-1]
    page = quire.documents.search_page("quokka", limit=2)
    assert len(page.hits) == 2
    assert page.next_cursor is not None
    following = quire.documents.search_page("quokka", limit=2, cursor=page.next_cursor)
    assert {hit.document.document_id for hit in page.hits}.isdisjoint(
        hit.document.document_id for hit in following.hits
    )
    tags = quire.documents.tags()
    assert tags
    tagged = list(quire.documents.list(filters=Filters(tags=(tags[0].name,))))
    assert len(tagged) == tags[0].documents
    assert all(tags[0].name in one.tags for one in tagged)
    assert quire.documents.tags(tags[0].name[:3])[0].name.startswith(tags[0].name[:3])
    assert (
        list(quire.documents.list(filters=Filters(status="failed", types=("pdf", "png"), language="xx")))
        == []
    )
    assert list(quire.documents.list(filters=Filters(date_from=date(1850, 1, 1), date_to="1851-01-01"))) == []


def test_many_files_are_added_at_once_when_some_are_refused(
    quire: Quire, make_pdf: Pdf, tmp_path: Path
) -> None:
    for name in ("a.pdf", "b.pdf"):
        (tmp_path / name).write_bytes(make_pdf(f"Bulk {name}"))
    (tmp_path / "empty.pdf").write_bytes(b"")
    done = quire.documents.upload_many(sorted(tmp_path.iterdir()))
    assert [one.filename for one in done.documents] == ["a.pdf", "b.pdf"]
    assert [one.filename for one in done.rejected] == ["empty.pdf"]
    with pytest.raises(InvalidError):
        quire.documents.upload(b"", name="nothing.pdf")
    with pytest.raises(UsageError):
        quire.documents.upload_many([])


def test_zip_has_text_and_metadata_when_exported(quire: Quire, make_pdf: Pdf, tmp_path: Path) -> None:
    added = quire.documents.upload(make_pdf("Axolotl census"), name="axolotl.pdf")
    quire.documents.wait(added.document_id, wait_s=60)
    saved = quire.documents.export(tmp_path / "all.zip", originals=True)
    with zipfile.ZipFile(saved) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if name.endswith("document.md")]
        known = [
            json.loads(archive.read(name)) for name in archive.namelist() if name.endswith("metadata.json")
        ]
    assert any("Axolotl census" in text for text in texts)
    assert added.document_id in [one["document_id"] for one in known]


def test_failed_document_is_read_when_reprocessed_with_its_password(quire: Quire, make_pdf: Pdf) -> None:
    added = quire.documents.upload(make_pdf("Sealed", password="pw"), name="sealed.pdf")
    failed = quire.documents.wait(added.document_id, wait_s=60)
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error["code"] == "password_required"
    with pytest.raises(ConflictError):
        quire.documents.content(added.document_id)
    assert quire.documents.reprocess(added.document_id, password="pw").outcome == "started"
    assert quire.documents.wait(added.document_id, wait_s=60).status == "completed"
    assert "Sealed" in quire.documents.content(added.document_id)


async def test_nothing_is_left_and_nothing_doubled_when_answers_are_lost(
    wire: Wire, aquire: AsyncQuire, make_pdf: Pdf
) -> None:
    async with AsyncQuire(wire.url, KEY, retrying=QUICK) as cut:
        wire.cuts = 2
        forced = await cut.documents.upload(make_pdf("Twice?"), name="twice.pdf", options=Options(force=True))
        same = [one async for one in aquire.documents.list() if one.filename == "twice.pdf"]
        assert [one.document_id for one in same] == [forced.document_id]
        await cut.documents.wait(forced.document_id, wait_s=60)
        wire.cuts = 1
        await cut.documents.delete(forced.document_id)  # the repeated one finds nothing, and that is right
    assert not await aquire.documents.exists(forced.document_id)
    with pytest.raises(NotFoundError):
        await aquire.documents.delete(forced.document_id)


async def test_other_teams_document_is_not_there(service: Server, aquire: AsyncQuire, make_pdf: Pdf) -> None:
    added = await aquire.documents.upload(make_pdf("Ours alone"), name="ours.pdf")
    async with AsyncQuire(service.url, "key-of-beta") as beta:
        assert not await beta.documents.exists(added.document_id)
        assert [one async for one in beta.documents.list()] == []


async def test_waiting_ends_when_the_callers_time_is_up(aquire: AsyncQuire, make_pdf: Pdf) -> None:
    big = make_pdf(*(f"Sheet {number}" for number in range(400)))
    added = await aquire.documents.upload(big, name="big.pdf")
    with pytest.raises(TookTooLongError):
        await aquire.documents.wait(added.document_id, wait_s=0.001)
    await aquire.documents.delete(added.document_id)
