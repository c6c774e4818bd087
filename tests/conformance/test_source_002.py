"""Source 002: the vault. Documents are read, classified and tagged, and are usable whatever the AI does.

Documents are processed once by fixtures of the module, which keep what the service answered; most tests look at that.
"""

from __future__ import annotations

import asyncio
import base64
import io
import struct
import subprocess
import sys
import uuid
import zipfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import aiohttp
import pytest

from quire.simulator.simulator_thread import RunningSimulator
from tests.support.environment import ROOT, clean_environment
from tests.support.serving import Answer, Client, Server, client_of
from tests.support.waiting import DEADLINE_S, eventually, scaled

SETTINGS = {
    "SECONDARY_ENGINE": "none",
    "OPENAI_FAST_MODEL": "classifier",
    "CLASSIFY_WAIT": "300ms",
    "CLASSIFY_RETRY_DELAY": "100ms",
    "CLASSIFY_RATE_LIMIT_DELAY": "100ms",
    "CLASSIFY_QUOTA_DELAY": "100ms",
    # Tests wait for these where a model hangs; on a busy machine a call with a picture takes more than a second.
    "CLASSIFY_CALL_TIMEOUT": "4s",
    "REQUEST_TIMEOUT": scaled(5),
    "BREAKER_BASE_BACKOFF": "100ms",
    "BREAKER_MAX_BACKOFF": "200ms",
    "AI_WAIT_MAX": "1s",
    "CLASSIFY_MAX_ATTEMPTS": "1000",
}
UNFINISHED = ("classifying", "still_reading", "ai_unavailable")


# ---- documents -------------------------------------------------------------------------------------------------


def letter(number: object) -> bytes:
    return (
        f"# Delivery of the turbines {number}\n\nHamburg, 2026-02-11\n\n"
        "The turbines for the harbour station leave on Monday and arrive on Thursday.\n"
    ).encode()


def picture(kind: str = "PNG", size: tuple[int, int] = (640, 480), **options: Any) -> bytes:
    """A picture without text, unlike any other."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", size, "white")
    draw: Any = ImageDraw.Draw(image)
    draw.rectangle((50, 50, size[0] // 2, size[1] // 2), fill=(uuid.uuid4().int % 200, 40, 120))
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def photo_of_text() -> bytes:
    from PIL import Image

    with Image.open(ROOT / "samples" / "photo-of-text.png") as opened:
        changed = opened.convert("RGB")
    changed.putpixel((0, 0), (uuid.uuid4().int % 256, 0, 0))
    out = io.BytesIO()
    changed.save(out, "PNG")
    return out.getvalue()


def heic(size: tuple[int, int] = (400, 300)) -> bytes:
    import pillow_heif
    from PIL import Image

    out = io.BytesIO()
    pillow_heif.from_pillow(Image.effect_noise(size, 60).convert("RGB")).save(out)
    return out.getvalue()


def heavy_heic() -> bytes:
    """Over 15 MB: readers skip the box at its end."""
    padding = 15 << 20
    return heic() + struct.pack(">I4s", padding, b"free") + bytes(padding - 8)


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("inside.bin", uuid.uuid4().bytes)
    return out.getvalue()


# ---- asking ----------------------------------------------------------------------------------------------------


async def add(client: Client, name: str, data: bytes, **fields: str) -> str:
    answer = await client.upload(data, name=name, path="/documents", force="true", **fields)
    assert answer.status == 202, answer.text
    return str(answer.json["documents"][0]["document_id"])


async def document(client: Client, document_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/documents/{document_id}")).json
    return found


async def document_when(
    client: Client, document_id: str, condition: Callable[[dict[str, Any]], Any], what: str
) -> dict[str, Any]:
    async def holds() -> dict[str, Any] | None:
        found = await document(client, document_id)
        return found if condition(found) else None

    return await eventually(holds, f"{what} of {document_id}")


async def ended(client: Client, document_id: str) -> dict[str, Any]:
    """The document once it is no longer pending."""
    return await document_when(client, document_id, lambda found: found["status"] != "pending", "the end")


async def classified(client: Client, document_id: str, attempt: int = 1) -> dict[str, Any]:
    """The document once it has a title."""
    return await document_when(
        client,
        document_id,
        lambda found: found["title"] and found["attempt"] >= attempt and found["status"] == "completed",
        "the title",
    )


async def explained(client: Client, document_id: str) -> dict[str, Any]:
    """The document once it says why it has no title."""
    return await document_when(
        client,
        document_id,
        lambda found: found["error"] and found["error"]["code"] not in UNFINISHED,
        "the reason",
    )


def ai_calls(service: Server, document: dict[str, Any]) -> list[str]:
    """The lines of the service's log about AI calls for this document."""
    ids = [document["document_id"], *filter(None, document["jobs"].values())]
    return [
        line for line in service.log.splitlines() if "AI call" in line and any(one in line for one in ids)
    ]


async def searched(client: Client, words: str) -> dict[str, dict[str, Any]]:
    hits = (await client.get("/search", params={"q": words, "limit": "100"})).json["hits"]
    return {hit["document"]["document_id"]: hit for hit in hits}


