"""The internal endpoints over HTTP: who may use them, and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.ghost.asking import over, progress, upload
from tests.api.ghost.conftest import TOKEN
from tests.support.serving import Answer, Client, Server, client_of
from tests.support.submitted_documents import fresh
from tests.support.waiting import until

Mixed = Callable[..., bytes]
CALLS = ("page_done", "page_failed", "job_done")


async def say(client: Client, what: str, token: str = TOKEN, body: Any = None, **query: Any) -> Answer:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return await client.post(
        f"/internal/{what}?{asked}", json=body or {}, headers={"X-Internal-Token": token}
    )


async def waiting(client: Client, pdf: bytes, total: int) -> str:
    """A job all of whose scanned pages wait; the others are read."""
    job_id: str = (await upload(client, pdf)).json["job_id"]

    async def waits() -> bool:
        pages = (await client.get(f"/jobs/{job_id}/pages")).json["pages"]
        return len(pages) == total and all(page["page_class"] for page in pages)

    await until(waits)
    return job_id


@pytest.mark.parametrize("what", CALLS)
async def test_call_is_refused_when_the_token_is_wrong_or_not_there(outside: Client, what: str) -> None:
    for token in ("", "wrong", TOKEN[:-1], f"{TOKEN}x", "key-of-alpha"):
        answer = await say(outside, what, token, job_id="x", page_id=1)
        assert (answer.status, answer.json["code"]) == (403, "forbidden")


@pytest.mark.parametrize("what", CALLS)
async def test_call_finds_nothing_when_no_token_is_set(client: Client, what: str) -> None:
    assert (await say(client, what, "", job_id="x", page_id=1)).status == 404
    assert (await say(client, what, "anything", job_id="x", page_id=1)).status == 404


async def test_pages_are_taken_when_reported_with_the_token(
    outside: Client, outside_server: Server, make_mixed: Mixed
) -> None:
    text, read = fresh("its own text"), fresh("read by somebody else")
    job_id = await waiting(outside, make_mixed(text, None, None), 3)
    shown = await progress(outside, job_id)
    assert (shown["status"], shown["metadata"]["pages_done"]) == ("processing", 1)
    body = {"text": read, "provider": "other", "model": "m", "tokens_used": 40}
    done = await say(outside, "page_done", body=body, job_id=job_id, page_id=2)
    assert (done.status, done.json["accepted"]) == (200, True)
    again = await say(outside, "page_done", body={"text": "again"}, job_id=job_id, page_id=2)
    assert (again.status, again.json["accepted"]) == (200, False)
    async with client_of(outside_server, TOKEN) as dispatcher:  # as a bearer
        failed = await dispatcher.post(f"/internal/page_failed?job_id={job_id}&page_id=3")
        assert (failed.status, failed.json["accepted"]) == (200, True)
    ending = await over(outside, job_id)
    assert ending["result"].startswith(
        f"=== Page 1 ===\n{text}\n\n=== Page 2 ===\n{read}\n\n=== Page 3 ===\n"
    )
    found = ending["metadata"]
    assert (found["ai_pages"], found["ai_pages_succeeded"], found["pages_failed"]) == (1, 1, 1)
    assert found["late_results"] == 1
    assert (await outside.get(f"/jobs/{job_id}")).json["usage"]["tokens_out"] == 40
    late = await say(outside, "page_done", body={"text": "late"}, job_id=job_id, page_id=3)
    assert late.json["accepted"] is False
    assert (await say(outside, "job_done", job_id=job_id)).json == {"job_id": job_id, "pages_given_up": 0}
    assert read not in outside_server.log_path.read_text()
    assert TOKEN not in outside_server.log_path.read_text()


async def test_job_ends_when_the_dispatcher_says_it_is_done(outside: Client, make_mixed: Mixed) -> None:
    job_id = await waiting(outside, make_mixed(fresh("one"), None), 2)
    assert (await say(outside, "job_done", job_id=job_id)).json["pages_given_up"] == 1
    assert (await over(outside, job_id))["status"] == "success"


async def test_call_is_refused_with_words_when_it_names_nothing_good(
    outside: Client, make_mixed: Mixed
) -> None:
    job_id = await waiting(outside, make_mixed(fresh("one"), None), 2)
    good = {"text": "x"}
    for status, body, query in (
        (404, good, {"job_id": job_id, "page_id": 3}),
        (404, good, {"job_id": "unknown", "page_id": 1}),
        (400, good, {"job_id": job_id, "page_id": "two"}),
        (400, good, {"job_id": job_id}),
        (400, {}, {"job_id": job_id, "page_id": 2}),
        (400, {"text": "  "}, {"job_id": job_id, "page_id": 2}),
        (400, {"text": "x", "tokens_used": -1}, {"job_id": job_id, "page_id": 2}),
    ):
        answer = await say(outside, "page_done", body=body, **query)
        assert answer.status == status, answer.body
    await outside.post("/webhook/cancel_job", json={"job_id": job_id})
    late = await say(outside, "page_done", body=good, job_id=job_id, page_id=2)
    assert (late.status, late.json["accepted"]) == (200, False)
