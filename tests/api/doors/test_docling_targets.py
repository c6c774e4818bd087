"""Results of docling tasks that are delivered: to a link by PUT, and into a bucket with the caller's credentials."""

from __future__ import annotations

import base64
import email
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.document_site import Site
from tests.support.s3_fixtures import S3
from tests.support.serving import Client, Server
from tests.support.submitted_documents import fresh
from tests.support.waiting import eventually

Pdf = Callable[..., bytes]


def source(data: bytes, name: str) -> dict[str, str]:
    return {"kind": "file", "base64_string": base64.b64encode(data).decode(), "filename": name}


def asked(
    target: dict[str, Any], *sources: dict[str, str], formats: tuple[str, ...] = ("md",)
) -> dict[str, Any]:
    return {"sources": list(sources), "target": target, "options": {"to_formats": list(formats)}}


def uploaded(site: Site) -> zipfile.ZipFile:
    """The archive of the last PUT, which is the field `file` of a form, as docling-serve sends it."""
    headers, body = site.posts[-1]
    assert int(headers["Content-Length"]) == len(body)
    message = email.message_from_bytes(f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode() + body)
    parts = message.get_payload()
    assert isinstance(parts, list)
    part = parts[0]
    assert isinstance(part, email.message.Message)
    assert part.get_param("name", header="content-disposition") == "file"
    assert part.get_filename() == "converted_docs.zip"
    return zipfile.ZipFile(io.BytesIO(part.get_payload(decode=True)))  # type: ignore[arg-type]


async def ended(client: Client, task_id: str) -> dict[str, Any]:
    async def over() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"/v1/status/poll/{task_id}")).json
        return None if found["task_status"] in ("pending", "started") else found

    return await eventually(over, f"the end of task {task_id}")


async def test_a_zip_is_put_to_the_link_also_after_a_failure(
    client: Client, site: Site, make_pdf: Pdf
) -> None:
    site.failures["/put"] = 1
    texts = [fresh("put one"), fresh("put two")]
    files = [source(make_pdf(text), f"{at}.pdf") for at, text in enumerate(texts)]
    body = asked({"kind": "put", "url": f"{site.url}/put?token=secret"}, *files, formats=("md", "text"))
    answer = await client.post("/v1/convert/source", json=body)
    assert (answer.status, answer.json["num_succeeded"], answer.json["num_failed"]) == (200, 2, 0)
    assert set(answer.json) == {
        *("processing_time", "num_converted", "num_succeeded", "num_partially_succeeded", "num_failed")
    }
    with uploaded(site) as found:
        assert sorted(found.namelist()) == ["0.md", "0.txt", "1.md", "1.txt"]
        assert found.read("1.md").decode() == texts[1]


async def test_a_task_ends_when_its_results_are_delivered(
    client: Client, server: Server, site: Site, make_pdf: Pdf
) -> None:
    text = fresh("delivered")
    files = [source(make_pdf(text), "a.pdf"), source(b"%PDF-1.4 broken", "b.pdf")]
    body = asked({"kind": "put", "url": f"{site.url}/later?token=not-in-the-clear"}, *files)
    task = (await client.post("/v1/convert/source/async", json=body)).json
    found = await ended(client, task["task_id"])
    assert (found["task_status"], found["failure"]) == ("success", None)
    with uploaded(site) as archive:
        assert sorted(archive.namelist()) == ["a.md", "failures.json"]
        assert archive.read("a.md").decode() == text
    counts = (await client.get(f"/v1/result/{task['task_id']}")).json
    assert (counts["num_converted"], counts["num_succeeded"], counts["num_failed"]) == (2, 1, 1)
    stored = b"".join(path.read_bytes() for path in server.data_dir.rglob("batch.json"))
    assert task["task_id"].encode() in stored
    assert b"not-in-the-clear" not in stored
    assert "not-in-the-clear" not in server.log


