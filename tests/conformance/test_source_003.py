"""Source 003: jobs of a document (main, split, page, merge), their records, results and retries.

One document is taken through its stages by workers of one kind each (`staged`), so that the records of every stage
are seen without any race; the other tests use a service that does everything.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.conformance.running_service import HttpClient, RunningService, eventually
from tests.support.marked_documents import marked_pdf, marker

SETTINGS = {"ALLOW_PRIVATE_URLS": "true"}
SEPARATOR = "\n\n---\n\n"
UNIFIED = (
    "job_id type status parent_job_id progress created_at started_at completed_at error".split()  # noqa: SIM905
)


class Staged:
    """What the service answered about one four-page document before and after each of its stages."""

    def __init__(self, service: RunningService, job_id: str) -> None:
        self.service = service
        self.id = job_id
        self.seen: dict[str, dict[str, Any]] = {}
        self.statuses: dict[tuple[str, str], int] = {}

    def __getitem__(self, place: tuple[str, str]) -> Any:
        stage, path = place
        return self.seen[stage][path]

    async def record(self, stage: str) -> None:
        async with aiohttp.ClientSession() as session:
            client = HttpClient(self.service.url, session)
            self.seen[stage] = {}
            for path in ("", "-split", "-p2", "-merge", "/pages", "/result", "-p2/result", "-merge/result"):
                answer = await client.get(f"/jobs/{self.id}{path}")
                self.seen[stage][path] = answer.json
                self.statuses[stage, path] = answer.status

    async def reach(self, stage: str, progress: int) -> None:
        async with aiohttp.ClientSession() as session:
            client = HttpClient(self.service.url, session)

            async def there() -> bool:
                return bool((await client.get(f"/jobs/{self.id}")).json["progress"] == progress)

            await eventually(there, f"{progress} per cent")
        await self.record(stage)


@pytest.fixture(scope="module")
def staged(start_service: Callable[..., RunningService], tmp_path_factory: pytest.TempPathFactory) -> Staged:
    folder = tmp_path_factory.mktemp("staged")
    service = start_service(folder=folder, RUN_DISPATCHER="0").wait_ready()
    document = marked_pdf(folder / "a.pdf", 4, seed=3).read_bytes()

    async def go() -> Staged:
        async with aiohttp.ClientSession() as session:
            accepted = await HttpClient(service.url, session).upload(document)
        one = Staged(service, accepted.json["job_id"])
        await one.record("queued")
        for queue, progress in (("split", 10), ("page", 90), ("merge", 100)):
            worker = start_service("worker", "--queues", queue, folder=folder)
            await one.reach(queue, progress)
            worker.stop()
        return one

    return asyncio.run(go())


@pytest.fixture
async def idle(staged: Staged) -> AsyncIterator[HttpClient]:
    """A client of the staged service, which has no worker any more."""
    async with aiohttp.ClientSession() as session:
        yield HttpClient(staged.service.url, session)


@pytest.fixture
def pdf(tmp_path: Path) -> Callable[[int], bytes]:
    """A new document of that many pages, unlike any other."""
    return lambda pages: marked_pdf(tmp_path / "new.pdf", pages, seed=uuid.uuid4().int).read_bytes()


async def converted(client: HttpClient, document: bytes, **fields: str) -> dict[str, Any]:
    accepted = await client.upload(document, mode="local", **fields)
    assert accepted.status == 202, accepted.text
    return await client.finished(accepted.json["job_id"])


# ---- hierarchy and records -------------------------------------------------------------------------------------


@pytest.mark.requirement("003-1", "A document is one main job with a split, one job a page, and a merge")
def test_a_document_has_a_job_for_each_operation_when_converted(staged: Staged) -> None:
    children = staged["merge", ""]["child_jobs"]
    ids = [children["split_job_id"], *children["page_jobs"], children["merge_job_id"]]
    assert len(set(ids)) == 6
    assert staged["merge", ""]["type"] == "main"


@pytest.mark.requirement(
    "003-2", "A main job has type, status, progress, created_at, started_at, completed_at and error"
)
def test_a_main_job_has_its_status_and_times_when_asked(staged: Staged) -> None:
    before, after = staged["queued", ""], staged["merge", ""]
    assert (before["type"], before["status"], before["progress"]) == ("main", "queued", 0)
    assert before["created_at"]
    assert (before["started_at"], before["completed_at"], before["error"]) == (None, None, None)
    assert staged["split", ""]["status"] == "processing"
    assert staged["split", ""]["started_at"]
    assert (after["status"], after["progress"], after["error"]) == ("completed", 100, None)
    assert after["created_at"] <= after["started_at"] <= after["completed_at"]


@pytest.mark.requirement("003-3", "A main job says where its document came from: source_type")
async def test_a_main_job_has_a_source_type_when_asked(staged: Staged) -> None:
    assert staged["queued", ""]["source_type"] == "file"


@pytest.mark.requirement("003-4", "A main job says what its document is: file_format")
async def test_a_main_job_has_a_file_format_when_opened(staged: Staged) -> None:
    assert staged["split", ""]["file_format"] == "pdf"


@pytest.mark.requirement("003-5", "A main job has total_pages and pages_completed")
def test_a_main_job_counts_its_pages_when_read(staged: Staged) -> None:
    counts = [
        (staged[stage, ""]["total_pages"], staged[stage, ""]["pages_completed"]) for stage in staged.seen
    ]
    assert counts == [(None, 0), (4, 0), (4, 4), (4, 4)]


@pytest.mark.requirement(
    "003-6", "child_jobs of a main job has split_job_id, page_jobs in page order, and merge_job_id"
)
async def test_child_jobs_lead_to_jobs_when_asked(idle: HttpClient, staged: Staged) -> None:
    children = staged["merge", ""]["child_jobs"]
    named = {children["split_job_id"]: "split", children["merge_job_id"]: "merge"}
    named |= dict.fromkeys(children["page_jobs"], "page")
    for job_id, kind in named.items():
        answer = (await idle.get(f"/jobs/{job_id}")).json
        assert (answer["job_id"], answer["type"], answer["parent_job_id"]) == (job_id, kind, staged.id)
    numbers = [(await idle.get(f"/jobs/{one}")).json["page_number"] for one in children["page_jobs"]]
    assert numbers == [1, 2, 3, 4]


@pytest.mark.requirement("003-7", "merge_job_id is null until every page has ended")
def test_there_is_no_merge_when_pages_are_missing(staged: Staged) -> None:
    ids = [staged[stage, ""]["child_jobs"]["merge_job_id"] is not None for stage in staged.seen]
    assert ids == [False, False, True, True]
    assert staged.statuses["split", "-merge"] == 404


@pytest.mark.requirement(
    "003-8",
    "A split job has status, parent_job_id, total_pages, pages_created, created_at and completed_at",
)
def test_a_split_job_counts_the_pages_it_created_when_done(staged: Staged) -> None:
    before, after = staged["queued", "-split"], staged["split", "-split"]
    assert (before["type"], before["status"], before["pages_created"]) == ("split", "queued", 0)
    assert (before["total_pages"], before["completed_at"]) == (None, None)
    assert (after["status"], after["total_pages"], after["pages_created"]) == ("completed", 4, 4)
    assert after["parent_job_id"] == staged.id
    assert after["created_at"] <= after["completed_at"]


@pytest.mark.requirement(
    "003-9",
    "A page job has status, parent_job_id, page_number, created_at, started_at, completed_at and error",
)
def test_a_page_job_has_its_status_and_times_when_asked(staged: Staged) -> None:
    before, after = staged["split", "-p2"], staged["page", "-p2"]
    assert (before["type"], before["status"], before["page_number"]) == ("page", "queued", 2)
    assert before["created_at"]
    assert (before["started_at"], before["completed_at"]) == (None, None)
    assert (after["status"], after["parent_job_id"], after["error"]) == ("completed", staged.id, None)
    assert after["created_at"] <= after["started_at"] <= after["completed_at"]


@pytest.mark.requirement("003-10", "A page job names the stored document and the page in it: page_file_path")
def test_a_page_job_names_its_file_when_asked(staged: Staged) -> None:
    assert staged["split", "-p2"]["page_file_path"].endswith("#page=2")


@pytest.mark.requirement(
    "003-11", "A page result has markdown, and page_number, words and size_bytes as metadata"
)
def test_a_page_result_counts_words_and_bytes_when_read(staged: Staged) -> None:
    result = staged["page", "-p2/result"]["result"]
    assert marker(3, 2) in result["markdown"]
    metadata = result["metadata"]
    assert metadata["page_number"] == 2
    assert metadata["size_bytes"] == len(result["markdown"].encode())
    assert metadata["words"] == len(result["markdown"].split())


@pytest.mark.requirement(
    "003-12", "A merge job has status, parent_job_id, total_pages, pages_merged, created_at and completed_at"
)
def test_a_merge_job_counts_the_pages_it_merged_when_done(staged: Staged) -> None:
    before, after = staged["page", "-merge"], staged["merge", "-merge"]
    assert (before["type"], before["status"], before["total_pages"]) == ("merge", "queued", 4)
    assert (before["pages_merged"], before["completed_at"]) == (0, None)
    assert (after["status"], after["pages_merged"], after["parent_job_id"]) == ("completed", 4, staged.id)
    assert after["created_at"] <= after["completed_at"]


@pytest.mark.requirement("003-13", "A merge result has markdown, and pages, total_words and total_size_bytes")
def test_a_merge_result_sums_its_pages_when_done(staged: Staged) -> None:
    answer = staged["merge", "-merge/result"]
    metadata = answer["result"]["metadata"]
    pages = staged["merge", "/pages"]["pages"]
    assert (answer["type"], metadata["pages"]) == ("merge", 4)
    assert metadata["total_words"] == sum(page["words"] for page in pages) > 0
    assert metadata["total_size_bytes"] == sum(page["size_bytes"] for page in pages) > 0


# ---- processing ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003-14", "POST /convert answers at once with the id of a queued main job, a UUID")
async def test_an_upload_is_queued_when_no_worker_runs(idle: HttpClient, pdf: Callable[[int], bytes]) -> None:
    accepted = await idle.upload(pdf(2))
    assert (accepted.status, accepted.json["status"]) == (202, "queued")
    assert str(uuid.UUID(accepted.json["job_id"])) == accepted.json["job_id"]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A web server on this machine, and the folder that it serves."""
    folder = tmp_path_factory.mktemp("web")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", folder
    server.shutdown()
    server.server_close()