def asked_of_the_classifier(sim: RunningSimulator) -> dict[str, str]:
    """Text and picture (base64) of the latest question about a picture to the model that classifies."""
    content = sim.request("classifier", containing="image_url")["messages"][-1]["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [part["text"] for part in parts if part["type"] == "text"]
    pictures = [part["image_url"]["url"].rpartition(",")[2] for part in parts if part["type"] == "image_url"]
    return {"text": "\n".join(texts), "image": "".join(pictures)}


@pytest.fixture(scope="module")
def ask(service: Server) -> Callable[[Callable[[Client], Coroutine[Any, Any, Any]]], Any]:
    """Runs what a fixture of the module asks of the shared service."""

    def run(work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
        async def go() -> Any:
            async with client_of(service) as client:
                return await work(client)

        return asyncio.run(go())

    return run


@pytest.fixture(autouse=True)
def healthy(sim: RunningSimulator) -> Iterator[None]:
    yield
    sim.play({})


# ---- processing ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text(ask: Callable[..., Any], sim: RunningSimulator) -> dict[str, Any]:
    """A text that was classified and whose tags were embedded, with its jobs."""

    async def go(client: Client) -> dict[str, Any]:
        answer = await client.upload(letter(1), name="letter.md", path="/documents", force="true")
        accepted = answer.json["documents"][0]
        found = await classified(client, accepted["document_id"])
        classify = await client.over(found["jobs"]["classify"])

        async def embedding() -> bool:
            return (await client.get(f"/jobs/{found['jobs']['embed']}")).status == 200

        await eventually(embedding, "the embedding")
        embed = await client.over(found["jobs"]["embed"])
        process = (await client.get(f"/jobs/{found['jobs']['process']}")).json
        last = await document(client, found["document_id"])
        return {
            "accepted": accepted, "document": last, "classify": classify, "embed": embed, "process": process,
        }  # fmt: skip

    found: dict[str, Any] = ask(go)
    return found


@pytest.mark.requirement("002-1", "A file uploaded to the vault is processed without a further request")
def test_upload_is_processed_when_it_is_accepted(text: dict[str, Any]) -> None:
    assert text["document"]["status"] == "completed"


@pytest.mark.requirement("002-1a", "The text of a document is extracted and can be read")
async def test_text_is_extracted_when_a_document_is_processed(client: Client, text: dict[str, Any]) -> None:
    answer = await client.get(f"/documents/{text['document']['document_id']}/content")
    assert "harbour station" in answer.text


@pytest.mark.requirement("002-2", "A text model gives a document its title")
def test_document_has_a_title_when_classified(text: dict[str, Any]) -> None:
    assert text["document"]["title"].startswith("Delivery of the turbines")
    assert text["document"]["classified_by"].startswith("openai:")


@pytest.mark.requirement("002-2a", "A text model gives a document its summary")
def test_document_has_a_summary_when_classified(text: dict[str, Any]) -> None:
    assert text["document"]["summary"]


@pytest.mark.requirement("002-2b", "A text model gives a document its date")
def test_document_has_its_date_when_classified(text: dict[str, Any]) -> None:
    assert text["document"]["date"] == "2026-02-11"


@pytest.mark.requirement("002-2c", "A text model gives a document its tags")
def test_document_has_tags_when_classified(text: dict[str, Any]) -> None:
    assert 1 <= len(text["document"]["tags"]) <= 5


@pytest.fixture(scope="module")
def photo(ask: Callable[..., Any], sim: RunningSimulator) -> dict[str, Any]:
    """A large photo that was classified, and the last request that the model got: that of the classification."""

    async def go(client: Client) -> dict[str, Any]:
        found = await classified(client, await add(client, "photo.png", picture(size=(3000, 1500))))
        return {
            "document": found,
            "job": await client.over(found["jobs"]["classify"]),
            "asked": asked_of_the_classifier(sim),
        }

    found: dict[str, Any] = ask(go)
    return found


@pytest.mark.requirement("002-3", "An image is classified by a vision model, which sees the picture")
def test_model_sees_the_picture_when_an_image_is_classified(photo: dict[str, Any]) -> None:
    assert photo["asked"]["image"]


@pytest.mark.requirement("002-3a", "The vision model gives an image its title and summary")
def test_image_has_title_and_summary_when_classified(photo: dict[str, Any]) -> None:
    assert photo["document"]["title"]
    assert photo["document"]["summary"]


@pytest.mark.requirement("002-3b", "What AI reads on an image is its content")
async def test_image_has_content_when_classified(client: Client, photo: dict[str, Any]) -> None:
    answer = await client.get(f"/documents/{photo['document']['document_id']}/content")
    assert len(answer.text.split()) > 5


# ---- states ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("002-4", "A new document is `pending` until it is processed")
def test_document_is_pending_when_it_is_new(text: dict[str, Any]) -> None:
    assert (text["accepted"]["status"], text["accepted"]["state"]) == ("pending", "pending")


@pytest.mark.requirement("002-4a", "A classified document is `completed` and has its title")
def test_document_is_completed_when_classified(text: dict[str, Any]) -> None:
    assert (text["document"]["status"], text["document"]["state"]) == ("completed", "completed")
    assert text["document"]["error"] is None


@pytest.fixture(scope="module")
def unnamed(ask: Callable[..., Any], sim: RunningSimulator) -> dict[str, Any]:
    """A letter whose classification failed: its record, text, file and search hit; then its record after recovery."""

    async def go(client: Client) -> dict[str, Any]:
        sim.play({"rules": [{"fault": "server_error"}]})
        document_id = await add(client, "letter.md", letter("unnamed"))
        found: dict[str, Any] = {"document": await explained(client, document_id)}
        found["content"] = (await client.get(f"/documents/{document_id}/content")).text
        found["file"] = (await client.get(f"/documents/{document_id}/download")).body
        found["found"] = document_id in await searched(client, "turbines")
        listed = (await client.get("/documents?status=needs_classification&limit=100")).json["documents"]
        found["listed"] = document_id in [one["document_id"] for one in listed]
        sim.play({})
        found["later"] = await classified(client, document_id)
        return found

    found: dict[str, Any] = ask(go)
    return found


@pytest.mark.requirement("002-5", "A document whose classification fails is `completed`, not `failed`")
def test_document_is_completed_when_the_ai_fails(unnamed: dict[str, Any]) -> None:
    assert unnamed["document"]["status"] == "completed"


@pytest.mark.requirement("002-5a", "Its title is null")
def test_title_is_null_when_the_ai_fails(unnamed: dict[str, Any]) -> None:
    assert unnamed["document"]["title"] is None


@pytest.mark.requirement("002-5b", "Its file can be downloaded as it came in: no data is lost")
def test_file_can_be_downloaded_when_the_ai_fails(unnamed: dict[str, Any]) -> None:
    assert unnamed["file"] == letter("unnamed")


@pytest.mark.requirement("002-5c", "Its text can be read")
def test_text_can_be_read_when_the_ai_fails(unnamed: dict[str, Any]) -> None:
    assert "harbour station" in unnamed["content"]


@pytest.mark.requirement("002-5d", "It is found by its words")
def test_document_is_found_when_the_ai_fails(unnamed: dict[str, Any]) -> None:
    assert unnamed["found"]


@pytest.mark.requirement("002-5e", "It says why it has no title")
def test_reason_is_given_when_the_ai_fails(unnamed: dict[str, Any]) -> None:
    assert unnamed["document"]["error"]["error"] == "The AI answered with a server error."


@pytest.mark.requirement("002-6", "Documents that need classification can be listed")
def test_document_is_listed_when_it_needs_classification(unnamed: dict[str, Any]) -> None:
    assert unnamed["document"]["state"] == "needs_classification"
    assert unnamed["listed"]


@pytest.mark.requirement("002-7", "It is classified later by itself, when a model is back")
def test_document_is_classified_by_itself_when_a_model_is_back(unnamed: dict[str, Any]) -> None:
    assert (unnamed["later"]["attempt"], unnamed["later"]["state"]) == (1, "completed")
    assert unnamed["later"]["error"] is None


@pytest.mark.requirement(
    "002-7a", "A document is completed while its classification still runs, and gets its title then"
)
async def test_document_is_usable_when_its_model_is_slow(client: Client, sim: RunningSimulator) -> None:
    sim.play({"models": [{"model": "*", "latency": 0.9}]})
    document_id = await add(client, "letter.md", letter("slow"))
    found = await ended(client, document_id)
    assert (found["status"], found["title"], found["error"]["code"]) == ("completed", None, "classifying")
    assert (await classified(client, document_id))["attempt"] == 1


@pytest.mark.requirement("002-7b", "A picture is usable with its OCR text while AI does not answer")
async def test_picture_is_usable_when_the_model_hangs(client: Client, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    document_id = await add(client, "scan.png", photo_of_text())
    found = await ended(client, document_id)
    assert (found["status"], found["title"]) == ("completed", None)
    assert len((await client.get(f"/documents/{document_id}/content")).text.split()) > 5
    sim.play({})
    await classified(client, document_id)


# ---- error categories ------------------------------------------------------------------------------------------


async def refused_with(client: Client, sim: RunningSimulator, fault: str) -> dict[str, Any]:
    """The error of a letter whose model fails like this."""
    sim.play({"rules": [{"fault": fault}]})
    found = await explained(client, await add(client, "letter.md", letter(fault)))
    assert (found["status"], found["title"]) == ("completed", None)
    error: dict[str, Any] = found["error"]
    sim.play({})
    if error["retryable"]:  # so that its next round is not in the way of other tests
        await classified(client, found["document_id"])
    return error


@pytest.mark.requirement(
    "002-8", "Content that the AI's filter blocks is `ai_content_blocked` and not retried"
)
async def test_blocked_content_is_not_retried(client: Client, sim: RunningSimulator) -> None:
    error = await refused_with(client, sim, "content_filter_error")
    assert (error["code"], error["retryable"]) == ("ai_content_blocked", False)


@pytest.mark.requirement("002-8a", "A quota that is used up is `ai_quota` and retried")
async def test_quota_is_retried(client: Client, sim: RunningSimulator) -> None:
    error = await refused_with(client, sim, "quota")
    assert (error["code"], error["retryable"]) == ("ai_quota", True)


@pytest.mark.requirement("002-8b", "An overloaded model is `ai_quota` and retried")
async def test_overload_is_retried(client: Client, sim: RunningSimulator) -> None:
    error = await refused_with(client, sim, "overloaded")
    assert (error["code"], error["retryable"]) == ("ai_quota", True)


@pytest.mark.requirement("002-8c", "Too many requests are `rate_limit` and retried")
async def test_rate_limit_is_retried(client: Client, sim: RunningSimulator) -> None:
    error = await refused_with(client, sim, "rate_limit")
    assert (error["code"], error["retryable"]) == ("rate_limit", True)


@pytest.mark.requirement("002-8d", "A call that takes too long is `timeout` and retried")
async def test_timeout_is_retried(client: Client, sim: RunningSimulator) -> None:
    error = await refused_with(client, sim, "hang")
    assert (error["code"], error["retryable"]) == ("timeout", True)


@pytest.mark.requirement("002-8e", "A lost connection is `network` and retried")
async def test_lost_connection_is_retried(client: Client, sim: RunningSimulator) -> None:
    error = await refused_with(client, sim, "reset")
    assert (error["code"], error["retryable"]) == ("network", True)


@pytest.mark.requirement("002-9", "A request that the AI rejects as invalid is `validation` and not retried")
async def test_invalid_request_is_not_retried(client: Client, sim: RunningSimulator) -> None:
    error = await refused_with(client, sim, "rejected")
    assert (error["code"], error["retryable"]) == ("validation", False)


@pytest.mark.requirement(
    "002-9a", "A classification that is final is a failed job; the document stays completed"
)
async def test_job_is_failed_when_its_error_is_final(client: Client, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "rejected"}]})
    found = await explained(client, await add(client, "letter.md", letter("final")))
    job = await client.over(found["jobs"]["classify"])
    assert (job["status"], job["error"]["code"]) == ("failed", "validation")
    assert (await document(client, found["document_id"]))["status"] == "completed"