async def test_a_target_that_refuses_fails_the_task_with_the_reason(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    body = asked({"kind": "put", "url": f"{server.url}/no-such-path"}, source(make_pdf(fresh("no")), "a.pdf"))
    at_once = await client.post("/v1/convert/source", json=body)
    assert at_once.status == 502
    assert "404" in at_once.json["detail"]
    task = (await client.post("/v1/convert/source/async", json=body)).json
    found = await ended(client, task["task_id"])
    assert found["task_status"] == "failure"
    assert found["error_message"] == at_once.json["detail"]
    assert (found["failure"]["category"], found["failure"]["details"]) == (
        "target_unavailable",
        {"target_kind": "put"},
    )
    result = await client.get(f"/v1/result/{task['task_id']}")
    assert (result.status, result.json["detail"]) == (502, found["error_message"])


async def test_files_are_put_into_the_callers_bucket(
    client: Client, s3: S3, bucket: str, make_pdf: Pdf
) -> None:
    text = fresh("into a bucket")
    target = {
        "kind": "s3",
        "endpoint": s3.endpoint.removeprefix("http://"),
        "verify_ssl": False,
        "access_key": s3.key,
        "secret_key": s3.secret,
        "bucket": bucket,
        "key_prefix": "out/with space ü/",
    }
    body = asked(target, source(make_pdf(text), "größe 1.pdf"), formats=("md", "json"))
    answer = await client.post("/v1/convert/source", json=body)
    assert (answer.status, answer.json["num_succeeded"]) == (200, 1)
    listed = s3.client().list_objects_v2(Bucket=bucket)["Contents"]
    keys = sorted(one["Key"] for one in listed)
    assert [key.rpartition("/")[2] for key in keys] == ["größe 1.json", "größe 1.md"]
    assert all(key.startswith("out/with space ü/") for key in keys)
    stored = s3.client().get_object(Bucket=bucket, Key=keys[1])
    assert stored["Body"].read().decode() == text
    assert stored["ContentType"].startswith("text/markdown")
    document = json.loads(s3.client().get_object(Bucket=bucket, Key=keys[0])["Body"].read())
    assert document["schema_name"] == "DoclingDocument"


GOOD = {
    "kind": "s3",
    "endpoint": "s3.example.org",
    "bucket": "some-bucket",
    "access_key": "a",
    "secret_key": "b",
}


@pytest.mark.parametrize(
    ("target", "status", "place"),
    [
        ({"kind": "put"}, 422, "target.url"),
        ({"kind": "put", "url": 7}, 422, "target.url"),
        ({"kind": "put", "url": "ftp://example.org/x"}, 400, ""),
        ({"kind": "put", "url": "http://169.254.169.254/latest"}, 400, ""),
        ({**GOOD, "endpoint": "https://s3.example.org"}, 422, "target.endpoint"),
        ({**GOOD, "endpoint": "169.254.169.254"}, 400, ""),
        ({**GOOD, "bucket": "../x"}, 422, "target.bucket"),
        ({**GOOD, "key_prefix": "../../x"}, 422, "target.key_prefix"),
        ({**GOOD, "secret_key": None}, 422, "target.secret_key"),
        ({**GOOD, "verify_ssl": "maybe"}, 422, "target.verify_ssl"),
    ],
)
async def test_a_bad_target_is_refused_before_anything_is_read(
    client: Client, target: dict[str, Any], status: int, place: str
) -> None:
    answer = await client.post("/v1/convert/source", json=asked(target, source(b"# a", "a.md")))
    assert answer.status == status
    found = answer.json["detail"]
    assert found[0]["loc"] == ["body", place] if place else isinstance(found, str)


async def test_a_target_in_a_private_network_is_refused_unless_it_is_allowed(
    idle: Client, site: Site
) -> None:
    body = asked({"kind": "put", "url": f"{site.url}/x"}, source(b"# a", "a.md"))
    answer = await idle.post("/v1/convert/source", json=body)
    assert answer.status == 400
    assert "ALLOW_PRIVATE_URLS" in answer.json["detail"]
    assert site.posts == []


async def test_chunks_are_not_delivered(client: Client, site: Site) -> None:
    body = asked({"kind": "put", "url": f"{site.url}/x"}, source(b"# a", "a.md"))
    answer = await client.post("/v1/chunk/hybrid/source", json=body)
    assert (answer.status, answer.json["detail"][0]["loc"]) == (422, ["body", "target"])
