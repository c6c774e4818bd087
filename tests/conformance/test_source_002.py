"""Source 002: the vault. Documents are read, classified and tagged, and are usable whatever the AI does."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from quire.simulator.simulator_thread import RunningSimulator
from tests.conformance.running_service import HttpClient, RunningService, eventually

SETTINGS = {
    "SECONDARY_ENGINE": "none",
    "CLASSIFY_WAIT": "1s",
    "CLASSIFY_RETRY_DELAY": "100ms",
    "CLASSIFY_RATE_LIMIT_DELAY": "100ms",
    "CLASSIFY_QUOTA_DELAY": "100ms",
    "CLASSIFY_CALL_TIMEOUT": "2s",
    "BREAKER_BASE_BACKOFF": "100ms",
    "BREAKER_MAX_BACKOFF": "200ms",
    "AI_WAIT_MAX": "1s",
    "CLASSIFY_MAX_ATTEMPTS": "1000",
}


def letter(number: object) -> bytes:
    return (
        f"# Delivery of the turbines {number}\n\nHamburg, 2026-02-11\n\n"
        "The turbines for the harbour station leave on Monday and arrive on Thursday.\n"
    ).encode()


def picture(kind: str = "PNG", size: tuple[int, int] = (640, 480)) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", size, "white")
    draw: Any = ImageDraw.Draw(image)
    draw.rectangle((50, 50, 300, 300), fill="navy")
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def heic() -> bytes:
    import pillow_heif
    from PIL import Image

    out = io.BytesIO()
    pillow_heif.from_pillow(Image.effect_noise((400, 300), 60).convert("RGB")).save(out)
    return out.getvalue()


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("inside.bin", bytes(range(256)))
    return out.getvalue()


async def add(client: HttpClient, name: str, data: bytes, **fields: str) -> str:
    answer = await client.upload(data, name=name, path="/documents", force="true", **fields)
    assert answer.status == 202, answer.text
    return str(answer.json["documents"][0]["document_id"])


async def document(client: HttpClient, document_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/documents/{document_id}")).json
    return found


async def ended(client: HttpClient, document_id: str, attempt: int = 1) -> dict[str, Any]:
    """The document once it is no longer pending."""

    async def over() -> dict[str, Any] | None:
        found = await document(client, document_id)
        return found if found["status"] != "pending" and found["attempt"] >= attempt else None

    found: dict[str, Any] = await eventually(over, f"the end of {document_id}")
    return found


async def classified(client: HttpClient, document_id: str, attempt: int = 1) -> dict[str, Any]:
    """The document once it has a title."""

    async def titled() -> dict[str, Any] | None:
        found = await document(client, document_id)
        return found if found["title"] and found["attempt"] >= attempt else None

    found: dict[str, Any] = await eventually(titled, f"the title of {document_id}")
    return found


@pytest.fixture(autouse=True)
def healthy(sim: RunningSimulator) -> None:
    sim.play({})
    sim.reset()


@pytest.mark.requirement("002-1", "A file uploaded to the vault is processed without a further request")
@pytest.mark.requirement("002-2", "A text model gives a document title, summary, date and tags")
async def test_uploaded_text_is_classified(client: HttpClient) -> None:
    found = await classified(client, await add(client, "letter.md", letter(1)))

    assert found["title"].startswith("Delivery of the turbines")
    assert found["summary"]
    assert found["tags"]
    assert found["status"] == "completed"
    assert found["classified_by"].startswith("openai:")


@pytest.mark.requirement("002-3", "An image is classified by a vision model, which sees the picture")
async def test_image_is_shown_to_the_model(client: HttpClient, sim: RunningSimulator) -> None:
    found = await classified(client, await add(client, "photo.png", picture()))

    assert found["status"] == "completed"
    assert found["jobs"]["classify"].startswith("classify-img_")
    assert sim.stats()["total"]["calls"] >= 1


@pytest.mark.requirement("002-4", "A new document is `pending` until it is processed")
async def test_new_document_is_pending(client: HttpClient) -> None:
    answer = await client.upload(letter("new"), name="new.md", path="/documents", force="true")

    assert answer.json["documents"][0]["status"] == "pending"


@pytest.mark.requirement(
    "002-5", "A document completes with `title: null` when the AI fails, and stays usable"
)
@pytest.mark.requirement("002-6", "A document without a title needs classification and offers a retry")
@pytest.mark.requirement("002-7", "A document that could not be classified is classified later by itself")
@pytest.mark.parametrize("fault", ["rate_limit", "quota", "hang", "reset", "server_error", "empty", "auth"])
async def test_document_is_usable_when_the_provider_fails(
    client: HttpClient, sim: RunningSimulator, fault: str
) -> None:
    sim.play({"rules": [{"fault": fault}]})
    document_id = await add(client, "letter.md", letter(fault))
    found = await ended(client, document_id)

    assert (found["status"], found["state"], found["title"]) == ("completed", "needs_classification", None)
    assert found["error"]["error"]
    assert b"harbour station" in (await client.get(f"/documents/{document_id}/content")).body
    assert (await client.get(f"/documents/{document_id}/download")).body == letter(fault)
    hits = (await client.get("/search?q=turbines&limit=100")).json["hits"]
    assert document_id in [hit["document"]["document_id"] for hit in hits]

    sim.play({})
    assert (await classified(client, document_id))["attempt"] == 1


@pytest.mark.requirement("002-8", "Content that the AI's filter blocks is not retried")
@pytest.mark.requirement("002-9", "A request that the AI rejects as invalid is not retried")
@pytest.mark.parametrize(
    ("fault", "code"), [("content_filter_error", "ai_content_blocked"), ("rejected", "validation")]
)
async def test_final_errors_are_not_retried(
    client: HttpClient, sim: RunningSimulator, fault: str, code: str
) -> None:
    sim.play({"rules": [{"fault": fault}]})
    document_id = await add(client, "letter.md", letter(fault))

    async def over() -> dict[str, Any] | None:
        found = await document(client, document_id)
        return found if (found["error"] or {}).get("code") == code else None

    found = await eventually(over, "the final error")
    assert found["error"]["retryable"] is False
    job = await client.finished(found["jobs"]["classify"])
    assert job["status"] == "failed"


@pytest.mark.requirement(
    "002-10", "Retry delays by default: quota 60 s, rate limit 30 s, timeout and network 5 s"
)
@pytest.mark.requirement(
    "002-11", "Time limits by default: AI 90 s, download 60 s, embedding 30 s, pipeline 10 min"
)
@pytest.mark.requirement("002-12", "By default 10 jobs run at once in a worker and 20 start in a second")
@pytest.mark.requirement("002-13", "A document pending for more than 10 minutes is stale, by default")
def test_defaults_are_those_of_the_source(tmp_path_factory: pytest.TempPathFactory) -> None:
    import subprocess
    import sys

    from tests.support.environment import clean_environment

    folder = tmp_path_factory.mktemp("defaults")
    shown = subprocess.run(
        [sys.executable, "-m", "quire", "config"],
        env=clean_environment(DATA_DIR=str(folder)),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected = {
        "CLASSIFY_QUOTA_DELAY": ("60s", "1m"),
        "CLASSIFY_RATE_LIMIT_DELAY": ("30s",),
        "CLASSIFY_RETRY_DELAY": ("5s",),
        "CLASSIFY_TIMEOUT": ("1m30s",),
        "CLASSIFY_IMAGE_TIMEOUT": ("1m30s",),
        "CLASSIFY_DOWNLOAD_TIMEOUT": ("60s", "1m"),
        "EMBEDDING_TIMEOUT": ("30s",),
        "VAULT_TIMEOUT": ("10m",),
        "VAULT_STALE_AFTER": ("10m",),
        "CLASSIFY_CONCURRENCY": ("10",),
        "VAULT_JOBS_PER_SECOND": ("20",),
    }
    for name, values in expected.items():
        line = next(line for line in shown.splitlines() if re.match(rf"\s*{name}\b", line))
        assert any(value in line.split() or f"={value}" in line for value in values), line


@pytest.mark.requirement("002-14", "An unsupported type completes, keeps its file and is no failure")
@pytest.mark.requirement("002-15", "Reprocessing an unsupported type is skipped")
async def test_unsupported_type_completes(client: HttpClient) -> None:
    document_id = await add(client, "things.zip", archive())
    found = await ended(client, document_id)

    assert (found["status"], found["state"]) == ("completed", "unsupported")
    assert (await client.get(f"/documents/{document_id}/download")).body == archive()
    assert (await client.get("/documents/counts")).json["counts"]["unsupported"] >= 1
    again = await client.post(f"/documents/{document_id}/reprocess")
    assert (again.status, again.json["outcome"], again.json["status"]) == (200, "skipped", "completed")


@pytest.mark.requirement(
    "002-16", "A file that can't be opened is `failed`, with its cause, and can be retried"
)
async def test_damaged_file_fails_with_its_cause(client: HttpClient) -> None:
    document_id = await add(client, "broken.pdf", b"%PDF-1.7 nothing more")
    found = await ended(client, document_id)

    assert found["status"] == "failed"
    assert "damaged" in found["error"]["error"]
    again = await client.post(f"/documents/{document_id}/reprocess")
    assert (again.status, again.json["outcome"]) == (202, "started")


@pytest.mark.requirement("002-17", "A retry sets the document to `pending` and processes it again")
@pytest.mark.requirement("002-18", "Many retries at once start one attempt")
async def test_retry_is_one_attempt(client: HttpClient, sim: RunningSimulator) -> None:
    document_id = await add(client, "letter.md", letter("retry"))
    await classified(client, document_id)
    sim.play({"models": [{"model": "*", "latency": 0.5}]})

    answers = await asyncio.gather(*(client.post(f"/documents/{document_id}/reprocess") for _ in range(10)))

    outcomes = [answer.json["outcome"] for answer in answers]
    assert outcomes.count("started") == 1
    assert {answer.json["attempt"] for answer in answers} == {2}
    assert (await classified(client, document_id, 2))["attempt"] == 2


@pytest.mark.requirement(
    "002-19", "Job ids are deterministic: process-doc_, classify-doc_, classify-img_, embed-tags_"
)
async def test_job_ids_are_deterministic(client: HttpClient) -> None:
    text = await classified(client, await add(client, "letter.md", letter("ids")))
    image = await ended(client, await add(client, "photo.png", picture()))

    process = (await client.get(f"/jobs/process-doc_default_{text['document_id']}")).json
    assert process["job_id"] == text["jobs"]["process"]
    assert text["jobs"]["classify"] == f"classify-doc_default_{text['document_id']}"
    assert text["jobs"]["embed"] == f"embed-tags_default_{text['document_id']}"
    assert image["jobs"]["classify"] == f"classify-img_default_{image['document_id']}"
    job = await client.finished(text["jobs"]["classify"])
    assert (job["type"], job["status"]) == ("classify", "completed")


@pytest.mark.requirement("002-20", "The same file uploaded twice is one document")
async def test_same_file_is_one_document(client: HttpClient) -> None:
    first = await client.upload(letter("twice"), name="a.md", path="/documents")
    second = await client.upload(letter("twice"), name="b.md", path="/documents")

    assert second.json["documents"][0]["deduplicated"] is True
    assert first.json["documents"][0]["document_id"] == second.json["documents"][0]["document_id"]


@pytest.mark.requirement("002-21", "Images and texts are classified by separate jobs in queues of their own")
async def test_images_have_their_own_queue(client: HttpClient) -> None:
    queues = [queue["queue"] for queue in (await client.get("/queues")).json["queues"]]

    assert {"classify", "classify-image", "embed"} <= set(queues)


@pytest.mark.requirement("002-22", "HEIC images are converted, shown as JPEG or PNG and classified")
async def test_heic_is_converted(client: HttpClient) -> None:
    found = await classified(client, await add(client, "photo.heic", heic()))

    assert (found["type"], found["status"]) == ("heic", "completed")
    page = await client.get(f"/jobs/{found['jobs']['process']}/pages/1/image")
    assert page.status == 200
    assert page.headers["Content-Type"] in ("image/jpeg", "image/png", "image/webp")


@pytest.mark.requirement("002-23", "JPEG, PNG, WebP, GIF and TIFF images are accepted")
@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "TIFF"])
async def test_image_types_are_accepted(client: HttpClient, kind: str) -> None:
    found = await ended(client, await add(client, f"photo.{kind.lower()}", picture(kind)))

    assert (found["status"], found["content_type"]) == ("completed", f"image/{kind.lower()}")


@pytest.mark.requirement("002-24", "Tags get embeddings, which never change the document's status")
async def test_tags_are_embedded_after_the_classification(client: HttpClient) -> None:
    found = await classified(client, await add(client, "letter.md", letter("tags")))

    async def embedded() -> bool:
        answer = await client.get(f"/jobs/{found['jobs']['embed']}")
        return answer.status == 200 and answer.json["status"] == "completed"

    await eventually(embedded, "the embedding")
    assert (await document(client, found["document_id"]))["status"] == "completed"


@pytest.mark.requirement("002-25", "Search finds a document by its words and by its tags")
async def test_search_finds_words_and_tags(client: HttpClient) -> None:
    found = await classified(
        client, await add(client, "letter.md", b"# Quarterly zeppelin audit\n\nHangar nine.\n")
    )
    hits = (await client.get("/search?q=zeppelin")).json["hits"]
    listed = (await client.get("/documents", params={"tag": found["tags"][0]})).json["documents"]

    assert [hit["document"]["document_id"] for hit in hits] == [found["document_id"]]
    assert found["document_id"] in [one["document_id"] for one in listed]


@pytest.mark.requirement(
    "002-26", "A photo without text is no failure; the note about it is no title and no snippet"
)
async def test_photo_without_text_is_an_outcome(client: HttpClient, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    found = await ended(client, await add(client, "photo.png", picture()))

    assert (found["status"], found["title"]) == ("completed", None)
    hits = (await client.get("/search", params={"q": "page has no text"})).json["hits"]
    assert all(hit["document"]["document_id"] != found["document_id"] or not hit["snippet"] for hit in hits)


@pytest.mark.requirement("002-27", "A document that no worker processes becomes stale and may be retried")
async def test_document_without_a_worker_is_stale(start_service: Callable[..., RunningService]) -> None:
    idle = start_service(
        RUN_DISPATCHER="0", VAULT_STALE_AFTER="200ms", VAULT_SWEEP_INTERVAL="1h"
    ).wait_ready()
    async with aiohttp.ClientSession() as session:
        client = HttpClient(idle.url, session)
        document_id = await add(client, "letter.md", letter("stale"))

        async def stale() -> bool:
            return bool((await document(client, document_id))["state"] == "stale")

        await eventually(stale, "a stale document")
        answer = await client.post(f"/documents/{document_id}/reprocess")
        assert (answer.status, answer.json["outcome"]) == (202, "started")


@pytest.fixture
async def events(client: HttpClient) -> AsyncIterator[aiohttp.ClientResponse]:
    async with client.session.get(f"{client.url}/documents/events") as stream:
        yield stream


@pytest.mark.requirement("002-28", "Every change of a document is announced live")
async def test_changes_are_announced(client: HttpClient, events: aiohttp.ClientResponse) -> None:
    document_id = await add(client, "letter.md", letter("live"))

    async def announced() -> bool:
        line = (await events.content.readline()).decode()
        return document_id in line and '"completed"' in line

    await eventually(announced, "the event of its completion")