# ---- defaults --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def defaults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every setting and its value where nothing is set, from `quire config`."""
    folder = tmp_path_factory.mktemp("defaults")
    shown = subprocess.run(
        [sys.executable, "-m", "quire", "config"],
        env=clean_environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {line.split()[0]: line.split()[1] for line in shown.splitlines() if len(line.split()) > 1}


@pytest.mark.requirement(
    "002-10", "By default a classification is retried 60 s after a quota or overload error"
)
def test_quota_delay_is_60_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["CLASSIFY_QUOTA_DELAY"] == "1m"


@pytest.mark.requirement("002-10a", "By default a classification is retried 30 s after a rate limit")
def test_rate_limit_delay_is_30_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["CLASSIFY_RATE_LIMIT_DELAY"] == "30s"


@pytest.mark.requirement(
    "002-10b", "By default a classification is retried 5 s after a timeout or network error"
)
def test_retry_delay_is_5_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["CLASSIFY_RETRY_DELAY"] == "5s"


@pytest.mark.requirement("002-11", "By default the processing of a document has 10 minutes")
def test_processing_has_10_minutes_by_default(defaults: dict[str, str]) -> None:
    assert defaults["VAULT_TIMEOUT"] == "10m"


@pytest.mark.requirement("002-11a", "By default the classification of a text has 90 s")
def test_text_classification_has_90_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["CLASSIFY_TIMEOUT"] == "1m30s"


@pytest.mark.requirement(
    "002-11b", "By default the classification of an image has 90 s, apart from that of a text"
)
def test_image_classification_has_90_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["CLASSIFY_IMAGE_TIMEOUT"] == "1m30s"


@pytest.mark.requirement("002-11c", "By default the download of an image for its classification has 60 s")
def test_image_download_has_60_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["CLASSIFY_DOWNLOAD_TIMEOUT"] == "1m"


@pytest.mark.requirement("002-11d", "By default an embedding has 30 s")
def test_embedding_has_30_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["EMBEDDING_TIMEOUT"] == "30s"


@pytest.mark.requirement("002-12", "By default a worker runs 10 classifications at once")
def test_10_classifications_run_at_once_by_default(defaults: dict[str, str]) -> None:
    assert defaults["CLASSIFY_CONCURRENCY"] == "10"


@pytest.mark.requirement("002-12a", "By default 20 classification and embedding jobs start in a second")
def test_20_jobs_start_in_a_second_by_default(defaults: dict[str, str]) -> None:
    assert defaults["VAULT_JOBS_PER_SECOND"] == "20"


@pytest.mark.requirement("002-13", "By default a document is stale after 10 minutes")
def test_document_is_stale_after_10_minutes_by_default(defaults: dict[str, str]) -> None:
    assert defaults["VAULT_STALE_AFTER"] == "10m"


@pytest.mark.requirement("002-13a", "By default pictures for AI are at most 2048 px in either direction")
def test_pictures_have_at_most_2048_px_by_default(defaults: dict[str, str]) -> None:
    assert defaults["IMAGE_MAX_PX"] == "2048"


@pytest.fixture(scope="module")
def narrow(start_service: Callable[..., Server], sim: RunningSimulator) -> dict[str, Any]:
    """What the model saw of four letters, where one classification runs at once and one job starts in a second."""
    service = start_service(
        **{**SETTINGS, "CLASSIFY_CONCURRENCY": "1", "VAULT_JOBS_PER_SECOND": "1", "EMBEDDING_PROVIDER": "off"}
    ).wait_ready()

    async def go() -> dict[str, Any]:
        sim.play({"models": [{"model": "*", "latency": 0.5}]})
        sim.reset()
        async with client_of(service) as client:
            ids = [await add(client, "letter.md", letter(f"narrow {n}")) for n in range(4)]
            for one in ids:
                await classified(client, one)
        sim.play({})
        return dict(sim.stats()["models"]["classifier"])

    found = asyncio.run(go())
    service.stop()
    return found


@pytest.mark.requirement("002-12b", "No more classifications run at once than the setting allows")
def test_one_classification_runs_at_once_when_the_setting_says_so(narrow: dict[str, Any]) -> None:
    assert (narrow["calls"], narrow["in_flight_max"]) == (4, 1)


@pytest.mark.requirement("002-12c", "No more jobs start in a second than the setting allows")
def test_jobs_are_spread_over_seconds_when_the_setting_says_so(narrow: dict[str, Any]) -> None:
    assert narrow["last_at"] - narrow["first_at"] > 2  # four jobs start in four different seconds


# ---- types that can't be read, and files that can't be opened ---------------------------------------------------


@pytest.fixture(scope="module")
def packed(ask: Callable[..., Any]) -> dict[str, Any]:
    """An archive in the vault: the end of its processing, its file, the counts, and the answer to a retry."""

    async def go(client: Client) -> dict[str, Any]:
        data = archive()
        document_id = await add(client, "things.zip", data)
        found: dict[str, Any] = {"data": data, "document": await ended(client, document_id)}
        found["file"] = (await client.get(f"/documents/{document_id}/download")).body
        found["counts"] = (await client.get("/documents/counts")).json["counts"]
        found["retry"] = await client.post(f"/documents/{document_id}/reprocess")
        return found

    found: dict[str, Any] = ask(go)
    return found


@pytest.mark.requirement("002-14", "An unsupported type completes: it is no failure")
def test_unsupported_type_is_completed_when_processed(packed: dict[str, Any]) -> None:
    assert (packed["document"]["status"], packed["document"]["state"]) == ("completed", "unsupported")


@pytest.mark.requirement("002-14a", "An unsupported type is not retried")
def test_unsupported_type_is_not_retryable_when_processed(packed: dict[str, Any]) -> None:
    assert (packed["document"]["error"]["code"], packed["document"]["error"]["retryable"]) == (
        "unsupported_type", False,
    )  # fmt: skip


@pytest.mark.requirement("002-14b", "The file of an unsupported type can be downloaded")
def test_unsupported_file_can_be_downloaded_when_processed(packed: dict[str, Any]) -> None:
    assert packed["file"] == packed["data"]


@pytest.mark.requirement(
    "002-14c", "Unsupported types are counted apart from documents that need classification"
)
def test_unsupported_types_are_counted_apart_when_asked(packed: dict[str, Any]) -> None:
    assert packed["counts"]["unsupported"] >= 1
    assert "needs_classification" in packed["counts"]


@pytest.mark.requirement(
    "002-15", "Reprocessing an unsupported type is skipped: the document stays completed"
)
def test_retry_is_skipped_when_the_type_is_unsupported(packed: dict[str, Any]) -> None:
    answer = packed["retry"]
    assert (answer.status, answer.json["outcome"], answer.json["status"]) == (200, "skipped", "completed")


@pytest.fixture(scope="module")
def damaged(ask: Callable[..., Any], service: Server) -> dict[str, Any]:
    """A PDF and a HEIC image that can't be opened, the AI calls for the image, and a retry of the PDF."""

    async def go(client: Client) -> dict[str, Any]:
        pdf = await ended(client, await add(client, "broken.pdf", b"%PDF-1.7 " + uuid.uuid4().bytes))
        image = heic()
        broken = image[: len(image) // 3] + uuid.uuid4().bytes
        heif = await ended(client, await add(client, "broken.heic", broken))
        retry = await client.post(f"/documents/{pdf['document_id']}/reprocess")
        return {"pdf": pdf, "heic": heif, "calls": ai_calls(service, heif), "retry": retry}

    found: dict[str, Any] = ask(go)
    return found


@pytest.mark.requirement("002-16", "A file that can't be opened is `failed`")
def test_document_is_failed_when_its_file_is_damaged(damaged: dict[str, Any]) -> None:
    assert (damaged["pdf"]["status"], damaged["pdf"]["state"]) == ("failed", "failed")


@pytest.mark.requirement("002-16a", "A failed document says its cause in words")
def test_cause_is_named_when_a_file_is_damaged(damaged: dict[str, Any]) -> None:
    assert "damaged" in damaged["pdf"]["error"]["error"]


@pytest.mark.requirement("002-16b", "A damaged image is not blamed on the AI, which is not called")
def test_ai_is_not_blamed_when_an_image_is_damaged(
    service: Server, photo: dict[str, Any], damaged: dict[str, Any]
) -> None:
    assert ai_calls(service, photo["document"])
    assert damaged["calls"] == []
    assert "AI" not in damaged["heic"]["error"]["error"]


@pytest.mark.requirement("002-16c", "A failed document can be retried")
def test_retry_starts_when_a_document_is_failed(damaged: dict[str, Any]) -> None:
    assert (damaged["retry"].status, damaged["retry"].json["outcome"]) == (202, "started")


# ---- retries ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rushed(ask: Callable[..., Any], sim: RunningSimulator) -> dict[str, Any]:
    """Ten retries at once of a classified letter, and how it ends."""

    async def go(client: Client) -> dict[str, Any]:
        document_id = await add(client, "letter.md", letter("rushed"))
        await classified(client, document_id)
        sim.play({"models": [{"model": "*", "latency": 0.5}]})
        place = f"/documents/{document_id}/reprocess"
        answers = [one.json for one in await asyncio.gather(*(client.post(place) for _ in range(10)))]
        sim.play({})
        return {"answers": answers, "document": await classified(client, document_id, 2)}

    found: dict[str, Any] = ask(go)
    return found


@pytest.mark.requirement("002-17", "A retry sets the document to `pending`")
def test_document_is_pending_when_it_is_retried(rushed: dict[str, Any]) -> None:
    (started,) = [one for one in rushed["answers"] if one["outcome"] == "started"]
    assert (started["status"], started["attempt"]) == ("pending", 2)


@pytest.mark.requirement("002-17a", "A retry is answered with the id of the job that processes the document")
def test_job_is_named_when_a_document_is_retried(rushed: dict[str, Any]) -> None:
    (started,) = [one for one in rushed["answers"] if one["outcome"] == "started"]
    assert started["job_id"] == rushed["document"]["jobs"]["process"]


@pytest.mark.requirement("002-17b", "A retried document is processed and classified again")
def test_document_is_classified_again_when_it_is_retried(rushed: dict[str, Any]) -> None:
    assert (rushed["document"]["attempt"], rushed["document"]["state"]) == (2, "completed")


@pytest.mark.requirement("002-17c", "The retry of an unknown document is answered with 404")
async def test_retry_is_404_when_the_document_is_unknown(client: Client) -> None:
    assert (await client.post(f"/documents/{uuid.uuid4()}/reprocess")).status == 404


@pytest.mark.requirement("002-18", "Many retries at once start one attempt")
def test_one_attempt_is_started_when_many_retries_come(rushed: dict[str, Any]) -> None:
    outcomes = [one["outcome"] for one in rushed["answers"]]
    assert (outcomes.count("started"), outcomes.count("running")) == (1, 9)


# ---- jobs ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("002-19", "The conversion has the deterministic id process-doc_{team}_{document}")
async def test_conversion_is_found_by_its_deterministic_id(client: Client, text: dict[str, Any]) -> None:
    found = (await client.get(f"/jobs/process-doc_default_{text['document']['document_id']}")).json
    assert found["job_id"] == text["document"]["jobs"]["process"]


@pytest.mark.requirement("002-19a", "The classification of a text has the id classify-doc_{team}_{document}")
def test_classification_of_a_text_has_its_deterministic_id(text: dict[str, Any]) -> None:
    assert text["classify"]["job_id"] == f"classify-doc_default_{text['document']['document_id']}"


@pytest.mark.requirement(
    "002-19b", "The classification of an image has the id classify-img_{team}_{document}"
)
def test_classification_of_an_image_has_its_deterministic_id(photo: dict[str, Any]) -> None:
    assert photo["job"]["job_id"] == f"classify-img_default_{photo['document']['document_id']}"


@pytest.mark.requirement("002-19c", "The embedding of tags has the id embed-tags_{team}_{document}")
def test_embedding_has_its_deterministic_id(text: dict[str, Any]) -> None:
    assert text["embed"]["job_id"] == f"embed-tags_default_{text['document']['document_id']}"


@pytest.mark.requirement("002-19d", "A classification is a job below the conversion")
def test_classification_is_below_the_conversion(text: dict[str, Any]) -> None:
    assert text["classify"]["parent_job_id"] == text["process"]["job_id"]
    assert (text["classify"]["type"], text["classify"]["status"]) == ("classify", "completed")


@pytest.mark.requirement("002-20", "The same file uploaded again is the same document")
async def test_document_is_the_same_when_a_file_comes_again(client: Client) -> None:
    first = await client.upload(letter("twice"), name="a.md", path="/documents")
    second = await client.upload(letter("twice"), name="b.md", path="/documents")
    assert second.json["documents"][0]["deduplicated"] is True
    assert first.json["documents"][0]["document_id"] == second.json["documents"][0]["document_id"]
    await classified(client, first.json["documents"][0]["document_id"])


@pytest.mark.requirement("002-20a", "The same file uploaded many times at once is one document")
async def test_document_is_one_when_a_file_comes_many_times_at_once(client: Client) -> None:
    uploads = (client.upload(letter("at once"), name="a.md", path="/documents") for _ in range(8))
    ids = {one.json["documents"][0]["document_id"] for one in await asyncio.gather(*uploads)}
    assert len(ids) == 1
    await classified(client, *ids)


@pytest.mark.requirement("002-21", "Texts, images and embeddings have queues of their own")
async def test_queues_are_separate_when_listed(client: Client) -> None:
    queues = {queue["queue"] for queue in (await client.get("/queues")).json["queues"]}
    assert {"classify", "classify-image", "embed"} <= queues


@pytest.fixture(scope="module")
def revived(
    start_service: Callable[..., Server], sim: RunningSimulator, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """A letter whose process was killed while a model had it, after a restart; embeddings are rejected there."""
    folder = tmp_path_factory.mktemp("killed")
    settings = {
        **SETTINGS, "CLASSIFY_WAIT": "1h", "CLASSIFY_CALL_TIMEOUT": "1h",
        "EMBEDDING_PROVIDER": "openai", "EMBEDDING_MODEL": "embedder",
    }  # fmt: skip

    async def begin(service: Server) -> str:
        before = sim.stats()["total"]["in_flight"]
        async with client_of(service) as client:
            document_id = await add(client, "letter.md", letter("killed"))

            async def asked() -> bool:
                return bool(sim.stats()["total"]["in_flight"] > before)

            await eventually(asked, "the call of the classification")
        return document_id

    async def finish(service: Server, document_id: str) -> dict[str, Any]:
        async with client_of(service) as client:
            found = await classified(client, document_id)

            async def failed() -> bool:
                answer = await client.get(f"/jobs/{found['jobs']['embed']}")
                return answer.status == 200 and answer.json["status"] == "failed"

            await eventually(failed, "the failed embedding")
            return await document(client, document_id)

    sim.play({"rules": [{"fault": "hang"}]})
    first = start_service(folder=folder, **settings).wait_ready()
    document_id = asyncio.run(begin(first))
    first.process.kill()
    first.process.wait(DEADLINE_S)
    sim.play({"rules": [{"model": "embedder", "fault": "rejected"}]})
    second = start_service(folder=folder, **settings).wait_ready()
    found = asyncio.run(finish(second, document_id))
    second.stop()  # its embeddings would be in the way of other tests
    sim.play({})
    return found


@pytest.mark.requirement("002-21a", "A document ends although the process that classified it was killed")
def test_document_ends_when_its_process_was_killed(revived: dict[str, Any]) -> None:
    assert (revived["status"], revived["attempt"]) == ("completed", 1)


# ---- images ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def apple(ask: Callable[..., Any], sim: RunningSimulator) -> dict[str, Any]:
    """A HEIC photo that was classified, its picture, and what the model got."""

    async def go(client: Client) -> dict[str, Any]:
        found = await classified(client, await add(client, "photo.heic", heic()))
        asked = asked_of_the_classifier(sim)
        shown = await client.get(f"/jobs/{found['jobs']['process']}/pages/1/image")
        return {"document": found, "asked": asked, "shown": shown}

    found: dict[str, Any] = ask(go)
    return found


@pytest.mark.requirement("002-22", "HEIC images are accepted and classified")
def test_heic_is_classified_when_uploaded(apple: dict[str, Any]) -> None:
    assert (apple["document"]["type"], apple["document"]["state"]) == ("heic", "completed")


@pytest.mark.requirement("002-22a", "HEIC images are converted to JPEG for the model")
def test_model_gets_a_jpeg_when_an_image_is_heic(apple: dict[str, Any]) -> None:
    assert base64.b64decode(apple["asked"]["image"].rpartition(",")[2])[:3] == b"\xff\xd8\xff"


@pytest.mark.requirement("002-22b", "HEIC images are shown in a format that browsers know")
def test_picture_can_be_shown_when_an_image_is_heic(apple: dict[str, Any]) -> None:
    assert apple["shown"].headers["Content-Type"] in ("image/jpeg", "image/png", "image/webp")


@pytest.mark.requirement("002-22c", "A HEIC image over 15 MB is completed without AI seeing it")
async def test_heic_skips_the_ai_when_it_is_over_15_mb(client: Client, service: Server) -> None:
    found = await ended(client, await add(client, "photo.heic", heavy_heic()))
    await client.over(found["jobs"]["classify"])
    assert found["status"] == "completed"
    assert ai_calls(service, found) == []


@pytest.mark.requirement("002-23", "JPEG, PNG, WebP, GIF and TIFF images are accepted")
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF"])
async def test_image_is_accepted_when_it_has_a_known_type(client: Client, kind: str) -> None:
    found = await classified(client, await add(client, f"photo.{kind.lower()}", picture(kind)))
    assert (found["status"], found["content_type"]) == ("completed", f"image/{kind.lower()}")


@pytest.mark.requirement("002-23a", "HEIF images are accepted as HEIC ones are")
async def test_image_is_accepted_when_it_is_heif(client: Client) -> None:
    brand = heic().replace(b"ftypheic", b"ftypmif1", 1)
    found = await classified(client, await add(client, "photo.heif", brand))
    assert found["content_type"] in ("image/heic", "image/heif")


def size_of(picture_base64: str) -> tuple[int, int]:
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(picture_base64.rpartition(",")[2]))) as opened:
        return opened.size


@pytest.mark.requirement(
    "002-23b", "A large image is fit into 2048 px before AI sees it; its proportions stay"
)
def test_picture_is_fit_into_2048_px_when_it_is_large(photo: dict[str, Any]) -> None:
    assert size_of(photo["asked"]["image"]) == (2048, 1024)


@pytest.mark.requirement("002-23c", "A small image is not enlarged")
def test_picture_keeps_its_size_when_it_is_small(apple: dict[str, Any]) -> None:
    assert size_of(apple["asked"]["image"]) == (400, 300)


@pytest.mark.requirement("002-23d", "An image is turned upright as its camera noted")
async def test_picture_is_upright_when_its_camera_was_turned(client: Client, sim: RunningSimulator) -> None:
    from PIL import Image

    noted = Image.Exif()
    noted[0x0112] = 6  # turned by 90 degrees
    await classified(client, await add(client, "turned.jpg", picture("JPEG", (640, 480), exif=noted)))
    width, height = size_of(asked_of_the_classifier(sim)["image"])
    assert (width, height) == (480, 640)


# ---- embeddings and search -------------------------------------------------------------------------------------


@pytest.mark.requirement("002-24", "Tags get embeddings after the classification, by a job of their own")
def test_tags_are_embedded_when_a_document_is_classified(text: dict[str, Any]) -> None:
    assert (text["embed"]["type"], text["embed"]["status"]) == ("embed", "completed")
    assert text["embed"]["created_at"] >= text["classify"]["created_at"]


@pytest.mark.requirement("002-24a", "An embedding never changes the document's status")
def test_status_stays_when_the_tags_are_embedded(text: dict[str, Any]) -> None:
    assert text["document"]["status"] == "completed"


@pytest.mark.requirement("002-24b", "A failed embedding leaves its document completed and classified")
def test_document_stays_when_its_embedding_fails(revived: dict[str, Any]) -> None:
    assert (revived["state"], revived["error"]) == ("completed", None)
    assert revived["title"]


@pytest.mark.requirement("002-24c", "An embedding can be retried by itself")
async def test_embedding_is_retried_when_asked(client: Client, text: dict[str, Any]) -> None:
    before = await document(client, text["document"]["document_id"])
    answer = await client.post(f"/jobs/{text['embed']['job_id']}/retry")
    assert answer.status == 202
    assert (await client.over(text["embed"]["job_id"]))["status"] == "completed"
    assert (await document(client, before["document_id"]))["attempt"] == before["attempt"]


@pytest.mark.requirement("002-25", "Search finds a document by its words")
async def test_document_is_found_when_its_words_are_searched(client: Client, text: dict[str, Any]) -> None:
    assert text["document"]["document_id"] in await searched(client, "harbour station")


@pytest.mark.requirement("002-25a", "Documents can be listed by tag")
async def test_document_is_listed_when_its_tag_is_asked_for(client: Client, text: dict[str, Any]) -> None:
    answer = await client.get("/documents", params={"tag": text["document"]["tags"][0], "limit": "200"})
    assert text["document"]["document_id"] in [one["document_id"] for one in answer.json["documents"]]


@pytest.mark.requirement("002-25b", "Search uses the embeddings of tags and summary, besides words")
async def test_similarity_counts_when_searching(client: Client, text: dict[str, Any]) -> None:
    answer = (await client.get("/search", params={"q": text["document"]["tags"][0], "limit": "50"})).json
    assert answer["similarity"] is True


# ---- pictures without text -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blank(ask: Callable[..., Any], sim: RunningSimulator) -> dict[str, Any]:
    """A photo without text while AI fails, then what the model got when it was back."""

    async def go(client: Client) -> dict[str, Any]:
        sim.play({"rules": [{"fault": "server_error"}]})
        document_id = await add(client, "photo.png", picture())
        found: dict[str, Any] = {"document": await explained(client, document_id)}
        found["hit"] = (await searched(client, "page has no text")).get(document_id)
        sim.play({})
        found["later"] = await classified(client, document_id)
        found["asked"] = asked_of_the_classifier(sim)
        return found

    found: dict[str, Any] = ask(go)
    return found


@pytest.mark.requirement("002-26", "A photo without text is completed while AI fails, not failed")
def test_photo_is_completed_when_it_has_no_text_and_the_ai_fails(blank: dict[str, Any]) -> None:
    assert (blank["document"]["status"], blank["document"]["title"]) == ("completed", None)


@pytest.mark.requirement("002-26a", "The reason that is shown is the true one")
def test_reason_is_that_of_the_ai_when_a_photo_has_no_text(blank: dict[str, Any]) -> None:
    assert "AI" in blank["document"]["error"]["error"]


@pytest.mark.requirement("002-26b", "The note that a page has no text is never a title")
def test_title_is_no_note_when_a_photo_has_no_text(blank: dict[str, Any]) -> None:
    assert "no text" not in blank["later"]["title"].lower()


@pytest.mark.requirement("002-26c", "The note that a page has no text is never a snippet")
def test_snippet_is_no_note_when_a_photo_has_no_text(blank: dict[str, Any]) -> None:
    assert blank["hit"] is None or not blank["hit"]["snippet"]


@pytest.mark.requirement("002-26d", "The note that a page has no text is never sent to a model")
def test_model_gets_no_note_when_a_photo_has_no_text(blank: dict[str, Any]) -> None:
    assert blank["asked"]["image"]
    assert "no text" not in blank["asked"]["text"].lower()


# ---- stale documents -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stale(start_service: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A document that no worker takes: when it is fresh, when it is stale, and the answer to a retry.

    The service is started again with a shorter VAULT_STALE_AFTER: a slow machine must not miss the fresh state.
    """
    folder = tmp_path_factory.mktemp("idle")

    def start(stale_after: str) -> Server:
        settings = {"RUN_DISPATCHER": "0", "VAULT_STALE_AFTER": stale_after, "VAULT_SWEEP_INTERVAL": "1h"}
        return start_service(folder=folder, **settings).wait_ready()

    async def put(service: Server) -> dict[str, Any]:
        async with client_of(service) as client:
            return await document(client, await add(client, "waiting-card.md", letter("stale")))

    async def look(service: Server, document_id: str) -> dict[str, Any]:
        async with client_of(service) as client:
            found = await document_when(client, document_id, lambda one: one["state"] == "stale", "staleness")
            listed = (await client.get("/documents?status=stale")).json["documents"]
            return {"document": found, "listed": listed}

    async def retry(service: Server, document_id: str) -> Answer:
        async with client_of(service) as client:
            return await client.post(f"/documents/{document_id}/reprocess")

    first = start("1h")
    found: dict[str, Any] = {"fresh": asyncio.run(put(first)), "skeleton": _idle_card(first, ".text .bone")}
    first.stop()
    second = start("100ms")
    document_id = found["fresh"]["document_id"]
    found |= asyncio.run(look(second, document_id))
    found["stuck"] = _idle_card(second, "button")
    found["retry"] = asyncio.run(retry(second, document_id))
    second.stop()
    return found


def _idle_card(service: Server, part: str) -> dict[str, Any] | None:
    """The only card of a vault in Chromium, once it has this part; None if there is no browser."""
    from tests.web.browsing import CHROMIUM, Window, browser

    if not CHROMIUM.exists():
        return None
    with browser() as chromium:
        window = Window(chromium.new_page(), service.url)
        window.go().locator("li.card").locator(part).first.wait_for(state="attached")
        return _card(window, "waiting-card.md")


@pytest.mark.requirement("002-27", "A document that is pending for too long is stale")
def test_document_is_stale_when_no_worker_takes_it(stale: dict[str, Any]) -> None:
    assert (stale["document"]["status"], stale["document"]["state"]) == ("pending", "stale")


@pytest.mark.requirement("002-27a", "A fresh pending document is not stale")
def test_document_is_not_stale_when_it_is_fresh(stale: dict[str, Any]) -> None:
    assert stale["fresh"]["state"] == "pending"


@pytest.mark.requirement("002-27b", "Stale documents can be listed")
def test_document_is_listed_when_it_is_stale(stale: dict[str, Any]) -> None:
    assert [one["document_id"] for one in stale["listed"]] == [stale["document"]["document_id"]]


@pytest.mark.requirement("002-27c", "A stale document can be retried by its user")
def test_retry_starts_when_a_document_is_stale(stale: dict[str, Any]) -> None:
    assert (stale["retry"].status, stale["retry"].json["outcome"]) == (202, "started")


# ---- live events -----------------------------------------------------------------------------------------------


@pytest.fixture
async def events(client: Client) -> AsyncIterator[aiohttp.ClientResponse]:
    async with client.session.get(f"{client.url}/documents/events") as stream:
        yield stream


@pytest.mark.requirement("002-28", "Every change of a document is announced live")
async def test_change_is_announced_when_a_document_completes(
    client: Client, events: aiohttp.ClientResponse
) -> None:
    document_id = await add(client, "letter.md", letter("live"))

    async def announced() -> bool:
        line = (await events.content.readline()).decode()
        return document_id in line and '"completed"' in line

    await eventually(announced, "the event of its completion")
    await classified(client, document_id)


# ---- the dashboard ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cards(
    service: Server, stale: dict[str, Any], ask: Callable[..., Any], sim: RunningSimulator
) -> dict[str, Any]:
    """What Chromium shows of a document in each state, and what happens when its retry is clicked."""
    from tests.web.browsing import CHROMIUM, NO_BROWSER, Window, browser

    if not CHROMIUM.exists():
        pytest.skip(NO_BROWSER)

    async def prepare(client: Client) -> None:
        await classified(client, await add(client, "titled.md", letter("of the card")))
        await ended(client, await add(client, "broken-card.pdf", b"%PDF-1.7 " + uuid.uuid4().bytes))
        sim.play({"rules": [{"fault": "rejected"}]})
        await explained(client, await add(client, "unnamed-card.md", letter("unnamed card")))
        sim.play({})

    ask(prepare)
    with browser() as chromium:
        window = Window(chromium.new_page(), service.url)
        found = {
            name: _card(window, name)
            for name in ("Delivery of the turbines of the card", "broken-card.pdf", "unnamed-card.md")
        }
        found["retry"] = _retry(window, "unnamed-card.md")
        found["row"] = _row(window, "broken-card.pdf")
    return {**found, "skeleton": stale["skeleton"], "stuck": stale["stuck"]}


def _card(window: Any, name: str) -> dict[str, Any]:
    page = window.page if window.page.url.startswith(window.url) else window.go()
    card = page.locator("li.card", has_text=name).first
    card.wait_for()
    return {
        "tone": card.get_attribute("class"),
        "name": card.locator(".name").inner_text(),
        "badge": card.locator(".badge").inner_text(),
        "text": card.locator(".text").inner_text(),
        "bones": card.locator(".text .bone").count(),
        "buttons": card.get_by_role("button").all_inner_texts(),
        "link": card.locator(".name").get_attribute("href"),
    }


def _retry(window: Any, name: str) -> dict[str, Any]:
    """Clicks the retry while the service's answer is held back, then lets it fail."""
    page = window.page
    held: list[Any] = []
    page.route("**/reprocess", lambda route: held.append(route))  # noqa: PLW0108 - it sets an attribute of it
    card = page.locator("li.card", has_text=name)
    card.get_by_role("button", name="Retry classification").click()
    card.locator(".text .bone").first.wait_for(state="attached")
    during = _card(window, name)
    held[0].fulfill(status=503, json={"error": "Not now.", "code": "unavailable", "retryable": True})
    card.get_by_role("button", name="Retry classification").wait_for()
    failed = _card(window, name)
    page.unroute("**/reprocess")
    card.get_by_role("button", name="Retry classification").click()
    page.locator("li.card", has_text="unnamed card").locator(".badge", has_text="Ready").wait_for()
    return {
        "during": during,
        "failed": failed,
        "after": _card(window, "Delivery of the turbines unnamed card"),
    }


def _row(window: Any, name: str) -> dict[str, Any]:
    """The document in the table."""
    page = window.page
    page.get_by_role("button", name="Table").click()
    row = page.locator("table.vault tbody tr", has_text=name).first
    row.wait_for()
    return {"class": row.get_attribute("class"), "buttons": row.get_by_role("button").all_inner_texts()}


@pytest.mark.requirement("002-29", "A document that is being processed is shown as a skeleton")
def test_skeleton_is_shown_when_a_document_is_processed(cards: dict[str, Any]) -> None:
    skeleton = cards["skeleton"]
    assert (skeleton["name"], skeleton["bones"] > 0, skeleton["buttons"]) == ("waiting-card.md", True, [])


@pytest.mark.requirement("002-29a", "A stale document is amber, without a skeleton, and has a retry button")
def test_card_is_amber_with_a_retry_when_a_document_is_stale(cards: dict[str, Any]) -> None:
    stuck = cards["stuck"]
    assert ("warn" in stuck["tone"], stuck["bones"], stuck["buttons"]) == (True, 0, ["Retry"])


@pytest.mark.requirement("002-29b", "A classified document shows its title and summary, and no retry button")
def test_card_has_title_and_summary_when_a_document_is_classified(cards: dict[str, Any]) -> None:
    shown = cards["Delivery of the turbines of the card"]
    assert shown["name"] == "Delivery of the turbines of the card"
    assert (bool(shown["text"]), shown["buttons"]) == (True, [])


@pytest.mark.requirement("002-29c", "A document without a title shows its file name and an amber indicator")
def test_card_is_amber_with_the_file_name_when_there_is_no_title(cards: dict[str, Any]) -> None:
    shown = cards["unnamed-card.md"]
    assert ("warn" in shown["tone"], shown["name"]) == (True, "unnamed-card.md")


@pytest.mark.requirement("002-29d", 'A document without a title has the button "Retry classification"')
def test_button_retries_the_classification_when_there_is_no_title(cards: dict[str, Any]) -> None:
    assert cards["unnamed-card.md"]["buttons"] == ["Retry classification"]


@pytest.mark.requirement("002-29e", "A failed document is red")
def test_card_is_red_when_a_document_failed(cards: dict[str, Any]) -> None:
    assert "bad" in cards["broken-card.pdf"]["tone"]


@pytest.mark.requirement("002-29f", 'A failed document has the button "Retry processing"')
def test_button_retries_the_processing_when_a_document_failed(cards: dict[str, Any]) -> None:
    assert cards["broken-card.pdf"]["buttons"] == ["Retry processing"]


@pytest.mark.requirement("002-29g", "A document leads to its file in every state")
def test_card_leads_to_the_document_in_every_state(cards: dict[str, Any]) -> None:
    for name in ("broken-card.pdf", "unnamed-card.md", "stuck"):
        assert cards[name]["link"].startswith("#/vault/")


@pytest.mark.requirement(
    "002-30", "A click on retry shows the skeleton at once, before the service has answered"
)
def test_skeleton_is_shown_at_once_when_retry_is_clicked(cards: dict[str, Any]) -> None:
    during = cards["retry"]["during"]
    assert (during["bones"] > 0, during["buttons"]) == (True, [])


@pytest.mark.requirement("002-30a", "A retry that the service refuses gives the button back")
def test_button_is_back_when_the_retry_is_refused(cards: dict[str, Any]) -> None:
    failed = cards["retry"]["failed"]
    assert (failed["bones"], failed["buttons"]) == (0, ["Retry classification"])


@pytest.mark.requirement("002-30b", "The result of a retry is shown without a reload")
def test_result_is_shown_without_a_reload_when_a_retry_has_ended(cards: dict[str, Any]) -> None:
    assert cards["retry"]["after"]["name"] == "Delivery of the turbines unnamed card"


@pytest.mark.requirement("002-30c", "The table of documents offers the same retry as the cards")
def test_row_has_a_retry_when_a_document_failed(cards: dict[str, Any]) -> None:
    assert (cards["row"]["class"], cards["row"]["buttons"]) == ("bad", ["Retry processing"])
