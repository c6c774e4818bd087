"""A document's way through the API: in, followed, read, out."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from tests.support.serving import Client, Server
from tests.support.submitted_documents import converted, fresh
from tests.support.waiting import until

Pdf = Callable[..., bytes]
SEPARATOR = "\n\n---\n\n"


async def test_upload_answers_202_with_links_when_not_waiting(client: Client, make_pdf: Pdf) -> None:
    answer = await client.upload(make_pdf(fresh("hello")))
    assert answer.status == 202
    body = answer.json
    assert body["status"] == "queued"
    assert body["deduplicated"] is False
    assert answer.headers["Location"] == body["links"]["self"] == f"/jobs/{body['job_id']}"
    assert set(body["links"]) >= {"self", "result", "pages", "events", "cancel"}
    for name in ("result", "pages"):
        await client.over(body["job_id"])
        assert (await client.get(body["links"][name])).status == 200


async def test_upload_answers_the_result_when_waited_for(client: Client, make_pdf: Pdf) -> None:
    first, second = fresh("The first page."), fresh("The second page.")
    answer = await client.upload(make_pdf(first, second), {"mode": "local"}, wait=240)
    assert answer.status == 200
    body = answer.json
    assert body["type"] == "main"
    assert body["result"]["markdown"].strip() == f"{first}{SEPARATOR}{second}"
    assert body["result"]["metadata"]["pages"] == 2
    assert answer.headers["Location"] == f"/jobs/{body['job_id']}"


async def test_main_job_tells_everything_when_completed(client: Client, make_pdf: Pdf) -> None:
    pdf = make_pdf(fresh("one"), fresh("two"), fresh("three"))
    job_id = await converted(client, pdf, pages="1,3")
    job = (await client.get(f"/jobs/{job_id}")).json
    assert (job["type"], job["status"], job["progress"]) == ("main", "completed", 100)
    assert (job["total_pages"], job["pages_completed"], job["pages_failed"]) == (2, 2, 0)
    assert job["child_jobs"]["page_jobs"] == [f"{job_id}-p1", f"{job_id}-p3"]
    assert job["child_jobs"]["split_job_id"] == f"{job_id}-split"
    assert job["child_jobs"]["merge_job_id"] == f"{job_id}-merge"
    assert job["child_jobs"]["download_job_id"] is None
    assert job["options"]["pages"] == "1,3"
    assert job["source"] == {"kind": "upload"}
    assert (job["filename"], job["mime"], job["size"]) == ("report.pdf", "application/pdf", len(pdf))
    assert job["sha256"] == hashlib.sha256(pdf).hexdigest()
    assert job["usage"] == {"tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0}
    assert job["metadata"]["pages"] == 2
    assert job["created_at"] <= job["started_at"] <= job["completed_at"]
    assert job["created_at"].endswith("Z")


async def test_child_jobs_answer_when_asked_by_their_ids(client: Client, make_pdf: Pdf) -> None:
    job_id = await converted(client, make_pdf(fresh("a child")))
    for kind in ("split", "merge"):
        child = (await client.get(f"/jobs/{job_id}-{kind}")).json
        assert (child["type"], child["status"], child["parent_job_id"]) == (kind, "completed", job_id)
    page = (await client.get(f"/jobs/{job_id}-p1")).json
    assert (page["type"], page["status"], page["page_number"]) == ("page", "completed", 1)
    assert (page["parent_job_id"], page["source"], page["attempts"]) == (job_id, "local", 1)
    for missing in ("download", "p2", "p0", "nope"):
        assert (await client.get(f"/jobs/{job_id}-{missing}")).status == 404


async def test_result_comes_in_the_form_asked_for_when_completed(client: Client, make_pdf: Pdf) -> None:
    text = fresh("Größe “in quotes” \\ and more")
    answer = await client.upload(make_pdf(text), wait=240, name="Jahr „2024“/../b\u202eericht.pdf")
    job_id = answer.json["job_id"]
    place = f"/jobs/{job_id}/result"
    as_json = await client.get(place)
    assert as_json.headers["Content-Type"] == "application/json"
    whole = as_json.json["result"]["markdown"]
    for path, accept, kind in (
        (place, "text/markdown", "text/markdown"),
        (f"{place}?format=md", "application/json", "text/markdown"),
        (f"{place}?format=text", "*/*", "text/plain"),
        (place, "text/plain;q=0.2, text/markdown;q=0.7", "text/markdown"),
    ):
        bare = await client.get(path, headers={"Accept": accept})
        assert bare.status == 200
        assert bare.headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert bare.headers["X-Content-Type-Options"] == "nosniff"
        assert bare.body.decode() == whole
        shown = bare.headers["Content-Disposition"]
        assert shown.startswith("inline; filename=")
        assert "/" not in shown
        assert "\u202e" not in shown
    assert (await client.get(f"{place}?format=docx")).status == 400
    merge = (await client.get(f"/jobs/{job_id}-merge/result")).json
    assert (merge["type"], merge["result"]["markdown"]) == ("merge", whole)
    assert (await client.get(f"/jobs/{job_id}-split/result")).status == 404


async def test_page_result_is_its_stretch_of_the_whole_when_completed(client: Client, make_pdf: Pdf) -> None:
    texts = [fresh("first"), fresh("second")]
    job_id = await converted(client, make_pdf(*texts))
    for number, text in enumerate(texts, 1):
        page = (await client.get(f"/jobs/{job_id}-p{number}/result")).json
        assert (page["type"], page["job_id"]) == ("page", f"{job_id}-p{number}")
        assert page["result"]["markdown"].strip() == text
        assert page["result"]["metadata"]["page_number"] == number


async def test_pages_are_listed_in_parts_when_asked(client: Client, make_pdf: Pdf) -> None:
    job_id = await converted(client, make_pdf(*(fresh(f"page {n}") for n in range(1, 6))))
    listed = (await client.get(f"/jobs/{job_id}/pages?offset=1&limit=2")).json
    assert (listed["total_pages"], listed["offset"]) == (5, 1)
    assert [page["page_number"] for page in listed["pages"]] == [2, 3]
    page = listed["pages"][0]
    assert page["url"] == f"/jobs/{job_id}-p2/result"
    assert (page["status"], page["source"], page["page_class"]) == ("completed", "local", "TEXT_ONLY")
    assert page["words"] > 0
    assert (await client.get(f"/jobs/{job_id}/pages?offset=99")).json["pages"] == []


async def test_page_elements_have_boxes_when_the_page_exists(client: Client, make_pdf: Pdf) -> None:
    job_id = await converted(client, make_pdf(fresh("one"), fresh("two")))
    found = (await client.get(f"/jobs/{job_id}/pages/1/elements")).json
    assert (found["schema_version"], found["page_number"], found["job_id"]) == (1, 1, f"{job_id}-p1")
    assert found["elements"]
    for order, element in enumerate(found["elements"]):
        assert (element["order"], element["id"], len(element["box"])) == (order, f"p1-e{order + 1}", 4)
        assert "lines" not in element
    lines = (await client.get(f"/jobs/{job_id}/pages/1/elements?lines=1")).json
    assert all(element["lines"] for element in lines["elements"])
    for number in (0, 3):
        assert (await client.get(f"/jobs/{job_id}/pages/{number}/elements")).status == 404


async def test_page_image_is_a_picture_when_the_page_exists(client: Client, make_pdf: Pdf) -> None:
    job_id = await converted(client, make_pdf(fresh("to be drawn"), fresh("not wanted")), pages="1")
    image = await client.get(f"/jobs/{job_id}/pages/1/image")
    assert image.status == 200
    assert image.headers["Content-Type"] == "image/jpeg"
    assert image.body.startswith(b"\xff\xd8\xff")
    for number in ("2", "0", "99999999999999999999", "-1"):
        assert (await client.get(f"/jobs/{job_id}/pages/{number}/image")).status == 404
    assert (await client.get(f"/jobs/{job_id}/pages/one/image")).status == 400


async def test_original_is_a_download_whatever_it_is(client: Client, make_pdf: Pdf) -> None:
    pdf = make_pdf(fresh("kept as it came"))
    job_id = await converted(client, pdf)
    original = await client.get(f"/jobs/{job_id}/original")
    assert original.body == pdf
    assert original.headers["Content-Type"] == "application/octet-stream"
    assert original.headers["Content-Disposition"].startswith('attachment; filename="report.pdf"')
    assert original.headers["X-Content-Type-Options"] == "nosniff"


async def events_of(client: Client, job_id: str, last_id: str = "") -> tuple[int, list[dict[str, str]]]:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    found = []
    async with client.session.get(f"{client.url}/jobs/{job_id}/events", headers=headers) as response:
        for block in (await response.text()).split("\n\n"):
            lines = [line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")]
            found.append(dict(lines))
        return response.status, [event for event in found if "event" in event]


async def test_events_lead_to_the_end_and_can_be_resumed(client: Client, make_pdf: Pdf) -> None:
    accepted = await client.upload(make_pdf(*(fresh(f"page {n}") for n in range(20))))
    job_id = accepted.json["job_id"]
    status, events = await events_of(client, job_id)
    assert status == 200
    assert events[0]["event"] == "snapshot"
    last = json.loads(events[-1]["data"])
    assert (last["status"], last["progress"]) == ("completed", 100)
    assert events[-1]["id"]
    # Whoever has seen the last event is told not to come back; whoever has not, gets where it stands.
    assert (await events_of(client, job_id, events[-1]["id"]))[0] == 204
    status, again = await events_of(client, job_id, "1-0")
    assert status == 200
    assert json.loads(again[-1]["data"])["status"] == "completed"


async def test_events_refuse_an_id_that_is_none(client: Client, make_pdf: Pdf) -> None:
    job_id = await converted(client, make_pdf(fresh("events")))
    for bad in ("x", "-", "1-2-3", "99999999999999999999999", "1-99999999999999999999", "(1", "1 2"):
        assert (await events_of(client, job_id, bad))[0] == 400, bad


async def test_events_are_resumed_after_the_last_seen_when_the_job_still_runs(
    idle: Client, make_pdf: Pdf
) -> None:
    job_id = (await idle.upload(make_pdf(fresh("waiting")))).json["job_id"]
    place = f"{idle.url}/jobs/{job_id}/events"
    async with idle.session.get(place) as response:
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert response.headers["Content-Type"].startswith("text/event-stream")
        seen = b""
        while b"data:" not in seen:
            seen += await response.content.readuntil(b"\n\n")
    last_id = seen.split(b"id: ")[1].split(b"\n")[0].decode()
    async with idle.session.get(place, headers={"Last-Event-ID": last_id}) as response:
        while b": keep-alive" not in (await response.content.readuntil(b"\n\n")):
            pass
        await idle.post(f"/jobs/{job_id}/cancel")
        rest = await response.text()
    assert "snapshot" not in rest
    assert '"status": "cancelled"' in rest


async def test_jobs_are_listed_newest_first_and_by_status(idle: Client, make_pdf: Pdf) -> None:
    ids = [(await idle.upload(make_pdf(fresh(f"job {n}")))).json["job_id"] for n in range(3)]
    await idle.post(f"/jobs/{ids[1]}/cancel")
    listed = (await idle.get("/jobs?limit=3")).json["jobs"]
    assert [job["job_id"] for job in listed] == ids[::-1]
    first = (await idle.get("/jobs?limit=2")).json
    assert [job["job_id"] for job in first["jobs"]] == [ids[2], ids[1]]
    second = (await idle.get(f"/jobs?limit=1&before={first['next_before']}")).json
    assert second["jobs"][0]["job_id"] == ids[0]
    queued = (await idle.get("/jobs?status=queued&limit=2")).json["jobs"]
    assert [job["job_id"] for job in queued] == [ids[2], ids[0]]
    for bad in ("limit=0", "limit=x", "before=nan", "before=-1", "status=odd"):
        answer = await idle.get(f"/jobs?{bad}")
        assert answer.status == 400
        assert bad.split("=")[0] in answer.json["error"]


async def test_result_is_409_with_retry_after_when_not_ready(idle: Client, make_pdf: Pdf) -> None:
    job_id = (await idle.upload(make_pdf(fresh("not yet")), wait=0.05)).json["job_id"]
    for place in (f"{job_id}/result", f"{job_id}-p1/result", f"{job_id}/pages/1/image"):
        answer = await idle.get(f"/jobs/{place}")
        assert answer.status == 409, place
        assert answer.json["code"] == "not_ready"
        assert answer.json["retryable"] is True
        assert int(answer.headers["Retry-After"]) >= 1
    assert (await idle.get(f"/jobs/{job_id}/pages")).json["pages"] == []


async def test_cancel_stops_a_document_once_and_leaves_finished_ones(
    idle: Client, client: Client, make_pdf: Pdf
) -> None:
    job_id = (await idle.upload(make_pdf(fresh("to be stopped")))).json["job_id"]
    assert (await idle.post(f"/jobs/{job_id}-split/cancel")).status == 400
    stopped = await idle.post(f"/jobs/{job_id}/cancel")
    assert (stopped.status, stopped.json["status"]) == (202, "cancelled")
    again = await idle.post(f"/jobs/{job_id}/cancel")
    assert (again.status, again.json["status"]) == (200, "cancelled")
    result = await idle.get(f"/jobs/{job_id}/result")
    assert (result.status, result.json["code"]) == (409, "conflict")
    done = await converted(client, make_pdf(fresh("done before")))
    kept = await client.post(f"/jobs/{done}/cancel")
    assert (kept.status, kept.json["status"]) == (200, "completed")


async def test_wait_ends_when_another_cancels(idle: Client, make_pdf: Pdf) -> None:
    pdf = make_pdf(fresh("cancelled under way"))
    waiting = asyncio.create_task(idle.upload(pdf, wait=240))
    jobs: list[dict[str, str]] = []

    async def taken() -> bool:
        jobs[:] = (await idle.get("/jobs?status=queued")).json["jobs"]
        return bool(jobs)

    await until(taken)
    await idle.post(f"/jobs/{jobs[0]['job_id']}/cancel")
    answer = await waiting
    assert answer.status == 409
    assert answer.json["code"] == "cancelled"
    assert answer.json["job_id"] == jobs[0]["job_id"]


async def test_retry_redoes_what_its_id_names(client: Client, make_pdf: Pdf) -> None:
    text = fresh("read again")
    job_id = await converted(client, make_pdf(text, fresh("and this")))
    nothing = await client.post(f"/jobs/{job_id}/retry")
    assert (nothing.status, nothing.json["retried"]) == (200, False)
    for epoch, name in enumerate((f"{job_id}-p1", f"{job_id}-merge", f"{job_id}-split"), 2):
        started = await client.post(f"/jobs/{name}/retry", headers={"Idempotency-Key": f"again {name}"})
        assert (started.status, started.json["retried"], started.json["repeated"]) == (202, True, False)
        job = await client.over(job_id)
        assert (job["status"], job["epoch"]) == ("completed", epoch)
        repeated = await client.post(f"/jobs/{name}/retry", headers={"Idempotency-Key": f"again {name}"})
        assert (repeated.status, repeated.json["repeated"]) == (202, True)
        assert (await client.get(f"/jobs/{job_id}")).json["epoch"] == epoch
    result = (await client.get(f"/jobs/{job_id}-p1/result")).json
    assert result["result"]["markdown"].strip() == text
    assert (await client.post(f"/jobs/{job_id}-p3/retry")).status == 404


async def test_retry_is_409_while_the_job_runs_and_works_once_cancelled(idle: Client, make_pdf: Pdf) -> None:
    job_id = (await idle.upload(make_pdf(fresh("still running")))).json["job_id"]
    answer = await idle.post(f"/jobs/{job_id}/retry")
    assert (answer.status, answer.json["code"]) == (409, "conflict")
    await idle.post(f"/jobs/{job_id}/cancel")
    assert (await idle.post(f"/jobs/{job_id}/retry")).status == 202
    assert (await idle.get(f"/jobs/{job_id}")).json["status"] == "queued"


async def test_waiting_client_that_leaves_is_forgotten(
    idle: Client, idle_server: Server, make_pdf: Pdf
) -> None:
    form = aiohttp.FormData()
    form.add_field("file", make_pdf(fresh("left alone")), filename="a.pdf")
    request = {"X-Request-ID": "left-alone"}
    waiting = asyncio.create_task(idle.post("/convert?wait=600", data=form, headers=request))

    async def taken() -> bool:
        return bool((await idle.get("/jobs?status=queued")).json["jobs"])

    def answered() -> bool:
        lines = idle_server.log_path.read_text().splitlines()
        return any("left-alone" in line and '"event": "request"' in line for line in lines)

    await until(taken)
    assert not answered()
    waiting.cancel()
    await until(answered)


async def test_follower_that_leaves_is_forgotten(idle: Client, idle_server: Server, make_pdf: Pdf) -> None:
    job_id = (await idle.upload(make_pdf(fresh("followed")))).json["job_id"]
    headers = {"X-Request-ID": "follower"}
    async with idle.session.get(f"{idle.url}/jobs/{job_id}/events", headers=headers) as response:
        await response.content.readuntil(b"data:")
        assert "follower" not in idle_server.log_path.read_text()
    await until(lambda: "follower" in idle_server.log_path.read_text())


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of memory")
async def test_large_result_is_never_whole_in_memory(client: Client, server: Server) -> None:
    line = 'Ein Satz mit „Zeichen“, die gequotet "werden" müssen \\ und \U0001f600.\n'
    text = f"{fresh('long')}\n{line * (3_500_000 // len(line.encode()))}".encode()
    job_id = (await client.upload(text, wait=240, name="a.txt")).json["job_id"]
    bare = (await client.get(f"/jobs/{job_id}/result?format=md")).body
    assert len(bare) > 3_000_000
    place = Path(f"/proc/{server.process.pid}")
    (place / "clear_refs").write_text("5")  # forgets the peak so far
    before = peak_kib(place)
    answer = await client.get(f"/jobs/{job_id}/result")
    assert answer.json["result"]["markdown"].encode() == bare
    # Decoded as a whole, with its one wide character, the text alone would take 13 MB.
    assert peak_kib(place) - before < 8_000


def peak_kib(process: Path) -> int:
    lines = (process / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