@pytest.mark.requirement("003-15", "A document given by its address is downloaded first, by a download job")
async def test_a_link_has_a_download_job_when_converted(client: HttpClient, web: tuple[str, Path]) -> None:
    url, folder = web
    marked_pdf(folder / "linked.pdf", 2, seed=15)
    accepted = await client.post("/convert", json={"source": f"{url}/linked.pdf", "mode": "local"})
    job = await client.finished(accepted.json["job_id"])
    assert (job["status"], job["source_type"]) == ("completed", "url")
    download = (await client.get(f"/jobs/{job['child_jobs']['download_job_id']}")).json
    assert (download["type"], download["status"], download["progress"]) == ("download", "completed", 100)
    assert download["completed_at"] <= (await client.get(f"/jobs/{job['job_id']}-split")).json["created_at"]


@pytest.mark.requirement("003-16", "A document of one page gives its result in the same way")
async def test_a_single_page_is_converted_when_there_is_only_one(
    client: HttpClient, pdf: Callable[[int], bytes]
) -> None:
    job = await converted(client, pdf(1))
    result = (await client.get(f"/jobs/{job['job_id']}/result")).json["result"]
    page = (await client.get(f"/jobs/{job['job_id']}-p1/result")).json["result"]
    assert result["markdown"] == page["markdown"]
    assert result["metadata"]["pages"] == 1


