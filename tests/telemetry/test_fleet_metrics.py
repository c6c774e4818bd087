"""Metrics of a fleet: every process has them, and their sums are what really happened."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from quire.simulator.simulator_thread import RunningSimulator, simulator
from tests.support.coordination_servers import free_port, plain_server
from tests.support.marked_documents import marked_pdf
from tests.support.programs import Program, Service
from tests.support.waiting import DEADLINE_S, wait_until

DOCUMENTS, PAGES = 4, 5
_SAMPLE = re.compile(r"^(\w+)(\{[^}]*\})? (\S+)$", re.M)


def scraped(address: str, key: str = "") -> dict[str, float]:
    """Every sample by its name and labels."""
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {key}"} if key else {})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        text = answer.read().decode()
    return {name + labels: float(value) for name, labels, value in _SAMPLE.findall(text)}


def total(samples: Counter[str], name: str, having: str = "") -> float:
    return sum(value for key, value in samples.items() if key.partition("{")[0] == name and having in key)


@pytest.fixture
def sim() -> Iterator[RunningSimulator]:
    with simulator({}) as one:
        yield one


def settings_of(tmp_path: Path, sim: RunningSimulator, redis_url: str) -> dict[str, str]:
    return {
        "REDIS_URL": redis_url,
        "DATA_DIR": str(tmp_path / "data"),
        "OBJECT_STORE": str(tmp_path / "objects"),
        "SECRET_KEY": "0123456789abcdef0123456789abcdef",
        "OPENAI_BASE_URL": sim.openai_url,
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_PRIMARY_MODEL": "a1",
        "OPENAI_SECONDARY_MODEL": "a2",
        "READER_PROCESSES": "1",
        "RUN_DISPATCHER": "0",
        "IMAGE_SEND_ALL_PAGES": "true",
    }


def test_sums_over_the_fleet_equal_the_log_of_the_provider_when_two_workers_have_worked(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "a1", "first": 2, "last": 3}]})
    with plain_server() as (redis_url, _), ExitStack() as stack:
        settings = settings_of(tmp_path, sim, redis_url)
        service = Service(tmp_path, **settings)
        stack.callback(service.make_sure_it_is_gone)
        service.wait_ready()
        ports = [free_port(), free_port()]
        for number, port in enumerate(ports):
            worker = Program(tmp_path, f"worker-{number}", "worker", **settings, METRICS_PORT=str(port))
            stack.callback(worker.make_sure_it_is_gone)
        addresses = [f"{service.url}/metrics", *(f"http://127.0.0.1:{port}/metrics" for port in ports)]

        def fleet() -> list[dict[str, float]]:
            return [scraped(address) for address in addresses]

        def complete() -> bool:
            try:
                return scraped(addresses[0])["quire_workers_alive"] == 2 and len(fleet()) == 3
            except (urllib.error.URLError, ConnectionError):
                return False

        wait_until(complete, "both workers are there")
        jobs = [
            service.submit(marked_pdf(tmp_path / f"{number}.pdf", PAGES, number), f"key-{number}")
            for number in range(DOCUMENTS)
        ]
        for job in jobs:
            wait_until(lambda job=job: service.over(job), "the document is read")
        waiting = 'quire_queue_entries{queue="page",state="waiting"}'
        wait_until(
            lambda: fleet()[0]["quire_documents_active"] == 0 and all(one[waiting] == 0 for one in fleet()),
            "nothing is left to do",
        )
        found = fleet()
        added: Counter[str] = Counter()
        for samples in found:
            added.update(samples)
        seen = sim.stats()
        assert total(added, "ai_calls_total") == seen["total"]["calls"] >= DOCUMENTS * PAGES
        for model, figures in seen["models"].items():
            assert total(added, "ai_calls_total", f'model="{model}"') == figures["calls"]
        tokens = sum(one["tokens_in"] for one in seen["models"].values())
        assert total(added, "ai_tokens_total", 'direction="in"') == tokens
        failed = seen["models"]["a1"]["outcomes"][
            "server_error"
        ]  # the second waits for the breaker: it may not come
        assert total(added, "ai_calls_total", 'outcome="server"') == failed >= 1
        assert total(added, "ai_failovers_total") >= 1
        assert total(added, "quire_jobs_accepted_total") == DOCUMENTS
        assert total(added, "quire_jobs_ended_total", 'status="completed"') == DOCUMENTS
        assert total(added, "quire_document_duration_seconds_count") == DOCUMENTS
        assert total(added, "quire_pages_total") == DOCUMENTS * PAGES
        assert total(added, "quire_reader_children_started_total") >= 2
        # The state of the fleet is the same in each process.
        for samples in found:
            assert samples["quire_workers_alive"] == 2
            assert samples[waiting] == 0
            assert samples['quire_plane_up{plane="coordination"}'] == 1
            assert samples["quire_redis_memory_bytes"] > 0


def test_metrics_go_on_and_say_so_when_the_coordination_server_is_away(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(ExitStack())
        redis_url, _ = server.enter_context(plain_server())
        port = str(free_port())
        worker = Program(
            tmp_path, "worker", "worker", **settings_of(tmp_path, sim, redis_url), METRICS_PORT=port
        )
        stack.callback(worker.make_sure_it_is_gone)
        address, up = f"http://127.0.0.1:{port}/metrics", 'quire_plane_up{plane="coordination"}'

        def is_up(expected: int) -> bool:
            try:
                return scraped(address)[up] == expected
            except (urllib.error.URLError, ConnectionError):
                return False

        wait_until(lambda: is_up(1), "the worker serves its metrics")
        server.close()
        wait_until(lambda: is_up(0), "the metrics say that the server is away")


def test_port_asks_for_a_key_and_serves_nothing_else_when_keys_are_set(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with plain_server() as (redis_url, _), ExitStack() as stack:
        settings = settings_of(tmp_path, sim, redis_url)
        worker = Program(
            tmp_path, "worker", "worker", **settings, METRICS_PORT=str(port), API_KEYS="red:0123456789abcdef"
        )
        stack.callback(worker.make_sure_it_is_gone)

        def status(path: str, key: str = "") -> int:
            try:
                scraped(f"{address}{path}", key)
            except urllib.error.HTTPError as error:
                return error.code
            except (urllib.error.URLError, ConnectionError):
                return 0
            return 200

        wait_until(lambda: status("/health/live") == 200, "the port is open")
        assert status("/metrics") == 401
        assert status("/metrics", "another-key-of-16") == 401
        assert status("/metrics", "0123456789abcdef") == 200
        assert status("/jobs", "0123456789abcdef") == 404


def test_worker_stops_with_a_sentence_when_its_metrics_would_be_open_to_others(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    with plain_server() as (redis_url, _):
        settings = settings_of(tmp_path, sim, redis_url)
        worker = Program(
            tmp_path, "worker", "worker", **settings, METRICS_PORT=str(free_port()), METRICS_HOST="0.0.0.0"
        )
        assert worker.process.wait(DEADLINE_S) != 0
    assert "METRICS_HOST is 0.0.0.0, which others can reach" in worker.log_path.read_text()
