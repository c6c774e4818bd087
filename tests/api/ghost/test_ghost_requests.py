"""What the facade takes, refuses, hides and cancels."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from quire.api.ghost.ghost_requests import file_id_of
from tests.api.ghost.asking import over, process, progress, upload
from tests.api.ghost.conftest import Bucket
from tests.support.serving import Client, Server, client_of
from tests.support.submitted_documents import fresh

Pdf = Callable[..., bytes]


@pytest.fixture(scope="module")
def idle_server(start_server: Callable[..., Server], aws: dict[str, str]) -> Server:
    """Without workers: what comes in waits."""
    return start_server(
        **{**aws, "AWS_S3_BUCKET": "", "S3_ALLOWED_BUCKETS": "ghost-files"}, RUN_DISPATCHER="0"
    )


@pytest.fixture
async def idle(idle_server: Server) -> AsyncIterator[Client]:
    async with client_of(idle_server.wait_ready()) as one:
        yield one


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "file_path"),
        ({"file_path": 7}, "file_path"),
        ({"file_path": "ftp://host/a.pdf"}, "file_path"),
        ({"file_path": "a.pdf", "text_only": "perhaps"}, "text_only"),
        ({"file_path": "a.pdf", "model_tier": "huge"}, "model_tier"),
        ({"file_path": "a.pdf", "options": [1]}, "options"),
        ({"file_path": "a.pdf", "options": {"pages": "0"}}, "pages"),
        ({"file_path": "a.pdf", "ai_prompt": 5}, "prompt"),
        ({"file_path": "a/../b.pdf"}, "dotted"),
        ({"file_url": "http://169.254.169.254/latest"}, "169.254"),
        ({"file_url": "file:///etc/passwd"}, "FILES_BASE"),
    ],
)
async def test_request_is_refused_with_the_field_named_when_malformed(
    client: Client, fields: dict[str, Any], words: str
) -> None:
    answer = await client.post("/process_file_junior_call", json=fields)
    assert answer.status == 400, answer.body
    assert words in answer.json["error"]


async def test_request_is_refused_when_it_has_no_key_or_no_known_type(client: Client, server: Server) -> None:
    assert (await client.post("/process_file_junior_call", data=b"x")).status == 415
    async with client_of(server) as stranger:
        assert (await stranger.post("/process_file_junior_call", json={"file_path": "a"})).status == 401
        assert (await stranger.get("/progress_spec/a")).status == 401
        assert (await stranger.post("/webhook/cancel_job", json={"job_id": "a"})).status == 401


async def test_bare_key_is_refused_when_there_is_no_default_bucket(idle: Client) -> None:
    answer = await idle.post("/process_file_junior_call", json={"file_path": "in/a.pdf"})
    assert answer.status == 400
    assert "AWS_S3_BUCKET" in answer.json["error"]


async def test_queue_position_and_estimate_are_honest_when_nobody_works(idle: Client) -> None:
    first = await process(idle, file_path="s3://ghost-files/one.pdf")
    second = await process(idle, file_path="s3://ghost-files/two.pdf")
    assert (first["queue_position"], second["queue_position"]) == (1, 2)
    assert first["estimated_time_seconds"] is None
    shown = await progress(idle, second["job_id"])
    assert (shown["status"], shown["progress"], shown["start_time"], shown["end_time"]) == (
        "queued",
        0,
        None,
        None,
    )
    assert shown["metadata"]["queue_position"] == 2
    for one in (first, second):
        await idle.post("/webhook/cancel_job", json={"job_id": one["job_id"]})


async def test_job_is_failed_with_the_reason_when_cancelled(idle: Client) -> None:
    job_id = (await process(idle, file_path="s3://ghost-files/in/3141.pdf"))["job_id"]
    answer = await idle.post("/webhook/cancel_job", json={"job_id": "3141", "reason": "user cancel"})
    assert answer.status == 200
    body = answer.json
    assert (body["job_id"], body["status"], body["cancelled"]) == (job_id, "failed", True)
    assert body["message"] == "The job was cancelled: user cancel"
    shown = await progress(idle, job_id)
    assert (shown["status"], shown["message"]) == ("failed", "The job was cancelled: user cancel")
    assert shown["metadata"]["cancelled"] is True
    assert (await idle.get(f"/jobs/{job_id}")).json["status"] == "cancelled"
    again = (await idle.post("/webhook/cancel_job", json={"job_id": job_id, "reason": "other"})).json
    assert (again["cancelled"], again["message"]) == (False, "The job was cancelled: user cancel")
    assert (await idle.post("/webhook/cancel_job", json={"job_id": "nothing"})).status == 404
    assert (await idle.post("/webhook/cancel_job", json={"reason": "x"})).status == 400


async def test_estimate_comes_from_measurements_when_documents_were_done(
    client: Client, bucket: Bucket, make_pdf: Pdf
) -> None:
    url = bucket.put("in/measured.pdf", make_pdf(fresh("measured")))
    await over(client, (await process(client, file_path=url))["job_id"])
    body = await process(client, file_path=url)
    assert body["estimated_time_seconds"] >= 0
    assert body["queue_position"] >= 0
    await over(client, body["job_id"])


async def test_same_job_answers_when_the_idempotency_key_is_repeated(
    client: Client, bucket: Bucket, make_pdf: Pdf
) -> None:
    url = bucket.put("in/once.pdf", make_pdf(fresh("once")))
    headers = {"Idempotency-Key": fresh("key")}
    first, second = [
        await client.post("/process_file_junior_call", json={"file_path": url}, headers=headers) for _ in "12"
    ]
    assert first.json["job_id"] == second.json["job_id"]
    assert second.json["metadata"]["deduplicated"] is True


async def test_password_and_prompt_are_used_and_never_told_when_given(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    text = fresh("locked away")
    password, prompt = fresh("planted-password"), fresh("planted-prompt")
    locked = make_pdf(text, password=password)
    answer = await upload(client, locked, "locked.pdf", password=password, ai_prompt=prompt, user_name="u")
    assert answer.json["metadata"]["has_password"] is True
    assert answer.json["metadata"]["ai_prompt_length"] == len(prompt)
    done = await over(client, answer.json["job_id"])
    assert done["result"] == f"=== Page 1 ===\n{text}"
    job = (await client.get(f"/jobs/{answer.json['job_id']}")).json
    log = server.log_path.read_text()
    assert '"password_given": true' in log
    for secret in (password, prompt, "planted-", text, "secret-of-the-bucket"):
        for where in (log, str(job)):
            assert secret not in where
    kept = b"".join(path.read_bytes() for path in server.data_dir.rglob("*.aof"))
    assert kept
    for secret in (password, prompt, "secret-of-the-bucket"):
        assert secret.encode() not in kept


async def test_health_is_told_under_its_other_names_when_asked_for(server: Server) -> None:
    async with client_of(server) as anybody:
        for name in ("/health", "/health_check", "/status"):
            answer = await anybody.get(name)
            assert (answer.status, answer.json["status"]) == (200, "healthy")


@pytest.mark.parametrize(
    ("path", "file_id"),
    [
        ("s3://bucket/in/4711.pdf", "4711"),
        ("in/4711_original.pdf", "4711"),
        ("in/4711-ORIGINAL.PDF", "4711"),
        ("in/4711.original.pdf", "4711"),
        ("s3://bucket/4711/original.pdf", "4711"),
        ("original.pdf", "original"),
        ("a.b.c.pdf", "a.b.c"),
        ("noextension", "noextension"),
        (".hidden", ".hidden"),
        ("https://host/files/9.pdf", "9"),
        ("", ""),
    ],
)
def test_file_id_is_found_in_the_path_when_it_has_one(path: str, file_id: str) -> None:
    assert file_id_of(path) == file_id
