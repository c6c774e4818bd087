"""A document is usable with the text it has while AI still reads pages of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quire.domain.job import JobStatus, PageRecord
from quire.domain.page import PageSource
from quire.pipeline.vault.early_text import is_worth_filing
from quire.simulator.simulator_thread import RunningSimulator
from tests.support.environment import ROOT
from tests.support.marked_documents import heic_of, scanned_pdf
from tests.support.serving import Server
from tests.support.shared_services import SharedServices
from tests.support.vault_client import VaultClient
from tests.support.vault_fixtures import ai_settings
from tests.support.waiting import eventually, scaled

PHOTO = ROOT / "samples" / "photo-of-text.png"


@pytest.fixture
def hasty_vault(
    shared_services: SharedServices, new_vault: Callable[..., Server], running_simulator: RunningSimulator
) -> Server:
    """Documents complete early, and a hanging call is given up after some seconds."""
    settings = {
        **ai_settings(running_simulator),
        "REQUEST_TIMEOUT": scaled(6),
        "CLASSIFY_CALL_TIMEOUT": scaled(6),
        "CLASSIFY_MAX_ATTEMPTS": "1000",
        "CLASSIFY_WAIT": "100ms",
        "AI_EARLY_TEXT": "200ms",
    }
    return shared_services.get("hasty", lambda: new_vault(**settings))


@pytest.fixture
async def hasty(hasty_vault: Server, sim: RunningSimulator) -> AsyncIterator[VaultClient]:
    headers = {"Authorization": "Bearer key-of-alpha"}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield VaultClient(hasty_vault.url, session)


def photo(mark: int) -> bytes:
    """The sample photo of a text, made unlike any other."""
    from PIL import Image

    with Image.open(PHOTO) as opened:
        changed = opened.convert("RGB")
    changed.putpixel((0, 0), (mark, mark, mark))
    out = BytesIO()
    changed.save(out, "PNG")
    return out.getvalue()


async def completed(client: VaultClient, document_id: str) -> dict[str, Any]:
    """The document once it is usable."""

    async def is_completed() -> dict[str, Any] | None:
        found = await client.document(document_id)
        return found if found["status"] == "completed" else None

    return await eventually(is_completed, f"the completion of {document_id}")


async def titled(client: VaultClient, document_id: str) -> dict[str, Any]:
    async def has_title() -> dict[str, Any] | None:
        found = await client.document(document_id)
        return found if found["title"] else None

    return await eventually(has_title, f"the title of {document_id}")


async def page_of(client: VaultClient, document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(document["links"]["pages"])).json["pages"][0]
    return found


async def test_picture_is_usable_with_its_ocr_text_when_the_model_hangs(
    hasty: VaultClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    document_id = await hasty.add("photo.png", photo(1))
    early = await completed(hasty, document_id)

    assert (early["status"], early["title"]) == ("completed", None)
    assert early["error"]["code"] in ("still_reading", "classifying")
    text = (await hasty.get(f"/documents/{document_id}/content")).text
    word = max((word for word in text.split() if word.isalpha()), key=len)
    hits = (await hasty.get(f"/search?q={word}")).json["hits"]
    assert document_id in [hit["document"]["document_id"] for hit in hits]

    sim.play({})
    found = await titled(hasty, document_id)
    assert found["attempt"] == 1
    assert (await page_of(hasty, found))["source"] in ("ai", "ocr")


async def test_text_of_the_model_replaces_the_early_text_when_it_answers_late(
    hasty: VaultClient, sim: RunningSimulator
) -> None:
    sim.play({"models": [{"model": "*", "latency": 3.0}]})
    document_id = await hasty.add("photo.png", photo(2))
    early = await completed(hasty, document_id)
    assert early["title"] is None
    sim.play({})
    found = await titled(hasty, document_id)

    page = await page_of(hasty, found)
    assert (page["source"], found["attempt"], found["error"]) == ("ai", 1, None)
    final = (await hasty.get(f"/jobs/{found['jobs']['process']}/result?format=md")).text
    assert (await hasty.get(f"/documents/{document_id}/content")).text == final


async def test_early_text_is_kept_as_the_page_when_every_model_fails(
    hasty: VaultClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    document_id = await hasty.add("photo.png", photo(3))
    found = await hasty.settled(document_id)
    job = await hasty.over(found["jobs"]["process"])

    assert job["status"] == "completed"
    page = await page_of(hasty, found)
    assert (page["source"], page["status"]) == ("ocr", "completed")
    assert page["words"] > 3


async def test_own_text_of_a_mixed_document_is_usable_when_the_model_hangs(
    hasty: VaultClient, sim: RunningSimulator, make_pdf: Callable[..., bytes], tmp_path: Path
) -> None:
    import pymupdf

    sim.play({"rules": [{"fault": "hang"}]})
    with pymupdf.open(stream=make_pdf("The harbour ledger of the early page"), filetype="pdf") as mixed:
        with pymupdf.open(ROOT / "samples" / "pictures.pdf") as pictures:
            mixed.insert_pdf(pictures, to_page=0)
        data = mixed.tobytes()
    document_id = await hasty.add("mixed.pdf", data)
    early = await completed(hasty, document_id)

    assert (early["status"], early["error"]["code"]) == ("completed", "still_reading")
    assert "harbour ledger" in (await hasty.get(f"/documents/{document_id}/content")).text
    assert (await hasty.get(f"/documents/{document_id}/download")).body == data
    hits = (await hasty.get("/search?q=harbour+ledger")).json["hits"]
    assert document_id in [hit["document"]["document_id"] for hit in hits]

    await hasty.post(f"/jobs/{early['jobs']['process']}/cancel")

    async def cancelled() -> bool:
        return bool((await hasty.document(document_id))["error"]["code"] == "cancelled")

    await eventually(cancelled, "the reason of the cancellation")


async def test_long_scan_is_usable_with_its_ocr_text_when_the_model_hangs(
    hasty: VaultClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    document_id = await hasty.add("scan.pdf", scanned_pdf("HARBOUR", 5))
    early = await completed(hasty, document_id)
    assert early["title"] is None
    assert early["error"]["code"] in ("still_reading", "classifying")

    async def has_every_page() -> bool:
        text = (await hasty.get(f"/documents/{document_id}/content")).text
        return text.count("HARBOUR") == 5

    await eventually(has_every_page, "the OCR text of every page")
    found = (await hasty.get(early["links"]["pages"])).json["pages"]
    assert {page["source"] for page in found} == {"ocr"}
    hits = (await hasty.get("/search?q=harbour")).json["hits"]
    assert document_id in [hit["document"]["document_id"] for hit in hits]
    await hasty.post(f"/jobs/{early['jobs']['process']}/cancel")


async def test_nothing_is_called_usable_when_no_page_has_been_read(hasty: VaultClient) -> None:
    """CLASSIFY_WAIT is over before the picture is opened, which takes longer here than the wait."""
    damaged = heic_of("A photo that breaks off")
    document_id = await hasty.add("broken.heic", damaged[: len(damaged) // 3] + b"mark of this test")

    async def is_over() -> dict[str, Any] | None:
        found = await hasty.document(document_id)
        return found if found["status"] in ("completed", "failed") else None

    found = await eventually(is_over, f"the end of {document_id}")
    assert found["status"] == "failed"
    assert "AI" not in found["error"]["error"]


def test_failed_pages_are_not_worth_filing_when_none_has_text() -> None:
    """A page fails a moment before its document does; in between the document must not look usable."""
    failed = PageRecord(number=1, status=JobStatus.FAILED)
    read_by_ocr = PageRecord(number=2, status=JobStatus.PROCESSING, source=PageSource.OCR)
    with_text = PageRecord(number=3, status=JobStatus.PROCESSING, words=4, ref="chunk")

    assert not is_worth_filing([failed], is_complete=True)
    assert is_worth_filing([failed, read_by_ocr], is_complete=True)
    assert not is_worth_filing([failed, read_by_ocr], is_complete=False)
    assert is_worth_filing([failed, with_text], is_complete=False)
