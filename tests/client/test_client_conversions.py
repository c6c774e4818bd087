"""Both clients against a real service: conversions, jobs, pages, events, images."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from quire.client import (
    AsyncQuire,
    ConflictError,
    InvalidError,
    JobFailedError,
    NotFoundError,
    Quire,
    TookTooLongError,
    UnauthorizedError,
    UsageError,
)
from quire.client.async_documents import AsyncDocuments
from quire.client.records import PageDone
from quire.client.sync_client import Documents
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S

Pdf = Callable[..., bytes]


def test_markdown_comes_back_when_a_path_bytes_or_a_name_is_given(
    quire: Quire, make_pdf: Pdf, tmp_path: Path
) -> None:
    path = tmp_path / "letter.pdf"
    path.write_bytes(make_pdf("Dear reader", "Yours"))
    by_path = quire.convert(path)
    assert by_path.status == "completed"
    assert by_path.markdown is not None
    assert "Dear reader" in by_path.markdown
    assert by_path.metadata["pages"] == 2
    assert quire.job(by_path.job_id).filename == "letter.pdf"
    by_text = quire.convert(str(path))
    assert by_text.job_id == by_path.job_id
    of_bytes = quire.convert(make_pdf("Only bytes"), name="named.pdf")
    assert "Only bytes" in str(of_bytes)
    assert quire.job(of_bytes.job_id).filename == "named.pdf"


def test_elements_and_html_come_back_when_asked_for(quire: Quire, make_pdf: Pdf, tmp_path: Path) -> None:
    done = quire.convert(make_pdf("Elements of one", "Elements of two"))
    pages = list(quire.elements(done.job_id, lines=True, words=True))
    assert [(page.page_number, page.schema_version, page.note) for page in pages] == [
        (1, 1, None),
        (2, 1, None),
    ]
    assert pages[1].elements[0]["text"] == "Elements of two"
    assert pages[1].elements[0]["lines"]
    word = pages[1].elements[0]["words"][0]
    assert pages[1].elements[0]["text"][word["start"] : word["end"]]
    assert quire.details(done.job_id, "links", "outline") == {"links": [], "outline": []}
    assert [page.page_number for page in quire.elements(done.job_id, pages="2")] == [2]
    assert "Elements of one" in "".join(quire.html(done.job_id))
    assert "".join(quire.text(done.job_id, page_break="~{page}~")).split("\n\n")[1] == "~2~"
    assert "Elements of two" in "".join(quire.text(done.job_id, join_tables=True))
    assert quire.figure(done.job_id, "p1-e1").startswith(b"\x89PNG")
    assert quire.docling(done.job_id)["texts"][1]["text"] == "Elements of two"
    assert quire.save_pdf(done.job_id, tmp_path / "found.pdf").read_bytes().startswith(b"%PDF-")
    (chunk,) = quire.chunks(done.job_id, max_tokens=64)
    assert (chunk.pages, chunk.elements) == ((1, 2), ("p1-e1", "p2-e1"))
    assert chunk.boxes[1]["page"] == 2
    with pytest.raises(InvalidError, match="max_tokens"):
        list(quire.chunks(done.job_id, max_tokens=1))
    with pytest.raises(InvalidError, match="pages"):
        list(quire.elements(done.job_id, pages="first"))
    with pytest.raises(NotFoundError):
        list(quire.elements("0123456789abcdef"))


def test_each_page_is_told_once_in_the_callers_thread_when_asked_for(quire: Quire, make_pdf: Pdf) -> None:
    told: list[PageDone] = []
    texts: list[str] = []
    threads = set()

    def heard(page: PageDone) -> None:
        told.append(page)
        threads.add(threading.current_thread())
        if page.number == 3:
            texts.append(quire.result(page.job_id).markdown)  # the client may be used from within

    done = quire.convert(make_pdf(*(f"Text of page {n}" for n in range(1, 14))), on_page=heard)
    assert sorted(page.number for page in told) == list(range(1, 14))
    assert {page.status for page in told} == {"completed"}
    assert threads == {threading.current_thread()}
    assert "Text of page 3" in texts[0]
    assert done.markdown is not None
    assert done.markdown.count("Text of page") == 13


def test_error_of_the_callback_ends_the_call_when_it_raises(quire: Quire, make_pdf: Pdf) -> None:
    def heard(page: PageDone) -> None:
        raise LookupError("not this page")

    with pytest.raises(LookupError, match="not this page"):
        quire.convert(make_pdf("One", "Two"), on_page=heard, force=True)


async def test_pages_results_and_events_agree_when_a_job_is_followed(
    aquire: AsyncQuire, make_pdf: Pdf
) -> None:
    accepted = await aquire.convert(
        make_pdf(*("Word " * 5 for _ in range(9))), name="nine.pdf", wait=False, force=True
    )
    assert accepted.markdown is None
    seen = [event async for event in aquire.events(accepted.job_id)]
    assert seen[0].type == "snapshot"
    assert seen[-1].data["status"] == "completed"
    job = await aquire.job(accepted.job_id)
    assert (job.over, job.total_pages, job.pages_completed) == (True, 9, 9)
    assert job.created_at is not None
    pages = [page async for page in aquire.pages(accepted.job_id)]
    assert [page.page_number for page in pages] == list(range(1, 10))
    assert {page.source for page in pages} == {"local"}
    assert (await aquire.page(accepted.job_id, 4)).words == 5
    whole = await aquire.result(accepted.job_id)
    assert whole.markdown == (await aquire.wait(accepted.job_id)).markdown
    assert (await aquire.page_image(accepted.job_id, 1))[:2] == b"\xff\xd8"
    # Nothing comes after the last event.
    assert [event async for event in aquire.events(accepted.job_id, last_id=seen[-1].id)] == []
    assert accepted.job_id in [job.job_id async for job in aquire.jobs(status="completed")]


def test_original_is_saved_whole_when_asked_for(quire: Quire, make_pdf: Pdf, tmp_path: Path) -> None:
    data = make_pdf("Keep me")
    done = quire.convert(data)
    saved = quire.original(done.job_id, tmp_path / "back.pdf")
    assert saved.read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["back.pdf"]
    assert "Keep me" in "".join(quire.text(done.job_id))
    with pytest.raises(UsageError):
        quire.original(done.job_id, tmp_path / "no" / "folder.pdf")


def test_failure_has_the_jobs_own_words_when_the_document_can_not_be_read(
    quire: Quire, make_pdf: Pdf
) -> None:
    locked = make_pdf("Secret", password="pw")
    for wait in ({}, {"on_page": lambda page: None}):
        with pytest.raises(JobFailedError) as caught:
            quire.convert(locked, force=True, **wait)
        assert caught.value.code == "password_required"
        assert caught.value.retryable is False
        assert quire.job(caught.value.job_id).status == "failed"
        assert "password" in caught.value.public
    assert "Secret" in str(quire.convert(locked, password="pw"))


def test_refusals_carry_code_status_and_request_id_when_the_service_says_no(
    quire: Quire, service: Server, make_pdf: Pdf, tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError) as missing:
        quire.job("00000000-0000-0000-0000-000000000000")
    assert (missing.value.code, missing.value.status) == ("not_found", 404)
    assert missing.value.request_id
    again = pickle.loads(pickle.dumps(missing.value))
    assert (type(again), again.code, again.public) == (NotFoundError, "not_found", missing.value.public)
    with pytest.raises(NotFoundError):
        quire.job("../health")  # an id stays one step of the path
    with pytest.raises(InvalidError, match="mode"):
        quire.convert(make_pdf("x"), mode="telepathy")
    with pytest.raises(UsageError, match="No such file"):
        quire.convert(tmp_path / "nowhere.pdf")
    with pytest.raises(UsageError):
        quire.retry("job", idempotency_key="two\nlines")
    with Quire(service.url, "wrong") as stranger, pytest.raises(UnauthorizedError):
        stranger.job(missing.value.request_id)


async def test_retry_and_cancel_say_what_stands_when_the_job_is_over(
    aquire: AsyncQuire, make_pdf: Pdf
) -> None:
    done = await aquire.convert(make_pdf("Once"))
    assert (await aquire.cancel(done.job_id)).status == "completed"
    assert (await aquire.retry(done.job_id)).retried is False
    started = await aquire.retry(f"{done.job_id}-p1", idempotency_key="again-1")
    assert started.retried is True
    await aquire.wait(done.job_id)
    repeated = await aquire.retry(f"{done.job_id}-p1", idempotency_key="again-1")
    assert (repeated.retried, repeated.repeated) == (True, True)
    assert (await aquire.wait(done.job_id)).markdown == done.markdown


async def test_job_has_its_priority_and_is_gone_when_it_is_deleted(aquire: AsyncQuire, make_pdf: Pdf) -> None:
    done = await aquire.convert(make_pdf("Urgent, then forgotten"), priority="high")
    assert (await aquire.job(done.job_id)).priority == "high"
    await aquire.delete(done.job_id)
    with pytest.raises(NotFoundError):
        await aquire.job(done.job_id)
    with pytest.raises(NotFoundError):
        await aquire.delete(done.job_id)
    with pytest.raises(InvalidError, match="priority"):
        await aquire.convert(make_pdf("x"), priority="most")


async def test_waiting_ends_but_the_job_goes_on_when_the_callers_time_is_up(
    aquire: AsyncQuire, make_pdf: Pdf
) -> None:
    big = make_pdf(*(f"Page {n} of many" for n in range(300)))
    with pytest.raises(TookTooLongError) as caught:
        await aquire.convert(big, wait_s=0.01, force=True)
    job_id = caught.value.job_id
    with pytest.raises(ConflictError) as early:
        await aquire.result(job_id)
    assert early.value.code == "not_ready"
    assert early.value.retryable is True
    assert (await aquire.cancel(job_id)).status in ("cancelled", "completed")


def test_image_is_parsed_when_given_as_bytes_or_path(quire: Quire, tmp_path: Path) -> None:
    picture = Image.new("RGB", (600, 200), "white")
    ImageDraw.Draw(picture).text((40, 60), "HELLO 42", fill="black", font_size=64)
    out = BytesIO()
    picture.save(out, "PNG")
    parsed = quire.parse(out.getvalue())
    assert "HELLO" in parsed.text
    assert parsed.results[0].bbox[0] >= 0
    path = tmp_path / "sign.png"
    path.write_bytes(out.getvalue())
    assert quire.parse(path).filename == "sign.png"


def test_sync_client_has_every_method_of_the_async_one_with_the_same_parameters() -> None:
    for awaited, blocking in ((AsyncQuire, Quire), (AsyncDocuments, Documents)):
        for name, method in inspect.getmembers(awaited, inspect.isfunction):
            if name.startswith("_"):
                continue
            twin = getattr(blocking, name)
            assert twin.__doc__ == method.__doc__ or name == "close"
            assert list(inspect.signature(twin).parameters) == list(inspect.signature(method).parameters), (
                name
            )


async def test_sync_client_works_when_a_loop_is_running_already(service: Server, make_pdf: Pdf) -> None:
    with Quire(service.url, "key-of-alpha") as quire:
        assert "In a notebook" in str(quire.convert(make_pdf("In a notebook")))
    with pytest.raises(UsageError, match="closed"):
        quire.health()


def test_many_threads_share_a_client_when_they_call_at_once(quire: Quire, make_pdf: Pdf) -> None:
    found: dict[int, str] = {}

    def work(number: int) -> None:
        found[number] = str(quire.convert(make_pdf(f"Thread {number}")))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(f"Thread {number}" in found[number] for number in range(6))


async def test_iteration_closes_its_connection_when_it_is_left_early(
    aquire: AsyncQuire, make_pdf: Pdf
) -> None:
    accepted = await aquire.convert(make_pdf(*("x" for _ in range(40))), wait=False, force=True)
    stream = aquire.events(accepted.job_id)
    async for _event in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(DEADLINE_S):
        assert (await aquire.wait(accepted.job_id)).status == "completed"