@pytest.mark.requirement("003-17", "The split creates one page job for every page of the document")
def test_every_page_has_a_job_when_the_split_is_done(staged: Staged) -> None:
    assert staged["split", ""]["child_jobs"]["page_jobs"] == [f"{staged.id}-p{n}" for n in range(1, 5)]
    assert [page["status"] for page in staged["split", "/pages"]["pages"]] == ["queued"] * 4


@pytest.mark.requirement("003-18", "The merge job is created when the last page has ended, once")
def test_the_merge_is_created_once_when_all_pages_have_ended(staged: Staged) -> None:
    pages = staged["page", "/pages"]["pages"]
    assert {page["status"] for page in pages} == {"completed"}
    last = staged["page", "-p2"]["completed_at"]
    assert staged["page", "-merge"]["created_at"] >= last
    assert staged["merge", "-merge"]["attempts"] == 1


@pytest.mark.requirement("003-19", "The merge joins the pages in their order, divided by a horizontal rule")
def test_the_result_has_all_pages_in_order_when_merged(staged: Staged) -> None:
    parts = staged["merge", "/result"]["result"]["markdown"].split(SEPARATOR)
    assert [marker(3, n) in part for n, part in enumerate(parts, start=1)] == [True] * 4


@pytest.mark.requirement("003-20", "The main job is completed by the end of the merge")
def test_the_main_job_is_completed_when_the_merge_is(staged: Staged) -> None:
    assert staged["page", ""]["status"] == "processing"
    assert staged["merge", ""]["completed_at"] == staged["merge", "-merge"]["completed_at"]


