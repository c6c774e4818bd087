"""Classification by a model: every state of the source's tables, reached through real failures of the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from quire.simulator.simulator_thread import RunningSimulator
from tests.support.serving import Server
from tests.support.shared_services import SharedServices
from tests.support.vault_client import VaultClient
from tests.support.vault_fixtures import ai_settings, on_both
from tests.support.vault_running import add, settled, vault_at
from tests.support.waiting import scaled

LETTER = (
    "# Delivery of the turbines\n\nHamburg, 2026-02-11\n\n"
    "The turbines for the harbour station number {} leave on Monday and arrive on Thursday.\n"
)


def letter(number: int | str) -> bytes:
    return LETTER.format(number).encode()


def calls(sim: RunningSimulator) -> int:
    return int(sim.stats()["total"]["calls"])


@on_both
async def test_model_names_the_document_and_reuses_tags(asking: VaultClient, sim: RunningSimulator) -> None:
    first = await asking.kept("first.md", letter(1))
    second = await asking.kept("second.md", letter("two"))

    assert first["title"] == "Delivery of the turbines"
    assert first["classified_by"] == "openai:m"
    assert (first["date"], first["language"]) == ("2026-02-11", "en")
    assert 1 <= len(first["tags"]) <= 5
    assert set(second["tags"]) >= set(first["tags"])
    assert calls(sim) == 2
    job = await asking.over(first["jobs"]["classify"])
    assert job["usage"]["tokens_in"] > 0


async def test_pictures_are_shown_to_the_model(asking: VaultClient, sim: RunningSimulator) -> None:
    document = await asking.kept("photo.png", _picture())

    assert document["status"] == "completed"
    assert document["title"]
    # One call has read the page, the other has named it; both were shown the picture.
    model = sim.stats()["models"]["m"]
    assert model["calls"] == 2
    assert model["tokens_in"] > 2 * 1_105


FAILURES = [
    ("rate_limit", "rate_limit", True),
    ("quota", "ai_quota", True),
    ("overloaded", "ai_quota", True),
    ("hang", "timeout", True),
    ("reset", "network", True),
    ("server_error", "server", True),
    ("bad_json", "server", True),
    ("loop", "answer_invalid", True),
    ("empty", "answer_empty", True),
    ("truncated", "answer_cut_off", True),
    ("refusal", "answer_refused", True),
    ("content_filter_error", "ai_content_blocked", False),
    ("rejected", "validation", False),
    ("auth", "auth", True),
]


@pytest.mark.parametrize(("fault", "code", "again"), FAILURES, ids=[one[0] for one in FAILURES])
async def test_document_is_usable_without_a_title_when_the_model_fails(
    asking: VaultClient, sim: RunningSimulator, fault: str, code: str, again: bool
) -> None:
    sim.play({"rules": [{"fault": fault}]})
    document = await asking.classified(await asking.add("letter.md", letter(fault)))

    assert (document["status"], document["state"]) == ("completed", "needs_classification")
    assert (document["title"], document["tags"], document["classified_by"]) == (None, [], None)
    assert document["error"]["code"] == code
    assert document["error"]["retryable"] is again
    assert (
        calls(sim) == (3 if again else 1) or code == "auth"
    )  # a round with the provider's breaker open asks nothing
    place = f"/documents/{document['document_id']}"
    assert b"harbour station" in (await asking.get(f"{place}/content")).body
    assert (await asking.get(f"{place}/download")).body == letter(fault)
    job = (await asking.get(f"/jobs/{document['jobs']['classify']}")).json
    assert (job["status"], job["error"]["code"]) == ("failed", code)

    sim.play({})
    answer = await asking.post(f"{place}/reprocess")
    assert (answer.status, answer.json["outcome"], answer.json["attempt"]) == (202, "started", 2)
    mended = await asking.classified(document["document_id"], 2)
    assert (mended["state"], mended["title"], mended["error"]) == (
        "completed",
        "Delivery of the turbines",
        None,
    )


async def test_model_that_recovers_in_time_leaves_no_trouble_behind(
    asking: VaultClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "rate_limit", "last": 2}]})
    document = await asking.classified(await asking.add("letter.md", letter("recovering")))

    assert (document["state"], document["error"]) == ("completed", None)
    assert calls(sim) == 3


@on_both
async def test_fields_stay_when_a_reprocess_fails(asking: VaultClient, sim: RunningSimulator) -> None:
    document = await asking.kept("letter.md", letter("kept"))
    sim.play({"rules": [{"fault": "rejected"}]})

    await asking.post(f"/documents/{document['document_id']}/reprocess")
    after = await asking.settled(document["document_id"], 2)

    assert (after["status"], after["error"]["code"]) == ("completed", "validation")
    assert (after["title"], after["tags"], after["date"]) == (
        document["title"],
        document["tags"],
        document["date"],
    )


@on_both
async def test_many_clicks_are_one_run(asking: VaultClient, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "rejected", "last": 1}], "models": [{"model": "*", "latency": 0.4}]})
    document = await asking.kept("letter.md", letter("clicked"))
    place = f"/documents/{document['document_id']}/reprocess"

    answers = await asyncio.gather(*(asking.post(place) for _ in range(20)))
    mended = await asking.settled(document["document_id"], 2)

    outcomes = [one.json["outcome"] for one in answers]
    assert outcomes.count("started") == 1
    assert outcomes.count("running") == 19
    assert (mended["attempt"], mended["title"]) == (2, "Delivery of the turbines")
    assert calls(sim) == 2


@on_both
async def test_many_documents_are_tried_again_at_once(asking: VaultClient, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "rejected"}]})
    documents = [await asking.kept("letter.md", letter(f"bulk {n}")) for n in range(3)]
    ids = [one["document_id"] for one in documents]
    sim.play({})

    missing = "00000000-0000-4000-8000-000000000000"
    named = await asking.post("/documents/reprocess", json={"document_ids": [ids[0], missing]})
    assert named.status == 202
    assert [one["outcome"] for one in named.json["results"]] == ["started", "missing"]
    all_of_them = await asking.post("/documents/reprocess", json={"status": "needs_classification"})
    started = {one["document_id"] for one in all_of_them.json["results"] if one["outcome"] == "started"}

    assert started >= set(ids[1:])
    for document_id in ids:
        assert (await asking.settled(document_id, 2))["state"] == "completed"
    assert (await asking.post("/documents/reprocess", json={})).status == 400
    assert (await asking.post("/documents/reprocess", json={"status": "completed"})).status == 400


async def test_document_needs_classification_when_there_is_no_classifier(tmp_path: Path) -> None:
    async with vault_at(tmp_path, LOCAL_CLASSIFIER="0", EMBEDDING_PROVIDER="off") as (_, vault):
        row = await settled(vault, await add(vault, letter("alone")))

    assert (row.status, row.title) == ("completed", None)
    assert (row.error or {})["code"] == "no_classifier"


async def test_retries_that_race_with_finishing_jobs_end_in_one_state(
    start_vault: Callable[..., Server],
    connect: Callable[..., VaultClient],
    sim: RunningSimulator,
    database: dict[str, str],
) -> None:
    """Everything is stale at once here, so that each click really starts a new attempt while the old one runs."""
    settings = ai_settings(sim) | {"VAULT_STALE_AFTER": "100ms", "VAULT_SWEEP_INTERVAL": "100ms"} | database
    client = connect(start_vault(**settings))
    sim.play({"models": [{"model": "*", "latency": {"uniform": [0.0, 0.15]}}]})
    ids = [await client.add("letter.md", letter(f"race {n}")) for n in range(4)]

    async def click(document_id: str, wait_s: float) -> None:
        for _ in range(6):
            await asyncio.sleep(wait_s)
            answer = await client.post(f"/documents/{document_id}/reprocess")
            assert answer.status == 202, answer.body

    await asyncio.gather(*(click(one, 0.03 * place) for place, one in enumerate(ids, 1)))
    for document_id in ids:
        document = await client.settled(document_id)
        assert (document["state"], document["title"]) == ("completed", "Delivery of the turbines"), document
        job = await client.over(document["jobs"]["classify"])
        assert job["attempt"] == document["attempt"]
        again = await client.document(document_id)
        assert (again["status"], again["attempt"]) == ("completed", document["attempt"])


def _picture() -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (640, 480), "white")
    draw: Any = ImageDraw.Draw(image)
    draw.rectangle((50, 50, 300, 300), fill="navy")
    draw.ellipse((350, 100, 600, 400), fill="orange")
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


async def test_dead_letter_of_a_classification_is_replayed_with_its_document(
    asking: VaultClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    document = await asking.classified(await asking.add("letter.md", letter("buried")))
    sim.play({})
    letters = (await asking.get("/dlq?queue=classify")).json["letters"]
    mine = next(one for one in letters if one["main_job_id"] == document["jobs"]["classify"])

    replayed = await asking.post(mine["replay"])
    mended = await asking.settled(document["document_id"], 2)
    again = await asking.post(f"/jobs/{document['jobs']['classify']}/retry")

    assert (replayed.status, mended["state"]) == (202, "completed")
    assert again.status == 202
    assert (await asking.settled(document["document_id"], 3))["state"] == "completed"


DOWN = (
    "rate_limit",
    "quota",
    "overloaded",
    "hang",
    "reset",
    "server_error",
    "auth",
    "empty",
    "refusal",
    "loop",
)


@pytest.fixture
def degrading(
    shared_services: SharedServices, new_vault: Callable[..., Server], running_simulator: RunningSimulator
) -> Server:
    """A service that completes documents without their classification after a second."""
    settings = ai_settings(running_simulator) | {
        "CLASSIFY_WAIT": "1s",
        "CLASSIFY_MAX_ATTEMPTS": "1000",
        "CLASSIFY_CALL_TIMEOUT": scaled(1),
    }
    return shared_services.get("degrading", lambda: new_vault(**settings))


@pytest.mark.parametrize("fault", DOWN)
async def test_document_is_usable_and_classified_later_when_the_provider_recovers(
    degrading: Server, connect: Callable[..., VaultClient], sim: RunningSimulator, fault: str
) -> None:
    client = connect(degrading)
    sim.play({"rules": [{"fault": fault}]})

    document_id = await client.add("letter.md", letter(fault))
    usable = await client.settled(document_id)
    place = f"/documents/{document_id}"
    assert (usable["status"], usable["state"], usable["title"]) == ("completed", "needs_classification", None)
    assert b"harbour station" in (await client.get(f"{place}/content")).body
    hits = (await client.get("/search?q=turbines&limit=100")).json["hits"]
    assert document_id in [hit["document"]["document_id"] for hit in hits]

    sim.play({})
    mended = await client.classified(document_id)
    assert (mended["title"], mended["attempt"], mended["error"]) == ("Delivery of the turbines", 1, None)


async def test_photo_without_text_completes_with_the_true_reason(
    degrading: Server, connect: Callable[..., VaultClient], sim: RunningSimulator
) -> None:
    client = connect(degrading)
    sim.play({"rules": [{"fault": "server_error"}]})

    document = await client.kept("photo.png", _picture())

    assert (document["status"], document["state"], document["title"]) == (
        "completed",
        "needs_classification",
        None,
    )
    assert document["error"]["code"] in ("classifying", "server", "ai_unavailable")
    assert document["jobs"]["classify"].startswith("classify-img_")
    assert document["jobs"]["embed"].startswith("embed-tags_")
    content = (await client.get(f"/documents/{document['document_id']}/content")).body
    assert b"has no text" in content
    hits = (await client.get("/search?q=page+has+no+text")).json["hits"]
    assert not any(hit["snippet"] and "no text" in hit["snippet"]["html"] for hit in hits)
    sim.play({})
    seen = await client.classified(document["document_id"])
    assert seen["title"]
    assert "no text" not in seen["title"]


async def test_photo_without_text_is_not_titled_when_no_model_can_see_it(alpha: VaultClient) -> None:
    document = await alpha.kept("photo.png", _picture())

    assert (document["status"], document["title"], document["summary"]) == ("completed", None, None)
    assert document["error"]["code"] == "no_text"


async def test_damaged_picture_is_named_as_such_when_ai_was_never_asked(
    degrading: Server, connect: Callable[..., VaultClient], sim: RunningSimulator
) -> None:
    client = connect(degrading)
    whole = _picture()
    document = await client.kept("damaged.png", whole[: len(whole) // 2])

    assert document["status"] == "failed"
    assert "damaged" in document["error"]["error"]
    assert "AI" not in document["error"]["error"]
    assert calls(sim) == 0


async def test_jobs_of_the_vault_start_at_most_so_many_a_second(tmp_path: Path) -> None:
    async with vault_at(tmp_path, kinds=None, EMBEDDING_PROVIDER="off") as (_, vault):
        began = int(vault.parts.clock.now())
        delays = [await vault.steps.start_delay_s(5) for _ in range(60)]
        seconds = int(vault.parts.clock.now()) - began + 1

    assert 5 <= delays.count(0.0) <= 5 * seconds
    assert all(delay >= 0.0 for delay in delays)
