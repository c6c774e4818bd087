"""Killed between any two steps: every document that was accepted ends, named once, and nothing is doubled."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from quire.simulator.simulator_thread import RunningSimulator
from tests.support.office_files import mail
from tests.support.programs import Program, Service
from tests.support.vault_fixtures import ai_settings
from tests.support.waiting import DEADLINE_S, scaled, wait_until

DOCUMENTS = 10
KILLS = 3
CREW = b"name,duty\nAnn,mate\nBob,stoker\n"
_BOUNDARY = "part-of-the-vault"


@pytest.fixture
def start(tmp_path: Path, sim: RunningSimulator, database: dict[str, str]) -> Iterator[Callable[[], Service]]:
    """Starts the service on the same data directory again and again."""
    settings = (
        ai_settings(sim)
        | {
            "DATA_DIR": str(tmp_path / "data"),
            "READER_PROCESSES": "1",
            "SHUTDOWN_TIMEOUT": "0",
            "VAULT_STALE_AFTER": "2s",
            "VAULT_SWEEP_INTERVAL": "300ms",
            "REQUEST_TIMEOUT": scaled(
                2
            ),  # the slots of calls that were out at a kill are free again after this and a bit
            "CLASSIFY_TIMEOUT": "10m",
            "VAULT_MAX_REVIVALS": "100",
            "JOB_MAX_ATTEMPTS": "10",
            "CLASSIFY_MAX_ATTEMPTS": "100",
        }
        | database
    )
    settings |= {"ALLOW_PRIVATE_URLS": "true"}
    running: list[Service] = []

    def begin() -> Service:
        running.append(Service(tmp_path, **settings))
        return running[-1].wait_ready()

    yield begin
    for service in running:
        service.make_sure_it_is_gone()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_every_document_is_named_when_the_service_is_killed_again_and_again(
    start: Callable[[], Service], sim: RunningSimulator
) -> None:
    chance = random.Random(5)
    sim.play({"models": [{"model": "*", "latency": {"uniform": [0.05, 0.4]}}]})
    service = start()
    ids: list[str] = []
    unfinished = 0
    for kill in range(KILLS):
        for number in range(len(ids), min(DOCUMENTS, (kill + 1) * DOCUMENTS // (KILLS - 1))):
            ids.append(_put(service, number))
        time.sleep(chance.uniform(0.0, 0.8))  # the moment of the kill is the point, not what it waits for
        unfinished += sum(not _is_over(_get(service, f"/documents/{one}")) for one in ids)
        service.kill(service.family())
        service = start()
        # A caller that was cut off sends it again with the same key, and gets the same document.
        assert [_put(service, number) for number in range(len(ids))] == ids

    def all_over() -> bool:
        return all(_is_over(_get(service, f"/documents/{one}")) for one in ids)

    wait_until(all_over, "the end of every document")
    documents = [_get(service, f"/documents/{one}") for one in ids]
    listed = _get(service, "/documents?limit=200")["documents"]

    assert unfinished, "the kills came when there was something to lose"
    assert len(set(ids)) == len(listed) == DOCUMENTS
    for number, document in enumerate(documents):
        assert (document["state"], document["error"]) == ("completed", None), document
        assert document["title"] == f"Log of the lighthouse {number}"
        assert document["attempt"] == 1
    found = _get(service, "/search?q=lighthouse&limit=100")["hits"]
    assert {hit["document"]["document_id"] for hit in found} == set(ids)
    # An answer that was paid for is found again, so only calls that were out when the service died are repeated.
    assert sim.stats()["total"]["calls"] <= DOCUMENTS + KILLS * 8


def test_document_is_named_by_another_worker_when_the_first_is_killed_in_the_middle(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    settings = ai_settings(sim) | {
        "DATA_DIR": str(tmp_path / "data"),
        "READER_PROCESSES": "1",
        "SHUTDOWN_TIMEOUT": "0",
        "REQUEST_TIMEOUT": scaled(3),
        "CLASSIFY_TIMEOUT": "10m",  # a busy machine takes its time to start the second worker
    }
    sim.play({"models": [{"model": "*", "latency": 2.0}]})
    service = Service(tmp_path, **settings, RUN_DISPATCHER="0").wait_ready()
    first = Program(tmp_path, "first", "worker", **settings)
    programs = [first, service]
    try:
        document_id = _put(service, 7)
        wait_until(lambda: sim.stats()["total"].get("in_flight", 0) > 0, "a question to the model")
        assert not _is_over(_get(service, f"/documents/{document_id}"))
        first.kill(first.family())
        sim.play({})
        programs.insert(0, Program(tmp_path, "second", "worker", "--queues", "classify", **settings))
        wait_until(lambda: _is_over(_get(service, f"/documents/{document_id}")), "its end")
        document = _get(service, f"/documents/{document_id}")
        job = _get(service, f"/jobs/{document['jobs']['classify']}")
    finally:
        for one in programs:
            one.make_sure_it_is_gone()

    assert (document["state"], document["title"]) == ("completed", "Log of the lighthouse 7")
    assert document["attempt"] == 1
    assert job["attempts"] >= 2
    assert sim.stats()["total"]["calls"] >= 2


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_links_are_one_document_and_mails_complete_when_the_service_is_killed_again_and_again(
    start: Callable[[], Service], sim: RunningSimulator
) -> None:
    chance = random.Random(7)
    sim.play({"models": [{"model": "*", "latency": {"uniform": [0.05, 0.3]}}]})
    letter = mail("The crew lists of both ships.", files={"a.csv": CREW, "b.csv": CREW + b"Dora,cook\n"})
    service = start()
    with _site({"/harbour.md": b"# Rules of the harbour\n\nNo ship may anchor in the channel.\n"}) as base:
        ids: list[str] = []
        letter_id = _post(service, letter.as_bytes(), "letter.eml", "letter")
        for _ in range(2):
            ids += [_follow(service, f"{base}/harbour.md?{n}") for n in range(3)]
            time.sleep(chance.uniform(0.0, 0.5))  # the moment of the kill is the point
            service.kill(service.family())
            service = start()
            assert _post(service, letter.as_bytes(), "letter.eml", "letter") == letter_id

        def all_over() -> bool:
            found = _get(service, "/documents?limit=200")["documents"]
            return len(found) == 4 and all(_is_over(one) for one in found)

        wait_until(all_over, "four documents at their end")
    found = _get(service, "/documents?limit=200")["documents"]
    kept = {_get(service, f"/documents/{one}")["document_id"] for one in ids}
    read = _get(service, f"/documents/{letter_id}")

    assert len(kept) == 1
    assert {one["document_id"] for one in read["attachments"]} | {letter_id} | kept == {
        one["document_id"] for one in found
    }
    assert all((one["state"], one["error"], one["attempt"]) == ("completed", None, 1) for one in found), found


def _is_over(document: dict[str, Any]) -> bool:
    """Read, and classified as well, which may come later."""
    return document["status"] != "pending" and (document["error"] or {}).get("code") != "classifying"


@contextmanager
def _site(pages: dict[str, bytes]) -> Iterator[str]:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages[self.path.partition("?")[0]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    running = threading.Thread(target=server.serve_forever)
    running.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        running.join()
        server.server_close()


def _follow(service: Service, url: str) -> str:
    body, headers = json.dumps({"source": url}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{service.url}/documents", body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return str(json.load(answer)["documents"][0]["document_id"])


def _put(service: Service, number: int) -> str:
    text = f"# Log of the lighthouse {number}\n\nThe lamp was lit on 2026-01-{number + 1:02d} and burned all night.\n"
    return _post(service, text.encode(), f"log{number}.md", f"document-{number}")


def _post(service: Service, data: bytes, filename: str, key: str) -> str:
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n\r\n'
    body = head.encode() + data + f"\r\n--{_BOUNDARY}--\r\n".encode()
    headers = {
        "Content-Type": f"multipart/form-data; boundary={_BOUNDARY}",
        "Idempotency-Key": key,
    }
    request = urllib.request.Request(f"{service.url}/documents", body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return str(json.load(answer)["documents"][0]["document_id"])


def _get(service: Service, path: str) -> Any:
    with urllib.request.urlopen(f"{service.url}{path}", timeout=DEADLINE_S) as answer:
        return json.load(answer)
