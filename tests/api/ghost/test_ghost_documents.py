"""A document's way through the facade: in from a bucket, a link or a form, followed, out next to its original."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.api.ghost.asking import over, process, progress, upload
from tests.api.ghost.conftest import Bucket
from tests.support.serving import Client, Server, client_of
from tests.support.submitted_documents import fresh
from tests.support.waiting import until

Pdf = Callable[..., bytes]


async def test_result_stands_next_to_the_original_when_it_came_from_a_bucket(
    client: Client, bucket: Bucket, make_pdf: Pdf
) -> None:
    one, two = fresh("The first page."), fresh("The second page.")
    url = bucket.put("in/4711_original.pdf", make_pdf(one, two))
    body = await process(client, file_path=url, user_name="ghost@example.org", ai_engine="ClaudeEngine")
    assert set(body) == {
        *("status", "job_id", "message", "estimated_time_seconds", "queue_position", "metadata"),
    }
    assert body["status"] == "queued"
    assert body["metadata"]["file_id"] == "4711"
    done = await over(client, body["job_id"])
    assert (done["status"], done["progress"]) == ("success", 100)
    found = done["metadata"]
    assert found["result_s3_url"] == "s3://ghost-files/in/4711_original.pdf.result.txt"
    text = f"=== Page 1 ===\n{one}\n\n=== Page 2 ===\n{two}"
    assert bucket.read(found["result_s3_url"]) == text
    assert done["result"] == text
    assert found["result_text_len"] == len(text.encode())
    assert "result_local_path" not in found
    assert done["start_time"] <= done["end_time"]


async def test_metadata_counts_every_page_when_over(client: Client, make_mixed: Pdf, bucket: Bucket) -> None:
    url = bucket.put("in/counted.pdf", make_mixed(fresh("text"), fresh("more"), None))
    job_id = (await process(client, file_path=url, text_only=True))["job_id"]
    found = (await over(client, job_id))["metadata"]
    assert (found["total_pages"], found["pages_done"], found["pages_unreadable"]) == (3, 2, 1)
    assert (found["text_only_pages"], found["ai_pages"], found["ai_pages_succeeded"]) == (2, 0, 0)
    assert (found["mupdf_fallback_count"], found["missing_pages"], found["pages_failed"]) == (0, 0, 0)
    assert found["timeout_occurred"] is False
    assert (found["queue_position"], found["estimated_time_seconds"]) == (0, 0)


async def test_text_only_leaves_scans_unread_and_says_so_when_asked_for(
    client: Client, make_mixed: Pdf, bucket: Bucket
) -> None:
    text = fresh("words")
    url = bucket.put("in/half-scanned.pdf", make_mixed(text, None))
    body = await process(client, file_path=url, text_only=True)
    done = await over(client, body["job_id"])
    assert done["result"].startswith(f"=== Page 1 ===\n{text}\n\n=== Page 2 ===\n*Page 2 has no text")
    pages = (await client.get(f"/jobs/{body['job_id']}/pages")).json["pages"]
    assert [page["reader"] == "tesseract" for page in pages] == [False, False]
    assert "only the document's own text" in pages[1]["error"]["error"]


async def test_bare_key_is_in_the_default_bucket_when_sent(
    client: Client, bucket: Bucket, make_pdf: Pdf
) -> None:
    key = "in/Größe und # 100% ?.pdf"
    bucket.put(key, make_pdf(fresh("bare")))
    body = await process(client, file_path=f"/{key}")
    assert body["metadata"]["file_path"] == f"s3://ghost-files/{key}"
    done = await over(client, body["job_id"])
    assert done["metadata"]["result_s3_url"] == f"s3://ghost-files/{key}.result.txt"
    assert bucket.get(f"{key}.result.txt").decode() == done["result"]


async def test_file_id_finds_the_newest_job_when_asked_for(
    client: Client, beta: Client, bucket: Bucket, make_pdf: Pdf
) -> None:
    name = fresh("f").replace(" ", "")
    url = bucket.put(f"in/{name}/original.pdf", make_pdf(fresh("older")))
    first = (await process(client, file_path=url))["job_id"]
    assert (await progress(client, name))["metadata"]["job_id"] == first
    second = (await process(client, file_path=url))["job_id"]
    assert second != first
    assert (await progress(client, name))["metadata"]["job_id"] == second
    assert (await over(client, first))["metadata"]["job_id"] == first
    assert (await beta.get(f"/progress_spec/{name}")).status == 404
    assert (await beta.get(f"/progress_spec/{first}")).status == 404
    assert (await beta.post("/webhook/cancel_job", json={"job_id": name})).status == 404
    theirs = (await process(beta, file_path=url))["job_id"]
    assert (await progress(client, name))["metadata"]["job_id"] == second
    assert (await progress(beta, name))["metadata"]["job_id"] == theirs


async def test_upload_leaves_its_result_on_this_machine_when_done(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    text = fresh("uploaded")
    answer = await upload(
        client, make_pdf(text), "8150.pdf", user_id="7", options='{"pages": "1", "colour": 1}'
    )
    assert answer.status == 201
    body = answer.json
    assert body["metadata"]["source"] == "upload"
    assert body["metadata"]["ignored_fields"] == ["options.colour"]
    done = await over(client, "8150")
    path = Path(done["metadata"]["result_local_path"])
    assert path == server.data_dir / "results" / f"{body['job_id']}.txt"
    assert await asyncio.to_thread(path.read_text) == f"=== Page 1 ===\n{text}" == done["result"]
    assert "result_s3_url" not in done["metadata"]
    again = (await upload(client, make_pdf(text), "8150.pdf", user_id="7", options='{"pages": "1"}')).json
    assert (again["job_id"], again["status"]) == (body["job_id"], "success")
    assert again["metadata"]["deduplicated"] is True


async def test_upload_is_not_answered_by_a_plain_conversion_when_the_content_is_the_same(
    client: Client, make_pdf: Pdf
) -> None:
    pdf = make_pdf(fresh("the same"))
    plain = (await client.upload(pdf, wait=240)).json["job_id"]
    body = (await upload(client, pdf)).json
    assert body["job_id"] != plain
    assert "result_local_path" in (await over(client, body["job_id"]))["metadata"]
    shown = await progress(client, plain)
    assert shown["status"] == "success"
    assert "result_local_path" not in shown["metadata"]


async def test_link_is_fetched_and_its_query_kept_secret_when_processed(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    text = fresh("linked")

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=make_pdf(text), content_type="application/pdf")

    app = web.Application()
    app.router.add_get("/files/linked.pdf", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    url = f"http://127.0.0.1:{port}/files/linked.pdf?signature=planted-signature"
    body = await process(client, file_url=url)
    done = await over(client, body["job_id"])
    await runner.cleanup()
    assert done["result"] == f"=== Page 1 ===\n{text}"
    assert body["metadata"]["file_id"] == "linked"
    assert done["metadata"]["result_local_path"].endswith(f"{body['job_id']}.txt")
    assert "planted-signature" not in f"{body}{done}{server.log_path.read_text()}"


@pytest.mark.parametrize(
    ("engine", "provider"),
    [
        ("OpenAIEngine", "openai"),
        ("ClaudeEngine", "anthropic"),
        ("JuniorEngine", "openai"),
        ("SomethingElse", "openai"),
        (None, "openai"),
    ],
)
async def test_engine_is_mapped_when_named(
    client: Client, bucket: Bucket, make_pdf: Pdf, engine: str | None, provider: str
) -> None:
    url = bucket.put("in/engines.pdf", make_pdf("engines"))
    body = await process(client, file_path=url, ai_engine=engine, force_fast=True)
    assert (body["metadata"]["processing_mode"], body["metadata"]["ai_provider"]) == ("bart_1", provider)
    assert body["metadata"]["model_tier"] == "fast"
    options = (await client.get(f"/jobs/{body['job_id']}")).json["options"]
    assert (options["engine"], options["model_tier"], options["mode"]) == (provider, "fast", "auto")


@pytest.mark.parametrize(("flag", "text_only"), [("text_only", True), ("fast_upload", False)])
async def test_ai_is_left_out_when_a_quick_way_is_asked_for(
    client: Client, bucket: Bucket, make_pdf: Pdf, flag: str, text_only: bool
) -> None:
    url = bucket.put("in/quick.pdf", make_pdf("quick"))
    body = await process(client, file_path=url, **{flag: True})
    options = (await client.get(f"/jobs/{body['job_id']}")).json["options"]
    assert (options["mode"], options["text_only"]) == ("local", text_only)


async def test_convert_takes_sources_in_buckets_when_they_are_allowed(
    client: Client, bucket: Bucket, make_bucket: Callable[[str], Bucket], make_pdf: Pdf
) -> None:
    more = make_bucket("ghost-more")
    text = fresh("for everybody")
    for place in (bucket.put("a.pdf", make_pdf(text)), more.put("open/b.pdf", make_pdf(text))):
        answer = await client.post("/convert?wait=240", json={"source": place})
        assert answer.status == 200, answer.body
        assert text in answer.json["result"]["markdown"]
        job = (await client.get(f"/jobs/{answer.json['job_id']}")).json
        assert job["source"] == {"kind": "bucket", "url": place}
        assert job["filename"] == place.rpartition("/")[2]
        assert job["child_jobs"]["download_job_id"]
    shut = more.put("shut/c.pdf", make_pdf(text))
    for refused in (
        shut,
        "s3://ghost-other/a.pdf",
        "s3://ghost-more/open/../shut/c.pdf",
        "az://ghost-more/a.pdf",
    ):
        answer = await client.post("/convert", json={"source": refused})
        assert (answer.status, answer.json["code"]) == (400, "link_refused"), refused
        assert (await client.post("/process_file_junior_call", json={"file_path": refused})).status == 400


async def test_download_fails_with_words_when_the_bucket_has_no_good_file(
    client: Client, bucket: Bucket
) -> None:
    bucket.put("large.pdf", b"%PDF-1.7\n" + b"0" * (5 << 20))
    for key, words in (("missing.pdf", "There is no missing.pdf"), ("large.pdf", "larger than the 4 MB")):
        job_id = (await process(client, file_path=key))["job_id"]
        done = await over(client, job_id)
        assert done["status"] == "failed"
        assert words in done["message"]
        assert done["metadata"]["error"]["error"] == done["message"]


async def test_result_stays_with_the_service_when_it_can_not_be_saved(
    start_server: Callable[..., Server], aws: dict[str, str], bucket: Bucket, make_pdf: Pdf
) -> None:
    """A proxy stands before S3 that lets everything through but writing."""
    refusing = await _Proxy.start(aws["AWS_ENDPOINT_URL"])
    refusing.refuse_writes = True
    server = start_server(**{**aws, "AWS_ENDPOINT_URL": refusing.url}, EXPORT_MAX_ATTEMPTS="2").wait_ready()
    text = fresh("not delivered")
    url = bucket.put("in/refused.pdf", make_pdf(text))
    async with client_of(server) as client:
        job_id = (await process(client, file_path=url))["job_id"]
        done = await over(client, job_id)
        assert done["status"] == "success"
        assert "could not be delivered" in done["message"]
        assert done["metadata"]["result_error"]["code"] == "objects_unavailable"
        assert done["result"] == f"=== Page 1 ===\n{text}"
        letters = (await client.get("/dlq?queue=export")).json["letters"]
        assert [letter["main_job_id"] for letter in letters] == [job_id]
        refusing.refuse_writes = False
        assert (await client.post(letters[0]["replay"])).status == 202
        done = await over(client, job_id)
        assert bucket.read(done["metadata"]["result_s3_url"]) == done["result"]
        assert "result_error" not in done["metadata"]
    server.stop()
    await refusing.stop()


async def test_export_is_made_up_for_when_the_service_was_killed_after_the_merge(
    start_server: Callable[..., Server], aws: dict[str, str], bucket: Bucket, make_pdf: Pdf, tmp_path: Path
) -> None:
    slow = await _Proxy.start(aws["AWS_ENDPOINT_URL"])
    slow.hold_writes.clear()
    settings = {**aws, "AWS_ENDPOINT_URL": slow.url, "WORKER_TTL": "500ms"}
    first = start_server(tmp_path, **settings).wait_ready()
    url = bucket.put("in/killed.pdf", make_pdf(fresh("survives")))
    async with client_of(first) as client:
        job_id = (await process(client, file_path=url))["job_id"]
        await until(lambda: slow.writes > 0)
        assert (await client.get(f"/jobs/{job_id}")).json["status"] == "completed"
        shown = await progress(client, job_id)
        assert (shown["status"], shown["progress"]) == ("processing", 99)
        first.process.kill()
        first.process.wait()
    slow.hold_writes.set()
    second = start_server(tmp_path, **settings).wait_ready()
    async with client_of(second) as client:
        done = await over(client, job_id)
        assert done["status"] == "success"
        assert bucket.read(done["metadata"]["result_s3_url"]) == done["result"]
        assert "survives" in done["result"]
    second.stop()
    await slow.stop()


class _Proxy:
    """Stands before the S3 server; writes can be held back or refused."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.writes = 0
        self.refuse_writes = False
        self.hold_writes = asyncio.Event()
        self.hold_writes.set()
        self.url = ""

    @classmethod
    async def start(cls, endpoint: str) -> _Proxy:
        import aiohttp

        self = cls(endpoint)
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def stop(self) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _pass(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.method == "PUT":
            self.writes += 1
            await self.hold_writes.wait()
            if self.refuse_writes:
                return web.Response(status=403, text="<Error><Code>AccessDenied</Code></Error>")
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        async with self._session.request(
            request.method, self.endpoint + request.raw_path, headers=headers, data=body
        ) as answer:
            passed = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in ("transfer-encoding", "content-length", "connection")
            }
            return web.Response(status=answer.status, body=await answer.read(), headers=passed)
