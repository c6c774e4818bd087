"""Log lines to Axiom, against a local server that speaks its ingest protocol."""

from __future__ import annotations

import gzip
import io
import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from quire.errors import SettingsError
from quire.settings import LoggingSettings
from quire.telemetry import axiom_sink
from quire.telemetry.axiom_sink import AxiomHandler
from quire.telemetry.logs import configure
from tests.support.waiting import wait_until

log = logging.getLogger("quire.test")


class Axiom(ThreadingHTTPServer):
    """Keeps what is ingested; `status` other than 200 refuses it, `held` keeps every call waiting."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Ingest)
        self.status = 200
        self.open = threading.Event()
        self.open.set()
        self.calls: list[tuple[str, dict[str, str], list[dict[str, Any]]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for _, _, events in self.calls for event in events]


class _Ingest(BaseHTTPRequestHandler):
    server: Axiom

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.open.wait()
        if self.server.status == 200:
            events = [json.loads(line) for line in gzip.decompress(body).splitlines()]
            self.server.calls.append((self.path, dict(self.headers), events))
            answer = {"ingested": len(events), "failed": 0, "failures": [], "processedBytes": len(body)}
            answer |= {"blocksCreated": 0, "walLength": 0}
        else:
            answer = {"message": "not now"}
        found = json.dumps(answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def axiom() -> Iterator[Axiom]:
    server = Axiom()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.open.set()
    server.shutdown()


def settings(axiom: Axiom, level: str = "debug") -> LoggingSettings:
    return LoggingSettings(
        level=level,
        pretty="false",
        send_to_axiom=True,
        axiom_api_key="xaat-key",
        axiom_org_id="org",
        axiom_url=axiom.url,
    )


def test_lines_from_info_up_arrive_as_events_when_sending_is_on(axiom: Axiom) -> None:
    take_down = configure(settings(axiom), io.StringIO())
    log.debug("never sent")
    log.info("page done", extra={"job_id": "j1", "page": 3, "password": "hunter2"})
    log.warning("deadline reached")
    take_down()
    path, headers, _ = axiom.calls[0]
    assert path.partition("?")[0] == "/v1/datasets/dev_aidispatcher/ingest"
    assert headers["Authorization"] == "Bearer xaat-key"
    ours = [event for event in axiom.events if event["logger"] == "quire.test"]
    assert [event["event"] for event in ours] == ["page done", "deadline reached"]
    assert ours[0]["job_id"] == "j1"
    assert ours[0]["_time"].endswith("Z")
    assert "hunter2" not in json.dumps(axiom.events)


def test_lines_arrive_later_when_axiom_was_away(axiom: Axiom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axiom_sink, "_INTERVAL_S", 0.02)
    monkeypatch.setattr(axiom_sink, "_LONGEST_PAUSE_S", 0.05)
    axiom.status = 503
    take_down = configure(settings(axiom), io.StringIO())
    for number in range(20):
        log.info("Line %d", number)
    axiom.status = 200
    wait_until(lambda: len(axiom.events) >= 20, "the lines arrive")
    take_down()
    ours = [event["event"] for event in axiom.events if event["logger"] == "quire.test"]
    assert ours == [f"Line {number}" for number in range(20)]


def test_memory_is_bounded_and_the_loss_counted_when_axiom_hangs(
    axiom: Axiom, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(axiom_sink, "MOST_WAITING", 100)
    monkeypatch.setattr(axiom_sink, "_CLOSE_S", 0.1)
    axiom.open.clear()
    handler = AxiomHandler(settings(axiom))
    handler.setFormatter(logging.Formatter('{"event": "%(message)s", "logger": "x"}'))
    for number in range(1_000):
        handler.emit(log.makeRecord("x", logging.INFO, "", 0, str(number), (), None))
    assert len(handler._waiting) <= 100
    handler.close()
    assert (handler.sent, handler.lost) == (0, 1_000)
    assert "could not be sent to Axiom" in capsys.readouterr().err


def test_start_stops_with_a_sentence_when_the_key_is_missing() -> None:
    with pytest.raises(SettingsError, match="AXIOM_API_KEY is not set"):
        configure(LoggingSettings(send_to_axiom=True), io.StringIO())
