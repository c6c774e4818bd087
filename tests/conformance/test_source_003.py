"""Source 003: jobs of a document (main, split, page, merge), their records, results and retries.

One document is taken through its stages by workers of one kind each (`staged`), and one is halted while AI reads its
last page (`halfway`), so that the records of every stage are seen without any race; the other tests use a service that
does everything.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import re
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quire.simulator.simulator_thread import RunningSimulator
from tests.support.environment import ROOT
from tests.support.marked_documents import marked_pdf, marker
from tests.support.serving import Client, Server, client_of
from tests.support.waiting import eventually

SETTINGS = {"ALLOW_PRIVATE_URLS": "true", "REQUEST_TIMEOUT": "5m", "PAGE_TOTAL_TIMEOUT": "5m"}
SEPARATOR = "\n\n---\n\n"
PATHS = ("", "-split", "-p1", "-p2", "-merge", "/pages", "/result", "-p2/result", "-merge/result")
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class Staged:
    """What the service answered about one document at each of its stages: `staged["merge", "/pages"]`."""

    def __init__(self, service: Server, job_id: str) -> None:
        self.service = service
        self.id = job_id
        self.seen: dict[str, dict[str, Any]] = {}
        self.statuses: dict[tuple[str, str], int] = {}

    def __getitem__(self, place: tuple[str, str]) -> Any:
        stage, path = place
        return self.seen[stage][path]

    async def record(self, stage: str) -> None:
        async with client_of(self.service) as client:
            self.seen[stage] = {}
            for path in PATHS:
                answer = await client.get(f"/jobs/{self.id}{path}")
                self.seen[stage][path] = answer.json
                self.statuses[stage, path] = answer.status

    async def reach(self, stage: str, progress: int) -> None:
        async with client_of(self.service) as client:

            async def there() -> bool:
                return bool((await client.get(f"/jobs/{self.id}")).json["progress"] == progress)

            await eventually(there, f"{progress} per cent")
        await self.record(stage)


@pytest.fixture(scope="module")
def staged(start_service: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Staged:
    """Four pages, recorded when they are queued and after the split, the pages and the merge."""
    folder = tmp_path_factory.mktemp("staged")
    service = start_service(folder=folder, RUN_DISPATCHER="0").wait_ready()
    document = marked_pdf(folder / "a.pdf", 4, seed=3).read_bytes()

    async def go() -> Staged:
        async with client_of(service) as client:
            accepted = await client.upload(document)
        one = Staged(service, accepted.json["job_id"])
        await one.record("queued")
        for queue, progress in (("split", 10), ("page", 90), ("merge", 100)):
            worker = start_service("worker", "--queues", queue, folder=folder)
            await one.reach(queue, progress)
            worker.stop()
        return one

    return asyncio.run(go())


@pytest.fixture(scope="module")
def halfway(service: Server, sim: RunningSimulator, tmp_path_factory: pytest.TempPathFactory) -> Staged:
    """Three pages of text are read and the fourth, a picture, is with a model that hangs."""
    import pymupdf

    path = marked_pdf(tmp_path_factory.mktemp("halfway") / "a.pdf", 3, seed=4)
    with pymupdf.open(path) as mixed, pymupdf.open(ROOT / "samples" / "pictures.pdf") as pictures:
        mixed.insert_pdf(pictures, to_page=0)
        document = mixed.tobytes()

    async def go() -> Staged:
        sim.play({"rules": [{"fault": "hang"}]})
        async with client_of(service) as client:
            one = Staged(service, (await client.upload(document)).json["job_id"])
            await one.reach("halfway", 70)
            sim.play({})
            await client.post(f"/jobs/{one.id}/cancel")
            await one.record("cancelled")
        return one

    return asyncio.run(go())


@pytest.fixture
async def idle(staged: Staged) -> AsyncIterator[Client]:
    """A client of the staged service, which has no worker any more."""
    async with client_of(staged.service) as client:
        yield client


@pytest.fixture
def pdf(tmp_path: Path) -> Callable[[int], bytes]:
    """A new document of that many pages, unlike any other."""
    return lambda pages: marked_pdf(tmp_path / "new.pdf", pages, seed=uuid.uuid4().int).read_bytes()


async def converted(client: Client, document: bytes, **fields: str) -> dict[str, Any]:
    accepted = await client.upload(document, mode="local", **fields)
    assert accepted.status == 202, accepted.text
    return await client.over(accepted.json["job_id"])


# ---- hierarchy -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003-1", "A document is one main job")
def test_document_is_a_main_job_when_sent(staged: Staged) -> None:
    assert (staged["queued", ""]["job_id"], staged["queued", ""]["type"]) == (staged.id, "main")


@pytest.mark.requirement("003-1a", "A main job has one split job below it")
def test_split_is_below_the_main_job_when_sent(staged: Staged) -> None:
    assert staged["queued", "-split"]["parent_job_id"] == staged.id


@pytest.mark.requirement("003-1b", "A main job has one page job below it for each page")
def test_pages_are_below_the_main_job_when_split(staged: Staged) -> None:
    assert [page["page_number"] for page in staged["split", "/pages"]["pages"]] == [1, 2, 3, 4]
    assert staged["split", "-p2"]["parent_job_id"] == staged.id


@pytest.mark.requirement("003-1c", "A main job has one merge job below it")
def test_merge_is_below_the_main_job_when_the_pages_are_read(staged: Staged) -> None:
    assert staged["page", "-merge"]["parent_job_id"] == staged.id


@pytest.mark.requirement("003-1d", "Each operation has a job id of its own")
def test_ids_are_distinct_when_a_document_is_converted(staged: Staged) -> None:
    children = staged["merge", ""]["child_jobs"]
    ids = [staged.id, children["split_job_id"], *children["page_jobs"], children["merge_job_id"]]
    assert len(set(ids)) == 7


# ---- the record of a main job ----------------------------------------------------------------------------------


@pytest.mark.requirement("003-2", "A main job has its status: queued, processing, completed")
def test_main_job_has_its_status_at_each_stage(staged: Staged) -> None:
    assert [staged[stage, ""]["status"] for stage in staged.seen] == [
        "queued", "processing", "processing", "completed",
    ]  # fmt: skip


@pytest.mark.requirement("003-2a", "A main job has created_at")
def test_main_job_has_created_at_when_queued(staged: Staged) -> None:
    assert ISO.fullmatch(staged["queued", ""]["created_at"])


@pytest.mark.requirement("003-2b", "A main job has started_at once a worker has taken it, null before")
def test_main_job_has_started_at_when_a_worker_has_begun(staged: Staged) -> None:
    assert staged["queued", ""]["started_at"] is None
    assert staged["split", ""]["started_at"] >= staged["split", ""]["created_at"]


@pytest.mark.requirement("003-2c", "completed_at of a main job is null until it has ended")
def test_main_job_has_completed_at_when_it_has_ended(staged: Staged) -> None:
    assert staged["page", ""]["completed_at"] is None
    assert staged["merge", ""]["completed_at"] >= staged["merge", ""]["started_at"]


@pytest.mark.requirement("003-2d", "error of a main job is null while nothing has failed")
def test_main_job_has_no_error_when_nothing_failed(staged: Staged) -> None:
    assert [staged[stage, ""]["error"] for stage in staged.seen] == [None] * 4


@pytest.mark.requirement("003-3", "A main job says where its document came from: source_type")
def test_main_job_has_a_source_type_when_asked(staged: Staged) -> None:
    assert staged["queued", ""]["source_type"] == "file"


@pytest.mark.requirement("003-4", "A main job says what its document is: file_format")
def test_main_job_has_a_file_format_when_opened(staged: Staged) -> None:
    assert staged["split", ""]["file_format"] == "pdf"


@pytest.mark.requirement("003-5", "A main job has total_pages once its document was opened")
def test_main_job_has_total_pages_when_opened(staged: Staged) -> None:
    assert [staged[stage, ""]["total_pages"] for stage in staged.seen] == [None, 4, 4, 4]


@pytest.mark.requirement("003-5a", "A main job has pages_completed")
def test_main_job_counts_its_pages_when_they_are_read(staged: Staged) -> None:
    assert [staged[stage, ""]["pages_completed"] for stage in staged.seen] == [0, 0, 4, 4]


@pytest.mark.requirement("003-6", "child_jobs of a main job has split_job_id")
def test_split_job_id_leads_to_the_split_when_asked(staged: Staged) -> None:
    assert staged["queued", ""]["child_jobs"]["split_job_id"] == staged["queued", "-split"]["job_id"]


@pytest.mark.requirement("003-6a", "child_jobs of a main job has page_jobs in page order")
async def test_page_jobs_lead_to_the_pages_in_order_when_asked(idle: Client, staged: Staged) -> None:
    ids = staged["split", ""]["child_jobs"]["page_jobs"]
    assert [(await idle.get(f"/jobs/{one}")).json["page_number"] for one in ids] == [1, 2, 3, 4]


@pytest.mark.requirement("003-6b", "child_jobs of a main job has merge_job_id")
def test_merge_job_id_leads_to_the_merge_when_asked(staged: Staged) -> None:
    assert staged["page", ""]["child_jobs"]["merge_job_id"] == staged["page", "-merge"]["job_id"]


@pytest.mark.requirement("003-7", "merge_job_id is null until every page has ended")
def test_there_is_no_merge_when_pages_are_missing(staged: Staged, halfway: Staged) -> None:
    ids = [staged[stage, ""]["child_jobs"]["merge_job_id"] is not None for stage in staged.seen]
    assert ids == [False, False, True, True]
    assert halfway["halfway", ""]["child_jobs"]["merge_job_id"] is None
    assert halfway.statuses["halfway", "-merge"] == 404


# ---- the record of a split -------------------------------------------------------------------------------------


@pytest.mark.requirement("003-8", "A split job has its type and status")
def test_split_has_its_type_and_status_when_asked(staged: Staged) -> None:
    shown = [
        (staged[stage, "-split"]["type"], staged[stage, "-split"]["status"]) for stage in ("queued", "split")
    ]
    assert shown == [("split", "queued"), ("split", "completed")]


@pytest.mark.requirement("003-8a", "A split job has parent_job_id")
def test_split_has_its_parent_when_asked(staged: Staged) -> None:
    assert staged["split", "-split"]["parent_job_id"] == staged.id


@pytest.mark.requirement("003-8b", "A split job has total_pages")
def test_split_has_total_pages_when_the_document_is_opened(staged: Staged) -> None:
    assert [staged[stage, "-split"]["total_pages"] for stage in ("queued", "split")] == [None, 4]


@pytest.mark.requirement("003-8c", "A split job has pages_created")
def test_split_counts_the_pages_it_created_when_done(staged: Staged) -> None:
    assert [staged[stage, "-split"]["pages_created"] for stage in ("queued", "split")] == [0, 4]


@pytest.mark.requirement("003-8d", "A split job has created_at and completed_at")
def test_split_has_its_times_when_done(staged: Staged) -> None:
    assert staged["queued", "-split"]["completed_at"] is None
    split = staged["split", "-split"]
    assert split["created_at"] <= split["completed_at"]


# ---- the record and the result of a page -----------------------------------------------------------------------


@pytest.mark.requirement("003-9", "A page job has its type and status")
def test_page_has_its_type_and_status_when_asked(staged: Staged) -> None:
    shown = [(staged[stage, "-p2"]["type"], staged[stage, "-p2"]["status"]) for stage in ("split", "page")]
    assert shown == [("page", "queued"), ("page", "completed")]


@pytest.mark.requirement("003-9a", "A page job has parent_job_id")
def test_page_has_its_parent_when_asked(staged: Staged) -> None:
    assert staged["page", "-p2"]["parent_job_id"] == staged.id


@pytest.mark.requirement("003-9b", "A page job has page_number")
def test_page_has_its_number_when_asked(staged: Staged) -> None:
    assert (staged["split", "-p1"]["page_number"], staged["split", "-p2"]["page_number"]) == (1, 2)


@pytest.mark.requirement("003-9c", "A page job has created_at, the time of its split")
def test_page_has_created_at_when_split(staged: Staged) -> None:
    assert staged["split", "-p2"]["created_at"] == staged["split", "-split"]["completed_at"]


@pytest.mark.requirement("003-9d", "A page job has started_at, null before")
def test_page_has_started_at_when_it_is_read(staged: Staged) -> None:
    assert staged["split", "-p2"]["started_at"] is None
    assert staged["page", "-p2"]["started_at"] >= staged["page", "-p2"]["created_at"]


@pytest.mark.requirement("003-9e", "A page job has completed_at, null before")
def test_page_has_completed_at_when_it_was_read(staged: Staged) -> None:
    assert staged["split", "-p2"]["completed_at"] is None
    assert staged["page", "-p2"]["completed_at"] >= staged["page", "-p2"]["started_at"]


@pytest.mark.requirement("003-9f", "A page job has an error, null while nothing has failed")
def test_page_has_no_error_when_nothing_failed(staged: Staged) -> None:
    assert (staged["split", "-p2"]["error"], staged["page", "-p2"]["error"]) == (None, None)


@pytest.mark.requirement("003-10", "A page job names the stored document and the page in it: page_file_path")
def test_page_names_its_file_when_asked(staged: Staged) -> None:
    assert staged["split", "-p2"]["page_file_path"].endswith("#page=2")


@pytest.mark.requirement("003-11", "A page result has the page's Markdown")
def test_page_result_has_its_markdown_when_read(staged: Staged) -> None:
    assert marker(3, 2) in staged["page", "-p2/result"]["result"]["markdown"]


@pytest.mark.requirement("003-11a", "The metadata of a page result have page_number")
def test_page_metadata_have_the_number_when_read(staged: Staged) -> None:
    assert staged["page", "-p2/result"]["result"]["metadata"]["page_number"] == 2


@pytest.mark.requirement("003-11b", "The metadata of a page result have words")
def test_page_metadata_count_the_words_when_read(staged: Staged) -> None:
    result = staged["page", "-p2/result"]["result"]
    assert result["metadata"]["words"] == len(result["markdown"].split())


@pytest.mark.requirement("003-11c", "The metadata of a page result have size_bytes")
def test_page_metadata_count_the_bytes_when_read(staged: Staged) -> None:
    result = staged["page", "-p2/result"]["result"]
    assert result["metadata"]["size_bytes"] == len(result["markdown"].encode())


# ---- the record and the result of a merge ----------------------------------------------------------------------


@pytest.mark.requirement("003-12", "A merge job has its type and status")
def test_merge_has_its_type_and_status_when_asked(staged: Staged) -> None:
    shown = [
        (staged[stage, "-merge"]["type"], staged[stage, "-merge"]["status"]) for stage in ("page", "merge")
    ]
    assert shown == [("merge", "queued"), ("merge", "completed")]


@pytest.mark.requirement("003-12a", "A merge job has parent_job_id")
def test_merge_has_its_parent_when_asked(staged: Staged) -> None:
    assert staged["merge", "-merge"]["parent_job_id"] == staged.id


@pytest.mark.requirement("003-12b", "A merge job has total_pages")
def test_merge_has_total_pages_when_created(staged: Staged) -> None:
    assert staged["page", "-merge"]["total_pages"] == 4


@pytest.mark.requirement("003-12c", "A merge job has pages_merged, 0 before")
def test_merge_counts_the_pages_it_merged_when_done(staged: Staged) -> None:
    assert [staged[stage, "-merge"]["pages_merged"] for stage in ("page", "merge")] == [0, 4]


@pytest.mark.requirement("003-12d", "A merge job has created_at and completed_at")
def test_merge_has_its_times_when_done(staged: Staged) -> None:
    assert staged["page", "-merge"]["completed_at"] is None
    merge = staged["merge", "-merge"]
    assert merge["created_at"] <= merge["completed_at"]


@pytest.mark.requirement("003-13", "A merge result has the Markdown of all pages")
def test_merge_result_has_all_pages_when_done(staged: Staged) -> None:
    text = staged["merge", "-merge/result"]["result"]["markdown"]
    assert text == staged["merge", "/result"]["result"]["markdown"]
    assert all(marker(3, number) in text for number in (1, 2, 3, 4))


@pytest.mark.requirement("003-13a", "The metadata of a merge result have pages")
def test_merge_metadata_count_the_pages_when_done(staged: Staged) -> None:
    assert staged["merge", "-merge/result"]["result"]["metadata"]["pages"] == 4


@pytest.mark.requirement("003-13b", "The metadata of a merge result have total_words")
def test_merge_metadata_sum_the_words_when_done(staged: Staged) -> None:
    metadata = staged["merge", "-merge/result"]["result"]["metadata"]
    words = sum(page["words"] for page in staged["merge", "/pages"]["pages"])
    assert metadata["total_words"] == words > 0


@pytest.mark.requirement("003-13c", "The metadata of a merge result have total_size_bytes")
def test_merge_metadata_sum_the_bytes_when_done(staged: Staged) -> None:
    metadata = staged["merge", "-merge/result"]["result"]["metadata"]
    size = sum(page["size_bytes"] for page in staged["merge", "/pages"]["pages"])
    assert metadata["total_size_bytes"] == size > 0


# ---- processing ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003-14", "POST /convert answers with the id of the main job, a UUID")
async def test_upload_is_answered_with_a_uuid_when_sent(idle: Client, pdf: Callable[[int], bytes]) -> None:
    accepted = await idle.upload(pdf(2))
    assert str(uuid.UUID(accepted.json["job_id"])) == accepted.json["job_id"]


@pytest.mark.requirement("003-14a", "POST /convert does not wait for the conversion: the new job is queued")
async def test_upload_is_queued_when_no_worker_runs(idle: Client, pdf: Callable[[int], bytes]) -> None:
    accepted = await idle.upload(pdf(2))
    assert (accepted.status, accepted.json["status"]) == (202, "queued")


@pytest.mark.requirement("003-14b", "An accepted job is processed without a further request")
async def test_job_is_processed_when_it_was_accepted(client: Client, pdf: Callable[[int], bytes]) -> None:
    assert (await converted(client, pdf(1)))["status"] == "completed"


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


@pytest.fixture(scope="module")
def linked(service: Server, web: tuple[str, Path]) -> dict[str, Any]:
    """The records of a document that was given by its address."""
    url, folder = web
    marked_pdf(folder / "linked.pdf", 2, seed=15)

    async def go() -> dict[str, Any]:
        async with client_of(service) as client:
            body = {"source": f"{url}/linked.pdf", "mode": "local"}
            job = await client.over((await client.post("/convert", json=body)).json["job_id"])
            download = (await client.get(f"/jobs/{job['child_jobs']['download_job_id']}")).json
            split = (await client.get(f"/jobs/{job['job_id']}-split")).json
        return {"main": job, "download": download, "split": split}

    return asyncio.run(go())


@pytest.mark.requirement("003-15", "A document given by its address is fetched by a download job")
def test_link_has_a_download_job_when_converted(linked: dict[str, Any]) -> None:
    download = linked["download"]
    assert (download["type"], download["status"], download["progress"]) == ("download", "completed", 100)


@pytest.mark.requirement("003-15a", "The split of a linked document begins after its download")
def test_split_follows_the_download_when_a_link_is_converted(linked: dict[str, Any]) -> None:
    assert linked["download"]["completed_at"] <= linked["split"]["created_at"]


@pytest.mark.requirement("003-15b", "source_type of a linked document is url")
def test_source_type_is_url_when_a_link_is_converted(linked: dict[str, Any]) -> None:
    assert (linked["main"]["status"], linked["main"]["source_type"]) == ("completed", "url")


@pytest.mark.requirement("003-16", "A document of one page gives its result in the same way")
async def test_single_page_is_converted_when_there_is_only_one(
    client: Client, pdf: Callable[[int], bytes]
) -> None:
    job = await converted(client, pdf(1))
    result = (await client.get(f"/jobs/{job['job_id']}/result")).json["result"]
    page = (await client.get(f"/jobs/{job['job_id']}-p1/result")).json["result"]
    assert result["markdown"] == page["markdown"]
    assert result["metadata"]["pages"] == 1


@pytest.mark.requirement("003-16a", "A document that is not a PDF is converted directly, as one page")
async def test_text_file_is_one_page_when_converted(client: Client) -> None:
    job = await converted(client, f"# Note\n\n{uuid.uuid4()}\n".encode(), name="note.md")
    assert (job["status"], job["total_pages"], job["file_format"]) == ("completed", 1, "md")


@pytest.mark.requirement("003-17", "The split creates one page job for every page of the document")
def test_every_page_has_a_job_when_the_split_is_done(staged: Staged) -> None:
    assert staged["split", ""]["child_jobs"]["page_jobs"] == [f"{staged.id}-p{n}" for n in range(1, 5)]


@pytest.mark.requirement("003-17a", "The pages are queued by the split")
def test_pages_are_queued_when_the_split_is_done(staged: Staged) -> None:
    assert [page["status"] for page in staged["split", "/pages"]["pages"]] == ["queued"] * 4


@pytest.mark.requirement("003-17b", "The split is completed once its pages are queued")
def test_split_is_completed_when_its_pages_are_queued(staged: Staged) -> None:
    assert (staged["split", "-split"]["status"], staged["split", ""]["status"]) == ("completed", "processing")


@pytest.mark.requirement("003-17c", "The pages of a document are read independently of one another")
def test_pages_are_read_when_another_page_hangs(halfway: Staged) -> None:
    statuses = [page["status"] for page in halfway["halfway", "/pages"]["pages"]]
    assert statuses[:3] == ["completed"] * 3
    assert statuses[3] in ("queued", "processing")


@pytest.mark.requirement("003-18", "The merge job is created when the last page has ended")
async def test_merge_is_created_when_all_pages_have_ended(idle: Client, staged: Staged) -> None:
    ended = [(await idle.get(f"/jobs/{staged.id}-p{n}")).json["completed_at"] for n in (1, 2, 3, 4)]
    assert staged["page", "-merge"]["created_at"] >= max(ended)


@pytest.mark.requirement("003-18a", "There is one merge, whichever page ends last")
def test_merge_runs_once_when_pages_end_together(staged: Staged) -> None:
    assert staged["merge", "-merge"]["attempts"] == 1


@pytest.mark.requirement("003-19", "The merge joins the pages in their order")
def test_result_has_all_pages_in_order_when_merged(staged: Staged) -> None:
    text = staged["merge", "/result"]["result"]["markdown"]
    places = [text.index(marker(3, number)) for number in (1, 2, 3, 4)]
    assert places == sorted(places)


@pytest.mark.requirement("003-19a", "Pages in the merged Markdown are divided by a horizontal rule")
def test_pages_are_divided_by_a_rule_when_merged(staged: Staged) -> None:
    parts = staged["merge", "/result"]["result"]["markdown"].split(SEPARATOR)
    assert [marker(3, number) in part for number, part in enumerate(parts, start=1)] == [True] * 4


@pytest.mark.requirement("003-20", "The end of the merge completes the main job")
def test_main_job_is_completed_when_the_merge_is(staged: Staged) -> None:
    assert staged["page", ""]["status"] == "processing"
    assert staged["merge", ""]["completed_at"] == staged["merge", "-merge"]["completed_at"]


# ---- GET /jobs/{id} --------------------------------------------------------------------------------------------


@pytest.mark.requirement("003-21", "GET /jobs/{id} answers for a main job")
async def test_main_job_is_found_when_asked_by_its_id(idle: Client, staged: Staged) -> None:
    found = (await idle.get(f"/jobs/{staged.id}")).json
    assert (found["job_id"], found["type"]) == (staged.id, "main")


@pytest.mark.requirement("003-21a", "GET /jobs/{id} answers for a split job")
async def test_split_is_found_when_asked_by_its_id(idle: Client, staged: Staged) -> None:
    found = (await idle.get(f"/jobs/{staged.id}-split")).json
    assert (found["job_id"], found["type"]) == (f"{staged.id}-split", "split")


@pytest.mark.requirement("003-21b", "GET /jobs/{id} answers for a page job")
async def test_page_is_found_when_asked_by_its_id(idle: Client, staged: Staged) -> None:
    found = (await idle.get(f"/jobs/{staged.id}-p3")).json
    assert (found["job_id"], found["type"]) == (f"{staged.id}-p3", "page")


@pytest.mark.requirement("003-21c", "GET /jobs/{id} answers for a merge job")
async def test_merge_is_found_when_asked_by_its_id(idle: Client, staged: Staged) -> None:
    found = (await idle.get(f"/jobs/{staged.id}-merge")).json
    assert (found["job_id"], found["type"]) == (f"{staged.id}-merge", "merge")


@pytest.mark.requirement("003-21d", "GET /jobs/{id} of an unknown id is answered with 404")
async def test_unknown_job_is_404_when_asked(idle: Client) -> None:
    assert (await idle.get(f"/jobs/{uuid.uuid4()}")).status == 404


@pytest.mark.requirement("003-21e", "While a job runs, its record shows how many pages are done, of how many")
def test_record_counts_the_pages_when_some_are_missing(halfway: Staged) -> None:
    found = halfway["halfway", ""]
    assert (found["status"], found["pages_completed"], found["total_pages"]) == ("processing", 3, 4)


# ---- results ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003-22", "GET /jobs/{main}/result has job_id and type")
def test_main_result_has_id_and_type_when_completed(staged: Staged) -> None:
    answer = staged["merge", "/result"]
    assert (answer["job_id"], answer["type"], answer["status"]) == (staged.id, "main", "completed")


@pytest.mark.requirement("003-22a", "GET /jobs/{main}/result has the merged Markdown")
def test_main_result_has_the_merged_markdown_when_completed(staged: Staged) -> None:
    assert staged["merge", "/result"]["result"]["markdown"].count(SEPARATOR) == 3


@pytest.mark.requirement("003-22b", "The metadata of a main result have pages")
def test_main_metadata_have_pages_when_completed(staged: Staged) -> None:
    assert staged["merge", "/result"]["result"]["metadata"]["pages"] == 4


@pytest.mark.requirement("003-22c", "The metadata of a main result have total_words")
def test_main_metadata_have_total_words_when_completed(staged: Staged) -> None:
    words = sum(page["words"] for page in staged["merge", "/pages"]["pages"])
    assert staged["merge", "/result"]["result"]["metadata"]["total_words"] == words


@pytest.mark.requirement("003-22d", "A main result that is not there yet is answered with 409")
def test_main_result_is_409_when_pages_are_missing(staged: Staged, halfway: Staged) -> None:
    assert (staged.statuses["page", "/result"], halfway.statuses["halfway", "/result"]) == (409, 409)


@pytest.mark.requirement("003-23", "GET /jobs/{page}/result has job_id and type")
def test_page_result_has_id_and_type_when_completed(staged: Staged) -> None:
    answer = staged["page", "-p2/result"]
    assert (answer["job_id"], answer["type"]) == (f"{staged.id}-p2", "page")


@pytest.mark.requirement("003-23a", "GET /jobs/{page}/result has page_number")
def test_page_result_has_its_number_when_completed(staged: Staged) -> None:
    assert staged["page", "-p2/result"]["page_number"] == 2


@pytest.mark.requirement("003-23b", "GET /jobs/{page}/result has parent_job_id")
def test_page_result_has_its_parent_when_completed(staged: Staged) -> None:
    assert staged["page", "-p2/result"]["parent_job_id"] == staged.id


@pytest.mark.requirement("003-23c", "GET /jobs/{page}/result has status")
def test_page_result_has_its_status_when_completed(staged: Staged) -> None:
    assert staged["page", "-p2/result"]["status"] == "completed"


@pytest.mark.requirement("003-23d", "GET /jobs/{page}/result has created_at, started_at and completed_at")
def test_page_result_has_its_times_when_completed(staged: Staged) -> None:
    times = ("created_at", "started_at", "completed_at")
    answer, job = staged["page", "-p2/result"], staged["page", "-p2"]
    assert [answer[name] for name in times] == [job[name] for name in times]


@pytest.mark.requirement("003-23e", "Times are ISO 8601 in UTC")
def test_times_are_in_utc_when_shown(staged: Staged) -> None:
    assert ISO.fullmatch(staged["page", "-p2/result"]["completed_at"])


@pytest.mark.requirement(
    "003-24", "A page's result can be fetched while the rest of its document is not done"
)
def test_page_is_there_when_others_are_still_read(halfway: Staged) -> None:
    assert halfway.statuses["halfway", "-p2/result"] == 200
    assert marker(4, 2) in halfway["halfway", "-p2/result"]["result"]["markdown"]


@pytest.mark.requirement("003-24a", "The result of a page that was not read yet is answered with 409")
def test_page_result_is_409_when_it_was_not_read(staged: Staged) -> None:
    assert staged.statuses["split", "-p2/result"] == 409


# ---- GET /jobs/{main}/pages ------------------------------------------------------------------------------------


@pytest.mark.requirement("003-25", "GET /jobs/{main}/pages has job_id and total_pages")
def test_list_of_pages_has_its_head_when_asked(staged: Staged) -> None:
    listed = staged["merge", "/pages"]
    assert (listed["job_id"], listed["total_pages"]) == (staged.id, 4)


@pytest.mark.requirement("003-25a", "GET /jobs/{main}/pages lists every page with its number and job id")
def test_every_page_is_listed_when_asked(staged: Staged) -> None:
    shown = [(page["page_number"], page["job_id"]) for page in staged["merge", "/pages"]["pages"]]
    assert shown == [(number, f"{staged.id}-p{number}") for number in range(1, 5)]


@pytest.mark.requirement("003-25b", "GET /jobs/{main}/pages has the status of each page")
def test_list_has_the_status_of_each_page_at_each_stage(staged: Staged) -> None:
    for stage, status in (("split", "queued"), ("page", "completed")):
        assert {page["status"] for page in staged[stage, "/pages"]["pages"]} == {status}


@pytest.mark.requirement("003-25c", "GET /jobs/{main}/pages has the address of each page's result")
async def test_address_leads_to_the_result_when_a_page_is_listed(idle: Client, staged: Staged) -> None:
    for page in staged["merge", "/pages"]["pages"]:
        assert page["url"] == f"/jobs/{page['job_id']}/result"
        assert (await idle.get(page["url"])).json["page_number"] == page["page_number"]


@pytest.mark.requirement("003-26", "The list of pages comes in parts, each with a link to the next")
async def test_pages_are_listed_in_parts_when_a_limit_is_given(idle: Client, staged: Staged) -> None:
    numbers: list[int] = []
    address, parts = f"/jobs/{staged.id}/pages?limit=3", 0
    while address:
        part = (await idle.get(address)).json
        numbers += [page["page_number"] for page in part["pages"]]
        address, parts = part["next"], parts + 1
    assert (numbers, parts) == ([1, 2, 3, 4], 2)


# ---- progress --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003-27", "Progress of a main job begins at 0, and the split counts 10")
def test_progress_is_10_when_the_split_is_done(staged: Staged) -> None:
    assert (staged["queued", ""]["progress"], staged["split", ""]["progress"]) == (0, 10)


@pytest.mark.requirement("003-27a", "The pages count 80, each its share")
def test_progress_has_the_share_of_each_page_when_some_are_missing(halfway: Staged) -> None:
    assert halfway["halfway", ""]["progress"] == 10 + 80 * 3 // 4


@pytest.mark.requirement("003-27b", "The merge counts 10: before it progress is 90, after it 100")
def test_progress_is_100_when_the_merge_is_done(staged: Staged) -> None:
    assert (staged["page", ""]["progress"], staged["merge", ""]["progress"]) == (90, 100)


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


# ---- one schema ------------------------------------------------------------------------------------------------

UNIFIED = ("job_id", "type", "status", "parent_job_id", "progress",
           "created_at", "started_at", "completed_at", "error")  # fmt: skip


@pytest.mark.requirement(
    "003-29", "All types of jobs share one schema: id, type, status, parent, progress, times, error"
)
@pytest.mark.parametrize("path", ["", "-split", "-p2", "-merge"])
def test_jobs_share_their_fields_when_shown(staged: Staged, path: str) -> None:
    assert [name for name in UNIFIED if name not in staged["merge", path]] == []


@pytest.mark.requirement("003-29a", "parent_job_id of a main job is null")
def test_main_job_has_no_parent_when_it_was_uploaded(staged: Staged) -> None:
    assert staged["merge", ""]["parent_job_id"] is None


@pytest.mark.requirement("003-29b", "A main job lists the ids of all its jobs in child_job_ids")
def test_child_job_ids_name_all_jobs_when_completed(staged: Staged) -> None:
    endings = ("-split", "-p1", "-p2", "-p3", "-p4", "-merge")
    assert staged["merge", ""]["child_job_ids"] == [f"{staged.id}{ending}" for ending in endings]


# ---- retries ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def retried(service: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The records of a document of three pages before and after a retry of its second page, then of its merge."""
    document = marked_pdf(tmp_path_factory.mktemp("retried") / "a.pdf", 3, seed=30).read_bytes()

    async def go() -> dict[str, Any]:
        async with client_of(service) as client:
            job_id = (await converted(client, document))["job_id"]

            async def records() -> dict[str, Any]:
                endings = ("", "-split", "-p1", "-p2", "-p3", "-merge")
                return {one: (await client.get(f"/jobs/{job_id}{one}")).json for one in endings}

            found = {"first": await records()}
            for name, ending in (("page", "-p2"), ("merge", "-merge")):
                found[f"{name} answer"] = (await client.post(f"/jobs/{job_id}{ending}/retry")).json
                await client.over(job_id)
                found[name] = await records()
            return found

    return asyncio.run(go())


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The jobs that ended again."""
    return [one for one in before if before[one]["completed_at"] != after[one]["completed_at"]]


@pytest.mark.requirement("003-30", "A page can be retried alone")
def test_page_is_read_again_when_it_is_retried(retried: dict[str, Any]) -> None:
    assert retried["page answer"]["retried"] is True
    assert "-p2" in changed(retried["first"], retried["page"])


@pytest.mark.requirement("003-30a", "A retry of one page leaves the other pages as they are")
def test_other_pages_stay_when_a_page_is_retried(retried: dict[str, Any]) -> None:
    assert not {"-p1", "-p3"} & set(changed(retried["first"], retried["page"]))


@pytest.mark.requirement("003-30b", "A retry of one page merges again")
def test_merge_follows_when_a_page_is_retried(retried: dict[str, Any]) -> None:
    assert "-merge" in changed(retried["first"], retried["page"])
    assert (retried["page"][""]["status"], retried["page"][""]["epoch"]) == ("completed", 2)


@pytest.mark.requirement("003-31", "A retry of the merge merges the pages that are there, and reads none")
def test_no_page_is_read_again_when_the_merge_is_retried(retried: dict[str, Any]) -> None:
    assert changed(retried["page"], retried["merge"]) == ["", "-merge"]


@pytest.mark.requirement("003-32", "A retry does not split a document again that was split")
def test_split_stays_when_a_page_is_retried(retried: dict[str, Any]) -> None:
    assert retried["first"]["-split"] == retried["page"]["-split"] == retried["merge"]["-split"]


# ---- states and operation --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def damaged(service: Server) -> dict[str, Any]:
    async def go() -> dict[str, Any]:
        async with client_of(service) as client:
            accepted = await client.upload(b"%PDF-1.7\n" + uuid.uuid4().bytes * 40)
            job = await client.over(accepted.json["job_id"])
            return {"main": job, "split": (await client.get(f"/jobs/{job['job_id']}-split")).json}

    return asyncio.run(go())


@pytest.mark.requirement("003-33", "A job that can't be done is failed, and its error says why")
def test_job_is_failed_when_its_document_is_damaged(damaged: dict[str, Any]) -> None:
    assert damaged["main"]["status"] == "failed"
    assert "damaged" in damaged["main"]["error"]["error"]


@pytest.mark.requirement("003-33a", "The error is on the job that failed, too")
def test_split_has_the_error_when_its_document_is_damaged(damaged: dict[str, Any]) -> None:
    assert (damaged["split"]["status"], damaged["split"]["error"]) == ("failed", damaged["main"]["error"])


@pytest.mark.requirement("003-34", "A user can cancel a job that waits; its split is cancelled with it")
async def test_waiting_job_is_cancelled_when_asked(idle: Client, pdf: Callable[[int], bytes]) -> None:
    job_id = (await idle.upload(pdf(2))).json["job_id"]
    assert (await idle.post(f"/jobs/{job_id}/cancel")).json["status"] == "cancelled"
    assert (await idle.get(f"/jobs/{job_id}-split")).json["status"] == "cancelled"


@pytest.mark.requirement(
    "003-34a", "A user can cancel a job that runs; pages that were not read are cancelled"
)
def test_running_job_is_cancelled_when_asked(halfway: Staged) -> None:
    assert halfway["cancelled", ""]["status"] == "cancelled"
    assert halfway["cancelled", "/pages"]["pages"][3]["status"] == "cancelled"


@pytest.mark.requirement("003-34b", "Pages that were read before a job was cancelled keep their results")
def test_read_pages_stay_when_a_job_is_cancelled(halfway: Staged) -> None:
    assert halfway.statuses["cancelled", "-p2/result"] == 200


@pytest.mark.requirement("003-35", "A worker can be dedicated to splits")
def test_only_the_split_is_done_when_a_worker_has_that_queue(staged: Staged) -> None:
    assert (staged["split", "-split"]["status"], staged["split", "-p2"]["status"]) == ("completed", "queued")


@pytest.mark.requirement("003-35a", "A worker can be dedicated to pages")
def test_only_pages_are_read_when_a_worker_has_that_queue(staged: Staged) -> None:
    assert (staged["page", "-p2"]["status"], staged["page", "-merge"]["status"]) == ("completed", "queued")


@pytest.mark.requirement("003-35b", "A worker can be dedicated to merges")
def test_only_the_merge_is_done_when_a_worker_has_that_queue(staged: Staged) -> None:
    assert staged["merge", "-merge"]["status"] == "completed"


@pytest.mark.requirement("003-35c", "Split, pages and merge have queues of their own")
async def test_queues_are_separate_when_listed(idle: Client) -> None:
    queues = {queue["queue"] for queue in (await idle.get("/queues")).json["queues"]}
    assert {"download", "split", "page", "merge"} <= queues


@pytest.mark.requirement("003-36", "Work can be given a priority: low, normal or high")
@pytest.mark.parametrize("priority", ["low", "normal", "high"])
async def test_priority_is_kept_when_given(idle: Client, pdf: Callable[[int], bytes], priority: str) -> None:
    job_id = (await idle.upload(pdf(1), priority=priority)).json["job_id"]
    assert (await idle.get(f"/jobs/{job_id}")).json["priority"] == priority


@pytest.mark.requirement(
    "003-36a", "The priority is normal unless another one is asked for, and no other word is taken"
)
async def test_priority_is_normal_when_none_is_given(idle: Client, pdf: Callable[[int], bytes]) -> None:
    job_id = (await idle.upload(pdf(1))).json["job_id"]
    assert (await idle.get(f"/jobs/{job_id}")).json["priority"] == "normal"
    assert (await idle.upload(pdf(1), priority="urgent")).status == 400


@pytest.fixture(scope="module")
def prioritised(
    start_service: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """When jobs of each priority were started by one worker, that came after all of them were queued."""
    folder = tmp_path_factory.mktemp("prioritised")
    service = start_service(folder=folder, RUN_DISPATCHER="0").wait_ready()

    async def go() -> dict[str, list[str]]:
        async with client_of(service) as client:
            ids: dict[str, list[str]] = {}
            for priority in ("low", "normal", "high"):
                for n in range(8):
                    data = marked_pdf(folder / "p.pdf", 1, seed=uuid.uuid4().int).read_bytes()
                    accepted = await client.upload(data, priority=priority, mode="local", name=f"{n}.pdf")
                    ids.setdefault(priority, []).append(accepted.json["job_id"])
            start_service("worker", "--queues", "split", "--concurrency", "1", folder=folder)
            started: dict[str, list[str]] = {}
            for priority, some in ids.items():
                for one in some:

                    async def split_done(one: str = one) -> str | None:
                        found = (await client.get(f"/jobs/{one}-split")).json
                        return str(found["started_at"]) if found["status"] == "completed" else None

                    started.setdefault(priority, []).append(await eventually(split_done, "the split"))
            return started

    return asyncio.run(go())


@pytest.mark.requirement(
    "003-36b", "Work of high priority begins before work of low priority that came earlier"
)
def test_high_priority_begins_first_when_others_wait(prioritised: dict[str, list[str]]) -> None:
    middle = {priority: sorted(times)[4] for priority, times in prioritised.items()}
    assert middle["high"] < middle["normal"] < middle["low"]


@pytest.mark.requirement("003-36c", "Work of low priority is not starved by work of higher priority")
def test_low_priority_begins_when_work_of_high_priority_waits(prioritised: dict[str, list[str]]) -> None:
    assert min(prioritised["low"]) < max(prioritised["high"])


@pytest.mark.requirement("003-37", "Finished jobs are listed")
async def test_job_is_listed_when_it_has_ended(idle: Client, staged: Staged) -> None:
    listed = (await idle.get("/jobs?status=completed")).json["jobs"]
    assert staged.id in [job["job_id"] for job in listed]


@pytest.mark.requirement(
    "003-37a", "The history of a job shows how each page was read, and in how many attempts"
)
def test_page_says_how_it_was_read_when_listed(staged: Staged) -> None:
    pages = staged["merge", "/pages"]["pages"]
    assert {(page["source"], page["attempts"]) for page in pages} == {("local", 1)}
    assert all(page["reader"] for page in pages)


@pytest.mark.requirement("003-37b", "DELETE /jobs/{id} removes a finished job with all its data")
async def test_nothing_is_left_when_a_job_is_deleted(client: Client, pdf: Callable[[int], bytes]) -> None:
    job_id = (await converted(client, pdf(1)))["job_id"]
    assert (await client.ask("DELETE", f"/jobs/{job_id}")).status in (200, 204)
    for path in ("", "-p1", "/result", "/original"):
        assert (await client.get(f"/jobs/{job_id}{path}")).status == 404


@pytest.mark.requirement("003-38", "A page can be downloaded alone, as bare Markdown")
async def test_one_page_is_downloaded_when_asked_for_as_text(idle: Client, staged: Staged) -> None:
    answer = await idle.get(f"/jobs/{staged.id}-p3/result?format=md")
    assert answer.headers["Content-Type"].startswith("text/markdown")
    assert marker(3, 3) in answer.text
    assert marker(3, 2) not in answer.text


@pytest.mark.requirement(
    "003-38a", "A frontend can show each page: its picture is served beside its Markdown"
)
async def test_picture_of_a_page_is_served_when_asked(idle: Client, staged: Staged) -> None:
    answer = await idle.get(f"/jobs/{staged.id}/pages/2/image")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("image/")


@pytest.mark.requirement(
    "003-39", "A part of a document can be read: only the pages that are asked for have jobs"
)
async def test_only_asked_for_pages_have_jobs_when_pages_are_selected(
    client: Client, pdf: Callable[[int], bytes]
) -> None:
    job = await converted(client, pdf(4), pages="2,4")
    assert job["child_jobs"]["page_jobs"] == [f"{job['job_id']}-p2", f"{job['job_id']}-p4"]
    assert job["total_pages"] == 2
    assert (await client.get(f"/jobs/{job['job_id']}-p1")).status == 404