# ---- endpoints -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003-21", "GET /jobs/{id} answers for a job of any type")
@pytest.mark.parametrize(
    ("ending", "kind"), [("", "main"), ("-split", "split"), ("-p3", "page"), ("-merge", "merge")]
)
async def test_a_job_is_found_when_asked_by_its_id(
    idle: HttpClient, staged: Staged, ending: str, kind: str
) -> None:
    answer = await idle.get(f"/jobs/{staged.id}{ending}")
    assert (answer.status, answer.json["job_id"], answer.json["type"]) == (200, f"{staged.id}{ending}", kind)


@pytest.mark.requirement(
    "003-22", "GET /jobs/{main}/result has job_id, type, and result with markdown and metadata"
)
def test_a_main_result_has_its_shape_when_completed(staged: Staged) -> None:
    answer = staged["merge", "/result"]
    assert (answer["job_id"], answer["type"], answer["status"]) == (staged.id, "main", "completed")
    assert answer["result"]["metadata"]["pages"] == 4
    assert answer["result"]["metadata"]["total_words"] > 0
    assert answer["completed_at"] == staged["merge", ""]["completed_at"]


@pytest.mark.requirement(
    "003-23",
    "GET /jobs/{page}/result has job_id, type, page_number, parent_job_id, status, result and completed_at",
)
def test_a_page_result_has_its_shape_when_completed(staged: Staged) -> None:
    answer = staged["page", "-p2/result"]
    head = {name: answer[name] for name in ("job_id", "type", "page_number", "parent_job_id", "status")}
    assert head == {
        "job_id": f"{staged.id}-p2",
        "type": "page",
        "page_number": 2,
        "parent_job_id": staged.id,
        "status": "completed",
    }
    job = staged["page", "-p2"]
    times = ("created_at", "started_at", "completed_at")
    assert [answer[name] for name in times] == [job[name] for name in times]


@pytest.mark.requirement(
    "003-24", "A page's result can be fetched while the rest of its document is not done"
)
def test_a_page_is_there_when_the_merge_is_still_waiting(staged: Staged) -> None:
    assert (staged.statuses["page", "-p2/result"], staged.statuses["page", "/result"]) == (200, 409)
    assert (staged.statuses["split", "-p2/result"], staged.statuses["merge", "/result"]) == (409, 200)


