"""What comes in and what is refused: links, files, twins, keys, teams, passwords, bounds."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import aiohttp

from tests.support.document_site import Site
from tests.support.serving import Client, Server, client_of
from tests.support.stored_files import files_below
from tests.support.submitted_documents import fresh
from tests.support.waiting import until

Pdf = Callable[..., bytes]


async def test_link_is_fetched_and_read_when_allowed(client: Client, site: Site, make_pdf: Pdf) -> None:
    text = fresh("behind a link")
    site.files["/report.pdf"] = make_pdf(text)
    answer = await client.post("/convert?wait=240", json={"source": f"{site.url}/report.pdf?token=geheim"})
    assert answer.status == 200, answer.body
    assert text in answer.json["result"]["markdown"]
    job = (await client.get(answer.headers["Location"])).json
    assert job["source"]["kind"] == "link"
    assert "geheim" not in str(job)
    assert job["filename"] == "report.pdf"
    assert job["child_jobs"]["download_job_id"] == f"{job['job_id']}-download"
    download = (await client.get(f"/jobs/{job['job_id']}-download")).json
    assert (download["type"], download["status"]) == ("download", "completed")


async def test_link_that_is_not_there_answers_its_own_error_when_waited_for(
    client: Client, site: Site
) -> None:
    answer = await client.post("/convert?wait=240", json={"source": f"{site.url}/missing.pdf"})
    assert answer.status == 502
    assert answer.json["code"] == "download_failed"
    assert answer.json["job_id"]
    assert answer.json["request_id"] == answer.headers["X-Request-ID"]


async def test_link_into_the_private_network_is_refused_when_not_allowed(idle: Client, site: Site) -> None:
    before = (await idle.get("/jobs")).json["jobs"]
    for url in (f"{site.url}/a.pdf", "http://[::1]/a.pdf", "http://169.254.169.254/x", "ftp://example.org/a"):
        answer = await idle.post("/convert", json={"source": url})
        assert (answer.status, answer.json["code"]) == (400, "link_refused"), url
    back = await idle.post("/convert", json={"source": "https://example.org/a", "callback_url": site.url})
    assert (back.status, back.json["code"]) == (400, "link_refused")
    assert (await idle.get("/jobs")).json["jobs"] == before


async def test_file_is_read_only_under_its_base(
    client: Client, idle: Client, files_base: Path, make_pdf: Pdf, tmp_path: Path
) -> None:
    text = fresh("on the disk")
    (files_base / "a b.pdf").write_bytes(make_pdf(text))
    source = f"file://{files_base}/a%20b.pdf"
    answer = await client.post("/convert?wait=240", json={"source": source})
    assert answer.status == 200, answer.body
    assert text in answer.json["result"]["markdown"]
    original = await client.get(f"/jobs/{answer.json['job_id']}/original")
    assert original.body == (files_base / "a b.pdf").read_bytes()
    (tmp_path / "secret.pdf").write_bytes(make_pdf("not for you"))
    (files_base / "link.pdf").symlink_to(tmp_path / "secret.pdf")
    outside = (
        f"file://{tmp_path}/secret.pdf",
        f"file://{files_base}/../{tmp_path.name}/secret.pdf",
        f"file://{files_base}/%2e%2e/x.pdf",
        f"file://{files_base}/link.pdf",
        "file:///etc/passwd",
    )
    for bad in outside:
        refused = await client.post("/convert", json={"source": bad})
        assert (refused.status, refused.json["code"]) == (400, "link_refused"), bad
    off = await idle.post("/convert", json={"source": source})
    assert (off.status, off.json["code"]) == (400, "link_refused")


async def test_same_document_is_converted_once_unless_forced(
    client: Client, beta: Client, make_pdf: Pdf
) -> None:
    pdf = make_pdf(fresh("the same"))
    first = (await client.upload(pdf)).json
    again = (await client.upload(pdf, name="other-name.pdf")).json
    assert (again["job_id"], again["deduplicated"]) == (first["job_id"], True)
    others = [
        (await client.upload(pdf, {"pages": "1"})).json,
        (await client.upload(pdf, {"force": "true"})).json,
        (await beta.upload(pdf)).json,
    ]
    assert all(other["deduplicated"] is False for other in others)
    assert len({first["job_id"], *(other["job_id"] for other in others)}) == 4


async def test_identical_uploads_at_once_leave_nothing_behind(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    pdf = make_pdf(fresh("ten times"))
    answers = await asyncio.gather(
        *(client.upload(pdf, headers={"Idempotency-Key": "ten at once"}) for _ in range(10))
    )
    ids = {answer.json["job_id"] for answer in answers}
    assert len(ids) == 1
    assert sum(not answer.json["deduplicated"] for answer in answers) == 1
    await client.over(ids.pop())
    job_id = answers[0].json["job_id"]
    assert len([path for path in server.originals() if job_id in path]) == 1
    assert (await client.get(f"/jobs/{job_id}/original")).body == pdf


async def test_idempotency_key_gives_one_job_and_refuses_another_document(
    client: Client, beta: Client, make_pdf: Pdf
) -> None:
    key = {"Idempotency-Key": f"key {uuid.uuid4()}"}
    pdf = make_pdf(fresh("with a key"))
    first = (await client.upload(pdf, headers=key)).json
    again = await client.upload(pdf, headers=key)
    assert again.status == 202
    assert (again.json["job_id"], again.json["deduplicated"]) == (first["job_id"], True)
    for answer in (
        await client.upload(make_pdf(fresh("another")), headers=key),
        await client.upload(pdf, {"pages": "1"}, headers=key),
    ):
        assert (answer.status, answer.json["code"]) == (409, "conflict")
    assert (await beta.upload(pdf, headers=key)).json["job_id"] != first["job_id"]
    for bad in ("x" * 256, "ümlaut", ""):
        answer = await client.upload(pdf, headers={"Idempotency-Key": bad})
        assert answer.status == 400
        assert "Idempotency-Key" in answer.json["error"]


async def test_teams_do_not_see_each_other(
    client: Client, beta: Client, server: Server, make_pdf: Pdf
) -> None:
    job_id = (await client.upload(make_pdf(fresh("of alpha")), wait=240)).json["job_id"]
    for method, place in (
        ("GET", ""),
        ("GET", "/result"),
        ("GET", "/pages"),
        ("GET", "/pages/1/image"),
        ("GET", "/original"),
        ("GET", "/events"),
        ("POST", "/cancel"),
        ("POST", "/retry"),
    ):
        for name in (job_id, f"{job_id}-p1", f"{job_id}-merge"):
            answer = await beta.ask(method, f"/jobs/{name}{place}")
            assert (answer.status, answer.json["code"]) == (404, "not_found"), (method, place)
    assert job_id not in str((await beta.get("/jobs?limit=500")).json)
    assert (await client.get(f"/jobs/{job_id}")).json["status"] == "completed"


async def test_key_is_demanded_in_either_header(server: Server) -> None:
    async with client_of(server) as stranger:
        for headers in (
            {},
            {"X-API-Key": "wrong"},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic a2V5LW9mLWFscGhh"},
            {"Authorization": "Bearer key-of-alphä"},
            {"Authorization": "Bearer"},
        ):
            for path in ("/jobs", "/queues", "/dlq", "/jobs/x"):
                answer = await stranger.get(path, headers=headers)
                assert (answer.status, answer.json["code"]) == (401, "unauthorized")
                assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert (await stranger.upload(b"%PDF-1.4")).status == 401
        for headers in ({"X-API-Key": "key-of-beta"}, {"Authorization": "bearer key-of-beta"}):
            assert (await stranger.get("/jobs", headers=headers)).status == 200


async def test_web_pages_are_kept_out_when_there_are_no_keys(idle: Client) -> None:
    own = idle.url.removeprefix("http://")
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert (await idle.get("/jobs", headers=headers)).status == 401, headers
    for headers in ({"Host": "localhost:1"}, {"Host": "[::1]:8080"}, {"Origin": f"http://{own}"}):
        assert (await idle.get("/jobs", headers=headers)).status == 200, headers


async def test_busy_server_answers_503_and_when_to_come_back(
    idle: Client, idle_server: Server, make_pdf: Pdf
) -> None:
    key = {"Idempotency-Key": f"known {uuid.uuid4()}"}
    pdf = make_pdf(fresh("job"))
    first = await idle.upload(pdf, headers=key)
    for _ in range(2):
        assert (await idle.upload(make_pdf(fresh("job")))).status == 202
    refused = await idle.upload(make_pdf(fresh("one too many")))
    assert (refused.status, refused.json["code"]) == (503, "busy")
    assert refused.json["retryable"] is True
    assert int(refused.headers["Retry-After"]) >= 1
    # A repeated request asks for nothing new.
    repeated = await idle.upload(pdf, headers=key)
    assert (repeated.status, repeated.json["job_id"]) == (202, first.json["job_id"])
    await idle.post(f"/jobs/{first.json['job_id']}/cancel")
    assert (await idle.upload(make_pdf(fresh("now there is room")))).status == 202
    assert idle_server.incoming() == []


async def test_encrypted_document_opens_with_its_password_which_is_nowhere_in_the_clear(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    password = f"Pass{uuid.uuid4().hex[:20]}wort"
    text = fresh("under lock and key")
    pdf = make_pdf(text, password=password)
    without = await client.upload(pdf, wait=240)
    assert (without.status, without.json["code"]) == (422, "password_required")
    wrong = await client.upload(pdf, {"password": password[:-1]}, wait=240)
    assert (wrong.status, wrong.json["code"]) == (422, "password_wrong")
    right = await client.upload(pdf, {"password": password, "prompt": f"prompt {password}"}, wait=240)
    assert right.status == 200
    assert text in right.json["result"]["markdown"]
    job_id = right.json["job_id"]
    assert (await client.get(f"/jobs/{job_id}/pages/1/image")).status == 200
    assert password not in str((await client.get(f"/jobs/{job_id}")).json)
    kept = {**files_below(server.data_dir), server.log_path: server.log_path.read_bytes()}
    assert any("appendonly" in str(path) for path in kept)
    for path, content in kept.items():
        assert password[:-1].encode() not in content, path
    # The same document with another password is not the same job.
    assert (await client.upload(pdf, {"password": "x"})).json["deduplicated"] is False


async def test_callback_is_signed_and_sent_again_until_it_was_heard(
    client: Client, site: Site, make_pdf: Pdf
) -> None:
    import json
    import time

    from quire.links import verify
    from tests.api.conftest import CALLBACK_SECRET

    site.failures["/hook"] = 2
    accepted = await client.upload(
        make_pdf(fresh("tell me")), {"callback_url": f"{site.url}/hook?secret=in-the-query"}
    )
    await until(lambda: len(site.posts) == 1)
    assert site.failures["/hook"] == 0
    headers, body = site.posts[0]
    told = json.loads(body)
    assert (told["job_id"], told["status"]) == (accepted.json["job_id"], "completed")
    assert verify(body, CALLBACK_SECRET, headers["X-Quire-Signature"], time.time())
    assert not verify(body + b" ", CALLBACK_SECRET, headers["X-Quire-Signature"], time.time())
    assert "in-the-query" not in str((await client.get(f"/jobs/{told['job_id']}")).json)


async def test_given_up_work_is_listed_and_replayed(
    client: Client, beta: Client, site: Site, make_pdf: Pdf
) -> None:
    text = fresh("at the fourth try")
    site.files["/late.pdf"] = make_pdf(text)
    site.failures["/late.pdf"] = 3
    failed = await client.post("/convert?wait=240", json={"source": f"{site.url}/late.pdf"})
    assert (failed.status, failed.json["code"]) == (502, "download_failed")
    job_id = failed.json["job_id"]

    def of_this(answer: object) -> list[dict[str, str]]:
        return [one for one in answer["letters"] if one["main_job_id"] == job_id]  # type: ignore[index]

    letters = of_this((await client.get("/dlq?queue=download")).json)
    assert [letter["job_id"] for letter in letters] == [f"{job_id}-download"]
    assert of_this((await client.get("/dlq")).json) == letters
    assert of_this((await client.get("/dlq?queue=merge")).json) == []
    assert (await beta.get("/dlq")).json["letters"] == []
    assert (await beta.post(letters[0]["replay"])).status == 404
    replayed = await client.post(letters[0]["replay"])
    assert (replayed.status, replayed.json["retried"]) == (202, True)
    assert (await client.over(job_id))["status"] == "completed"
    assert text in (await client.get(f"/jobs/{job_id}/result")).json["result"]["markdown"]
    assert of_this((await client.get("/dlq")).json) == []
    assert (await client.post(letters[0]["replay"])).status == 404
    assert (await client.post("/dlq/download/odd/replay")).status == 404
    assert (await client.post("/dlq/odd/1-1/replay")).status == 400


async def test_bare_key_names_an_object_of_the_bucket_when_it_goes_into_the_vault(idle: Client) -> None:
    taken = await idle.post("/documents", json={"source": "in/a.pdf"})
    assert taken.status == 202, taken.body
    place = taken.json["documents"][0]["links"]["self"]
    found = (await idle.get(place)).json
    assert (found["source"], found["filename"]) == ("s3://own-bucket/in/a.pdf", "a.pdf")
    assert (await idle.ask("DELETE", place)).status == 204


async def test_place_for_the_result_is_refused_when_the_document_goes_into_the_vault(
    idle: Client, make_pdf: Pdf
) -> None:
    asked = {"source": "in/a.pdf", "result_to": "s3://own-bucket/out/"}
    linked = await idle.post("/documents", json=asked)
    form = aiohttp.FormData({"result_to": asked["result_to"]})
    form.add_field("file", make_pdf(fresh("no place")), filename="a.pdf")
    for refused in (linked, await idle.post("/documents", data=form)):
        assert refused.status == 400, refused.body
        assert refused.json["error"].startswith("result_to: ")
    assert (await idle.get("/documents")).json["documents"] == []
    accepted = await idle.post("/convert", json=asked)
    assert accepted.status == 202, accepted.body


async def test_ending_of_the_name_decides_when_the_content_could_be_several_things(client: Client) -> None:
    text = f'# Perl notes {uuid.uuid4()}\n\nmy $x = 5;\nuse strict;\nprint "hello $x\\n";\n'.encode()
    named, bare = [await client.upload(text, wait=240, name=name) for name in ("notes.md", "notes.bin")]
    assert named.json["result"]["markdown"].startswith("# Perl notes"), "no fence around it"
    assert bare.json["result"]["markdown"].startswith("```")
    assert named.json["job_id"] != bare.json["job_id"], "read as another kind, it is another document"
    rows = f"Hello, {uuid.uuid4()}\nGood, bye\n".encode()
    assert "|---|" in (await client.upload(rows, wait=240, name="rows.csv")).json["result"]["markdown"]


async def test_options_of_the_reading_are_the_same_in_the_address_and_in_the_body(
    client: Client, make_pdf: Pdf
) -> None:
    content = make_pdf(fresh("read with care"))
    address = "/convert?reading_effort=fast&force_ocr=true&ocr_languages=eng+deu"
    first = await client.upload(content, path=address)
    body = {"reading_effort": "fast", "force_ocr": "true", "ocr_languages": "eng+deu"}
    again = await client.upload(content, body)
    assert (again.json["job_id"], again.json["deduplicated"]) == (first.json["job_id"], True)
    other = await client.upload(content, body, path="/convert?reading_effort=careful")
    assert other.json["job_id"] == first.json["job_id"], "what the body has counts"
    for wrong in ("reading_effort=huge", "ocr_languages=klingon", "force_ocr=perhaps"):
        answer = await client.upload(content, path=f"/convert?{wrong}")
        assert (answer.status, wrong.split("=")[0] in answer.json["error"]) == (400, True)
