"""The service itself: starting, stopping, health, the pages for people, the description for programs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from quire.api.http.error_responses import STATUSES
from quire.errors import QuireError
from tests.support.processes import descendants
from tests.support.serving import Client, Server, client_of
from tests.support.waiting import DEADLINE_S, until

Pdf = Callable[..., bytes]


def every_class(kind: type[QuireError]) -> list[type[QuireError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in every_class(child))]


def test_every_error_of_quire_has_a_status() -> None:
    ours = [
        kind
        for kind in every_class(QuireError)
        if kind.__module__ in ("quire.errors", "quire.api.http.error_responses")
    ]
    assert [kind.__name__ for kind in ours if kind not in STATUSES] == []
    codes = {kind.code: status for kind, status in STATUSES.items()}
    assert len(codes) == len(STATUSES)


async def test_health_tells_what_there_is_to_tell(client: Client, server: Server) -> None:
    async with client_of(server) as anybody:
        assert (await anybody.get("/health/live")).json == {"status": "ok"}
        assert (await anybody.get("/health/ready")).json == {"status": "ok", "failing": []}
        health = await anybody.get("/health")
    assert health.status == 200
    assert set(health.json) >= {"status", "redis_connected", "queue_depth", "uptime_seconds", "version"}
    assert health.json["redis_connected"] is True
    queues = (await client.get("/queues")).json
    assert {queue["queue"] for queue in queues["queues"]} >= {"split", "page", "merge", "callback"}

    async def has_its_worker() -> bool:  # requests are answered a moment before it is there
        return len((await client.get("/queues")).json["workers"]) == 1

    await until(has_its_worker)


async def test_description_covers_every_endpoint(client: Client) -> None:
    described = (await client.get("/openapi.json")).json
    assert set(described["paths"]) >= {
        "/convert",
        "/jobs",
        "/jobs/{job_id}",
        "/jobs/{job_id}/result",
        "/jobs/{job_id}/pages",
        "/jobs/{job_id}/pages/{number}/image",
        "/jobs/{job_id}/original",
        "/jobs/{job_id}/events",
        "/jobs/{job_id}/cancel",
        "/jobs/{job_id}/retry",
        "/dlq",
        "/dlq/{queue}/{entry_id}/replay",
        "/queues",
        "/health",
    }
    for methods in described["paths"].values():
        for method in methods.values():
            assert method["summary"]
            assert "HTTPValidationError" not in json.dumps(method)
    assert set(described["paths"]["/convert"]["post"]["requestBody"]["content"]) == {
        "application/json",
        "multipart/form-data",
    }
    for ref in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(described)):
        found = described
        for step in ref.split("/"):
            found = found[step]
        assert found
    assert described["paths"]["/jobs"]["get"]["security"] == [
        {"bearer": []},
        {"basic": []},
        {"key": []},
    ]
    assert "security" not in described["paths"]["/health"]["get"]
    page = await client.get("/docs")
    assert page.headers["Content-Type"].startswith("text/html")
    assert "script" not in page.headers["Content-Security-Policy"]
    assert "POST /convert" in page.body.decode()
    assert not re.search(r"https?://", page.body.decode())


async def test_every_answer_has_the_headers_that_protect_browsers(client: Client) -> None:
    for path in ("/", "/docs", "/jobs", "/nowhere", "/health"):
        answer = await client.get(path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Security-Policy"].startswith("default-src ")
        assert answer.headers["X-Request-ID"]
        assert "Server" not in answer.headers


async def test_server_finishes_what_it_has_and_exits_0_when_terminated(
    start_server: Callable[..., Server], make_pdf: Pdf
) -> None:
    server = start_server(warm_readers=False, READER_PROCESSES="1", SHUTDOWN_TIMEOUT="20s").wait_ready()
    async with client_of(server) as one:
        accepted = await one.upload(make_pdf(*(f"{n} {uuid.uuid4()}" for n in range(60))))
        events = await one.session.get(f"{server.url}{accepted.json['links']['events']}")
        server.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(events.read(), DEADLINE_S)
        events.close()
    children = psutil.Process(server.process.pid).children(recursive=True)
    assert server.process.wait(DEADLINE_S) == 0
    psutil.wait_procs(children, timeout=DEADLINE_S)
    assert [child for child in children if child.is_running()] == []
    # Whatever was not finished is taken up by the next one.
    again = start_server(READER_PROCESSES="1", DATA_DIR=str(server.data_dir)).wait_ready()
    async with client_of(again) as one:
        assert (await one.over(accepted.json["job_id"]))["status"] == "completed"
    assert again.stop() == 0


async def test_server_answers_while_it_drains_and_ends_at_once_when_told_twice(
    start_server: Callable[..., Server],
) -> None:
    server = start_server(RUN_DISPATCHER="0", SHUTDOWN_TIMEOUT="10m", SHUTDOWN_DELAY="10m").wait_ready()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
    writer.write(
        b"POST /convert HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    )
    await writer.drain()
    async with client_of(server) as one:
        assert (await one.get("/health/live")).status == 200
    server.process.send_signal(signal.SIGINT)
    await until(lambda: "stopping" in server.log_path.read_text())
    # Until the delay is over it answers, tells the load balancer so, and closes each connection with its response.
    async with client_of(server) as one:
        ready, jobs = await one.get("/health/ready"), await one.get("/jobs")
    assert (ready.status, ready.json["failing"]) == (503, ["draining"])
    assert (jobs.status, jobs.headers["Connection"]) == (200, "close")
    server.process.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(server.process.wait, 30) == 0
    answer = await reader.read()
    assert not answer or b" 503 " in answer.splitlines()[0]
    writer.close()


def test_start_is_refused_with_one_sentence_when_the_port_is_taken(
    server: Server, start_server: Callable[..., Server]
) -> None:
    port = server.url.rsplit(":", 1)[1]
    second = start_server(PORT=port)
    assert second.process.wait(DEADLINE_S) == 2
    said = second.log_path.read_text().strip().splitlines()
    assert said == [
        f"quire: Port {port} on 127.0.0.1 is in use by another program. Stop that one, or choose another PORT."
    ]


def test_start_is_refused_when_others_could_reach_it_without_keys(
    start_server: Callable[..., Server],
) -> None:
    second = start_server(HOST="0.0.0.0")
    assert second.process.wait(DEADLINE_S) == 2
    assert "API_KEYS" in second.log_path.read_text()


def test_server_stops_with_an_error_when_a_part_dies_for_good(start_server: Callable[..., Server]) -> None:
    server = start_server(RUN_DISPATCHER="0").wait_ready()
    while server.process.poll() is None:
        with suppress(OSError):  # processes come and go while we look
            for child in descendants(server.process.pid):
                if "valkey" in Path(f"/proc/{child}/comm").read_text():
                    os.kill(child, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(0.05)
    assert server.process.returncode not in (0, -signal.SIGKILL)
    # Which of the two depends on whether the last kill came before its first answer.
    assert re.search(r"The coordination server (keeps ending|did not start)", server.log_path.read_text())


async def test_health_names_the_part_when_it_is_out_of_reach(start_server: Callable[..., Server]) -> None:
    server = start_server(RUN_DISPATCHER="0").wait_ready()
    objects = server.data_dir / "objects"
    async with client_of(server) as one:
        assert (await one.get("/health/ready")).status == 200
        if objects.exists():
            objects.rename(server.data_dir / "objects-away")
        objects.write_text("a file where a folder should be")

        async def unavailable() -> bool:
            return (await one.get("/health/ready")).status == 503

        await until(unavailable)
        ready = (await one.get("/health")).json
        assert (ready["status"], ready["failing"], ready["redis_connected"]) == (
            "unhealthy",
            ["objects"],
            True,
        )
        refused = await one.upload(b"%PDF-1.4 x")
        assert (refused.status, refused.json["code"]) == (503, "objects_unavailable")
        assert str(server.data_dir) not in refused.body.decode()
        assert (await one.get("/health/live")).status == 200