@pytest.mark.requirement(
    "003-25", "GET /jobs/{main}/pages lists number, job_id, status and url of every page"
)
async def test_pages_are_listed_when_asked(idle: HttpClient, staged: Staged) -> None:
    listed = staged["merge", "/pages"]
    assert (listed["job_id"], listed["total_pages"]) == (staged.id, 4)
    shown = [(page["page_number"], page["job_id"], page["status"]) for page in listed["pages"]]
    assert shown == [(n, f"{staged.id}-p{n}", "completed") for n in range(1, 5)]
    for page in listed["pages"]:
        assert (await idle.get(page["url"])).json["page_number"] == page["page_number"]


@pytest.mark.requirement("003-26", "The list of pages comes in parts, each with a link to the next")
async def test_pages_are_listed_in_parts_when_a_limit_is_given(idle: HttpClient, staged: Staged) -> None:
    numbers: list[int] = []
    address = f"/jobs/{staged.id}/pages?limit=3"
    while address:
        part = (await idle.get(address)).json
        numbers += [page["page_number"] for page in part["pages"]]
        address = part["next"]
    assert numbers == [1, 2, 3, 4]


# ---- progress --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003-27", "Progress of a main job: the split counts 10, the pages 80, the merge 10")
def test_progress_adds_up_when_stages_end(staged: Staged) -> None:
    assert [staged[stage, ""]["progress"] for stage in staged.seen] == [0, 10, 90, 100]


@pytest.mark.requirement("003-28", "Every job has a progress of its own")
def test_every_job_has_a_progress_when_asked(staged: Staged) -> None:
    shown = {
        stage: [staged[stage, path].get("progress") for path in ("-split", "-p2", "-merge")]
        for stage in staged.seen
    }
    assert shown == {
        "queued": [0, 0, None],
        "split": [100, 0, None],
        "page": [100, 100, 0],
        "merge": [100, 100, 100],
    }


@pytest.mark.requirement(
    "003-29",
    "All types of jobs share one schema: id, type, status, parent, progress, times and error",
)
@pytest.mark.parametrize("path", ["", "-split", "-p2", "-merge"])
def test_jobs_share_their_fields_when_shown(staged: Staged, path: str) -> None:
    assert [name for name in UNIFIED if name not in staged["merge", path]] == []


# ---- retries ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "003-30", "A retry of one page reads that page and merges again; other pages stay as they are"
)
async def test_only_one_page_is_read_again_when_it_is_retried(
    client: HttpClient, pdf: Callable[[int], bytes]
) -> None:
    job_id = (await converted(client, pdf(3)))["job_id"]
    before = [(await client.get(f"/jobs/{job_id}-p{n}")).json["completed_at"] for n in (1, 2, 3)]
    retried = await client.post(f"/jobs/{job_id}-p2/retry")
    assert (retried.status, retried.json["retried"]) == (202, True)
    assert (await client.finished(job_id))["epoch"] == 2
    after = [(await client.get(f"/jobs/{job_id}-p{n}")).json["completed_at"] for n in (1, 2, 3)]
    assert [new > old for new, old in zip(after, before, strict=True)] == [False, True, False]


@pytest.mark.requirement("003-31", "A retry of the merge merges the pages that are there, and reads none")
async def test_no_page_is_read_again_when_the_merge_is_retried(
    client: HttpClient, pdf: Callable[[int], bytes]
) -> None:
    job_id = (await converted(client, pdf(2)))["job_id"]
    before = (await client.get(f"/jobs/{job_id}-p1")).json["completed_at"]
    merged = (await client.get(f"/jobs/{job_id}-merge")).json["completed_at"]
    assert (await client.post(f"/jobs/{job_id}-merge/retry")).status == 202
    job = await client.finished(job_id)
    assert (job["status"], job["epoch"]) == ("completed", 2)
    assert (await client.get(f"/jobs/{job_id}-p1")).json["completed_at"] == before
    assert (await client.get(f"/jobs/{job_id}-merge")).json["completed_at"] > merged


