"""The service with real S3 servers: sources, results under a prefix, signed links, and its own objects there."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quire.client import AsyncQuire
from quire.errors import DownloadError
from quire.objects.buckets import Address, Buckets
from quire.pipeline.stages.download_stage import clouds_of
from quire.settings import load
from tests.support.link_servers import Received
from tests.support.s3_fixtures import S3
from tests.support.serving import Client, Server, client_of
from tests.support.waiting import DEADLINE_S, until, wait_until

QUICK = {"READER_PROCESSES": "1", "RETRY_BASE_DELAY": "20ms", "RETRY_JITTER": "0", "EXPORT_MAX_ATTEMPTS": "2"}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def start(**settings: str) -> Server:
        folder = tmp_path / f"server-{len(running)}"
        folder.mkdir()
        running.append(Server(folder, **QUICK, **settings))
        return running[-1].wait_ready()

    yield start
    for server in running:
        server.stop()


def fetch(url: str) -> bytes:
    """As anybody would who was given the link."""
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        body: bytes = answer.read()
    return body


def put_file(url: str, data: bytes) -> None:
    kind = {"Content-Type": "application/octet-stream"}  # urllib would call it a form
    request = urllib.request.Request(url, data=data, method="PUT", headers=kind)
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        assert answer.status == 200


def status(url: str) -> int:
    try:
        fetch(url)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


async def delivered(client: Client, job_id: str) -> dict[str, Any]:
    """The job once its result has been put where it should be, or that was given up."""
    found: dict[str, Any] = {}

    async def over() -> bool:
        found.update((await client.get(f"/jobs/{job_id}")).json)
        delivery = found["delivery"]
        return bool(delivery and (delivery["url"] or delivery["error"]))

    await until(over)
    return found


async def test_documents_come_and_go_by_buckets_when_the_keys_are_right(
    s3: S3, bucket: str, serve: Callable[..., Server], make_pdf: Callable[..., bytes]
) -> None:
    put = s3.client().put_object
    put(Bucket=bucket, Key="in/Größe 1.pdf", Body=make_pdf("a document in a bucket"))
    put(Bucket=bucket, Key="private/b.pdf", Body=make_pdf("not for callers"))
    places = {"AWS_S3_BUCKET": bucket, "RESULT_BUCKETS": f"{bucket}/out"}
    async with client_of(serve(**s3.settings, **places)) as client:
        asked = {"source": "in/Größe 1.pdf", "result_to": f"s3://{bucket}/out/2026/"}
        taken = await client.post("/convert?wait=240", json=asked)
        assert taken.status == 200, taken.body
        assert taken.json["result"]["markdown"].strip() == "a document in a bucket"
        job = await delivered(client, taken.json["job_id"])
        key = f"out/2026/{job['job_id']}/Größe 1.md"
        assert job["source"] == {"kind": "bucket", "url": f"s3://{bucket}/in/Größe 1.pdf"}
        assert job["delivery"] == {"url": f"s3://{bucket}/{key}", "bytes": 22, "error": None}
        assert job["download"]["bytes_done"] == job["download"]["bytes_total"] == job["size"]
        assert s3.read(bucket, key) == b"a document in a bucket"
        head = s3.client().head_object(Bucket=bucket, Key=key)
        assert head["ContentType"] == "text/markdown; charset=utf-8"

        # The directory of the service signs nothing; the bucket that has the result does.
        link = (await client.get(f"/jobs/{job['job_id']}/result?link=1")).json["link"]
        assert link["signed"]
        assert fetch(link["url"]) == b"a document in a bucket"

        batch = (await client.post("/batches", json={"sources": [f"s3://{bucket}/in/"]})).json
        assert [(one["name"], one["error"]) for one in batch["items"]] == [("Größe 1.pdf", None)]
        refused = await client.post("/batches", json={"sources": ["s3://other/in/"]})
        assert (refused.status, refused.json["code"]) == (400, "link_refused")

        missing = await client.post("/convert?wait=240", json={"source": f"s3://{bucket}/in/none.pdf"})
        assert missing.status >= 400
        assert "in/none.pdf" in missing.json["error"]
        for refused in (f"s3://{bucket}/elsewhere/", f"s3://{bucket}", "s3://other/out/", "https://x/out/"):
            answer = await client.post("/convert", json={"source": "in/a.pdf", "result_to": refused})
            assert (answer.status, answer.json["code"]) == (400, "link_refused"), refused
        uploaded = await client.upload(
            make_pdf("an upload"), {"result_to": f"s3://{bucket}/out"}, name="up.pdf", wait=240
        )
        job = await delivered(client, uploaded.json["job_id"])
        assert s3.read(bucket, f"out/{job['job_id']}/up.md") == b"an upload"


async def test_objects_and_links_are_in_the_bucket_when_the_store_is_there(
    s3: S3,
    bucket: str,
    serve: Callable[..., Server],
    make_pdf: Callable[..., bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serve(**s3.settings, OBJECT_STORE=f"s3://{bucket}/quire/store", LINK_TTL="10m")
    document = make_pdf("kept in a bucket", "second page")
    async with client_of(server) as client:
        taken = await client.post("/convert?wait=240&link=1", data=_form(document))
        assert taken.status == 200, taken.body
        answer = taken.json
        job_id, link = answer["job_id"], answer["link"]
        assert answer["type"] == "main"
        assert link["signed"]
        assert urllib.parse.urlsplit(link["url"]).netloc == urllib.parse.urlsplit(s3.endpoint).netloc
        assert fetch(link["url"]) == b"kept in a bucket\n\n---\n\nsecond page"
        assert s3.secret not in link["url"]
        original = (await client.get(f"/jobs/{job_id}/original?link=1")).json["link"]
        assert fetch(original["url"]) == document
        page = (await client.get(f"/jobs/{job_id}-p2/result?link=1")).json["link"]
        assert not page["signed"], "a page is a stretch of an object"
        assert (await client.get(page["url"].removeprefix(client.url))).body == b"second page"
        keys = s3.keys(bucket)
        assert keys
        assert all(key.startswith(f"quire/store/jobs/{job_id}/") for key in keys)

        direct = make_pdf("put by the client")
        upload = (await client.post("/uploads", json={"size": len(direct), "filename": "d.pdf"})).json
        assert upload["signed"]
        assert urllib.parse.urlsplit(upload["url"]).netloc == urllib.parse.urlsplit(s3.endpoint).netloc
        put_file(upload["url"], direct)
        done = await client.post("/convert?wait=240", json={"source": upload["source"]})
        assert done.json["result"]["markdown"] == "put by the client"
        path = tmp_path / "large é.pdf"
        path.write_bytes(make_pdf("put by our client"))
        monkeypatch.setattr("quire.client.direct_upload.DIRECT_FROM_BYTES", 1)
        async with AsyncQuire(client.url, timeout_s=DEADLINE_S) as quire:
            converted = await quire.convert(path)
        assert converted.markdown == "put by our client"
        job = (await client.get(f"/jobs/{converted.job_id}")).json
        assert (job["filename"], job["download"] is None) == ("large é.pdf", False), (
            "it was no part of the request"
        )
        second = tmp_path / "second.pdf"
        second.write_bytes(make_pdf("the second of a batch"))
        async with AsyncQuire(client.url, timeout_s=DEADLINE_S) as quire:
            batch = await quire.batch([path, second])
            texts = [(await quire.result(item.job_id or "")).markdown for item in batch.items]
        assert texts == ["put by our client", "the second of a batch"]
        jobs = [(await client.get(f"/jobs/{item.job_id}")).json for item in batch.items]
        assert [job["source"] for job in jobs] == [{"kind": "upload"}] * 2
        assert all(job["download"] is not None for job in jobs)


def _form(document: bytes) -> Any:
    import aiohttp

    form = aiohttp.FormData()
    form.add_field("file", document, filename="a.pdf")
    return form


def test_a_signed_link_opens_nothing_when_its_time_is_up(seaweedfs: S3) -> None:
    client = seaweedfs.client()
    client.create_bucket(Bucket="links-that-expire")
    client.put_object(Bucket="links-that-expire", Key="a.md", Body=b"# A")
    settings = load(seaweedfs.settings)
    buckets = Buckets((), "", clouds_of(settings))
    link = asyncio.run(buckets.link(Address.parse("s3://links-that-expire/a.md"), 1))
    wait_until(lambda: status(link) != 200, "the link has expired")
    assert status(link) in (400, 403)


async def test_documents_are_refused_when_the_signature_is_wrong(seaweedfs: S3) -> None:
    client = seaweedfs.client()
    client.create_bucket(Bucket="signed-only")
    client.put_object(Bucket="signed-only", Key="a.pdf", Body=b"%PDF")
    wrong = {**seaweedfs.settings, "AWS_SECRET_ACCESS_KEY": "wrong-secret", "AWS_S3_BUCKET": "signed-only"}
    for settings in (wrong, {**wrong, "AWS_SESSION_TOKEN": "wrong-token"}):
        found = load(settings)
        buckets = Buckets(found.aws.places, "", clouds_of(found))
        got = Received()
        with pytest.raises(DownloadError, match="refuses the service's credentials") as caught:
            await buckets.fetch(
                buckets.check("s3://signed-only/a.pdf"), got, max_bytes=99, timeout_s=DEADLINE_S
            )
        assert not caught.value.retryable
        assert "wrong-secret" not in str(caught.value)
        assert got == b""


async def test_delivery_is_given_up_with_its_reason_when_the_bucket_is_not_there(
    seaweedfs: S3, serve: Callable[..., Server], make_pdf: Callable[..., bytes]
) -> None:
    server = serve(
        **{**seaweedfs.settings, "AWS_SECRET_ACCESS_KEY": "wrong-secret"}, RESULT_BUCKETS="signed-out"
    )
    async with client_of(server) as client:
        taken = await client.upload(make_pdf("here"), {"result_to": "s3://signed-out/x/"}, wait=240)
        assert taken.status == 200
        job = await delivered(client, taken.json["job_id"])
        assert job["status"] == "completed"
        assert job["delivery"]["url"] is None
        assert "signed-out" in job["delivery"]["error"]["error"]
        own = (await client.get(f"/jobs/{job['job_id']}/result?link=1")).json["link"]
        assert not own["signed"]
        assert own["expires_at"] > job["completed_at"]
        body = (await client.get(own["url"].removeprefix(client.url))).body
        assert body == b"here"
    assert "wrong-secret" not in server.log_path.read_text()