@pytest.mark.requirement("003-32", "A retry does not split a document again that was split")
async def test_the_split_stays_when_a_page_is_retried(
    client: HttpClient, pdf: Callable[[int], bytes]
) -> None:
    job_id = (await converted(client, pdf(2)))["job_id"]
    before = (await client.get(f"/jobs/{job_id}-split")).json
    await client.post(f"/jobs/{job_id}-p1/retry")
    await client.finished(job_id)
    assert (await client.get(f"/jobs/{job_id}-split")).json == before


# ---- states and operation --------------------------------------------------------------------------------------


@pytest.mark.requirement("003-33", "A job that can't be done is failed, and its error says why")
async def test_a_job_is_failed_when_its_document_is_damaged(client: HttpClient) -> None:
    accepted = await client.upload(b"%PDF-1.7\n" + uuid.uuid4().bytes * 40)
    job = await client.finished(accepted.json["job_id"])
    assert job["status"] == "failed"
    assert job["error"]["error"]
    split = (await client.get(f"/jobs/{job['job_id']}-split")).json
    assert (split["status"], split["error"]) == ("failed", job["error"])


@pytest.mark.requirement("003-34", "A user can cancel a job; it and its children are cancelled")
async def test_a_job_is_cancelled_when_asked(idle: HttpClient, pdf: Callable[[int], bytes]) -> None:
    job_id = (await idle.upload(pdf(2))).json["job_id"]
    assert (await idle.post(f"/jobs/{job_id}/cancel")).json["status"] == "cancelled"
    assert (await idle.get(f"/jobs/{job_id}")).json["status"] == "cancelled"
    assert (await idle.get(f"/jobs/{job_id}-split")).json["status"] == "cancelled"


@pytest.mark.requirement("003-35", "Each type of job has a queue of its own and can have workers of its own")
def test_only_its_type_is_worked_on_when_a_worker_names_a_queue(staged: Staged) -> None:
    assert staged["split", "-split"]["status"] == "completed"
    assert staged["split", "-p2"]["status"] == "queued"
    assert (staged["page", "-p2"]["status"], staged["page", "-merge"]["status"]) == ("completed", "queued")


@pytest.mark.requirement("003-36", "Work can be given a priority: low, normal or high")
async def test_priority_is_kept_when_given(idle: HttpClient, pdf: Callable[[int], bytes]) -> None:
    job_id = (await idle.upload(pdf(1), priority="high")).json["job_id"]
    assert (await idle.get(f"/jobs/{job_id}")).json["priority"] == "high"
    assert (await idle.upload(pdf(1), priority="urgent")).status == 400


@pytest.mark.requirement("003-37", "Finished jobs stay for questions, with how each page was read")
async def test_a_job_is_listed_when_it_has_ended(idle: HttpClient, staged: Staged) -> None:
    listed = (await idle.get("/jobs?status=completed")).json["jobs"]
    assert staged.id in [job["job_id"] for job in listed]
    assert {page["source"] for page in staged["merge", "/pages"]["pages"]} == {"local"}


@pytest.mark.requirement("003-38", "A part of a document can be fetched alone, as bare Markdown")
async def test_one_page_is_downloaded_when_asked_for_as_text(idle: HttpClient, staged: Staged) -> None:
    answer = await idle.get(f"/jobs/{staged.id}-p3/result?format=md")
    assert answer.headers["Content-Type"].startswith("text/markdown")
    assert marker(3, 3) in answer.text
    assert marker(3, 2) not in answer.text


@pytest.mark.requirement(
    "003-39", "A part of the document can be read: only the pages that are asked for have jobs"
)
async def test_only_asked_for_pages_have_jobs_when_pages_are_selected(
    client: HttpClient, pdf: Callable[[int], bytes]
) -> None:
    job = await converted(client, pdf(4), pages="2,4")
    assert job["child_jobs"]["page_jobs"] == [f"{job['job_id']}-p2", f"{job['job_id']}-p4"]
    assert job["total_pages"] == 2
    assert (await client.get(f"/jobs/{job['job_id']}-p1")).status == 404
