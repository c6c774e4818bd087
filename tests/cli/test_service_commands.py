"""Commands against a real `quire serve`."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pymupdf
import pytest

from tests.cli.conftest import Cli, Done, make_pdf
from tests.support.waiting import DEADLINE_S, wait_until

KEY = "a-key-of-the-tests"


class Service:
    """A running service, and the commands that talk to it."""

    def __init__(self, cli: Cli, **env: str) -> None:
        self.cli = cli
        self.process = cli.start(
            "serve", "--port", "0", "--data-dir", "data", API_KEYS=f"default:{KEY}", LOG_LEVEL="error", **env
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().split()[-1]
        assert self.url.startswith("http://127.0.0.1:"), self.process.communicate(timeout=DEADLINE_S)

    def run(self, *args: str, key: str = KEY) -> Done:
        return self.cli.run(*args, QUIRE_URL=self.url, QUIRE_API_KEY=key)

    def submit(self, source: Path | str) -> str:
        """Has a file or a link taken in by the API and answers the job's id."""
        link = source if isinstance(source, str) else source.absolute().as_uri()
        body = json.dumps({"source": link}).encode()
        request = urllib.request.Request(
            f"{self.url}/convert",
            body,
            {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"},
        )
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            found: str = json.loads(answer.read())["job_id"]
        return found


@pytest.fixture
def service(cli: Cli) -> Service:
    return Service(cli, FILES_BASE=str(cli.folder))


def test_job_can_be_followed_and_shown_when_a_service_runs(service: Service) -> None:
    make_pdf(service.cli.folder / "report.pdf", "The first page", "The second page")
    job_id = service.submit(service.cli.folder / "report.pdf")
    watched = service.run("jobs", "watch", job_id)
    assert watched.code == 0
    assert watched.err.endswith("completed, 2/2 pages\n")

    listed = service.run("jobs", "list")
    assert listed.code == 0
    header, row = listed.out.splitlines()
    assert header.split()[:4] == ["ID", "STATUS", "DONE", "PAGES"]
    assert row.split()[:4] == [job_id, "completed", "100%", "2/2"]
    assert service.run("jobs", "list", "--status", "failed").out.splitlines()[1:] == []
    [only] = json.loads(service.run("jobs", "list", "--json").out)
    assert only["job_id"] == job_id

    shown = service.run("jobs", "show", job_id)
    assert job_id in shown.out
    assert "local mupdf" in shown.out
    assert [
        page["page_number"] for page in json.loads(service.run("jobs", "show", job_id, "--json").out)["pages"]
    ]
    assert json.loads(service.run("jobs", "show", f"{job_id}-p2", "--json").out)["type"] == "page"

    result = service.run("jobs", "result", job_id)
    assert result.out == "The first page\n\n---\n\nThe second page\n"
    assert service.run("jobs", "result", f"{job_id}-p2").out == "The second page\n"
    assert json.loads(service.run("jobs", "result", job_id, "--json").out)["result"]["metadata"]["pages"] == 2
    assert service.run("jobs", "result", job_id, "-o", "out.md").out == ""
    assert (service.cli.folder / "out.md").read_text().startswith("The first page")
    deleted = service.run("jobs", "delete", job_id)
    assert (deleted.code, deleted.out) == (0, f"Job {job_id} is deleted.\n")
    again = service.run("jobs", "delete", job_id)
    assert (again.code, again.err) == (1, f"quire: There is no job '{job_id}'.\n")


def test_watch_fails_when_the_job_failed(service: Service) -> None:
    (service.cli.folder / "odd.pdf").write_bytes(b"%PDF-1.7\nthis is not one really")
    job_id = service.submit(service.cli.folder / "odd.pdf")
    watched = service.run("jobs", "watch", job_id, "--json")
    assert watched.code == 1
    last = json.loads(watched.out.splitlines()[-1])
    assert last["data"]["status"] == "failed"
    result = service.run("jobs", "result", job_id)
    assert result.code == 1
    assert result.err.startswith(f"quire: Job {job_id} failed: The PDF ")
    retried = service.run("jobs", "retry", job_id)
    assert retried.code == 0
    assert "queued" in retried.out


def test_sentences_when_the_service_refuses(service: Service) -> None:
    missing = service.run("jobs", "show", "no-such-job")
    assert (missing.code, missing.err) == (1, "quire: There is no job 'no-such-job'.\n")
    stranger = service.run("jobs", "list", key="wrong-key")
    assert stranger.code == 1
    assert stranger.err == "quire: The API key is not known. Set QUIRE_API_KEY.\n"
    assert service.run("dlq", "replay", "split/1-0").code == 1
    assert service.run("dlq", "replay").code == 2
    assert service.run("dlq", "list").out == "ID  JOB  GIVEN UP (UTC)  REASON\n"


def test_dead_letter_can_be_replayed_when_a_link_was_down(cli: Cli) -> None:
    """The link leads to a port where nobody listens, so the download is given up and put aside."""
    service = Service(cli, ALLOW_PRIVATE_URLS="true", JOB_MAX_ATTEMPTS="1")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        job_id = service.submit(f"http://127.0.0.1:{deaf.getsockname()[1]}/report.pdf")
        _see_letters(service, job_id)


def _see_letters(service: Service, job_id: str) -> None:
    assert service.run("jobs", "watch", job_id).code == 1
    [letter] = json.loads(service.run("dlq", "list", "--json").out)
    assert letter["main_job_id"] == job_id
    name = f"{letter['queue']}/{letter['entry_id']}"
    assert service.run("dlq", "list").out.splitlines()[1].startswith(name)
    replayed = service.run("dlq", "replay", name)
    assert (replayed.code, replayed.out) == (0, f"{name}: tried again, job {job_id}-download\n")
    assert service.run("jobs", "watch", job_id).code == 1
    assert service.run("dlq", "replay", "--all").code == 0


def test_worker_does_the_work_when_the_service_has_none_of_its_own(cli: Cli) -> None:
    service = Service(cli, RUN_DISPATCHER="false", FILES_BASE=str(cli.folder))
    make_pdf(cli.folder / "report.pdf", "Read by a worker")
    job_id = service.submit(cli.folder / "report.pdf")
    worker = cli.start("worker", "--data-dir", "data", "--concurrency", "2", LOG_LEVEL="error")
    assert service.run("jobs", "watch", job_id).code == 0
    assert service.run("jobs", "result", job_id).out == "Read by a worker\n"
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=DEADLINE_S)
    assert (worker.returncode, err) == (0, b"")


def test_job_stops_when_cancelled(cli: Cli) -> None:
    service = Service(cli, RUN_DISPATCHER="false", FILES_BASE=str(cli.folder))
    make_pdf(cli.folder / "report.pdf", "Never read")
    job_id = service.submit(cli.folder / "report.pdf")
    assert service.run("jobs", "result", job_id).err.startswith(f"quire: Job {job_id} is queued")
    assert "cancelled" in service.run("jobs", "cancel", job_id).out
    assert service.run("jobs", "watch", job_id).code == 1


def test_convert_works_beside_a_service_when_both_have_the_same_data_directory_set(service: Service) -> None:
    make_pdf(service.cli.folder / "a.pdf", "Side by side")
    done = service.cli.run("convert", "a.pdf", DATA_DIR="data")
    assert (done.code, done.out) == (0, "Side by side\n")


def test_doctor_sees_the_service_when_one_runs(service: Service) -> None:
    done = service.cli.run("doctor", "--data-dir", "data")
    assert done.code == 0, done.out
    assert "a service is running on this data directory" in done.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_service_ends_well_when_told_to(service: Service, number: signal.Signals) -> None:
    service.process.send_signal(number)
    assert service.process.wait(DEADLINE_S) == 0


def test_second_service_is_refused_when_the_data_directory_is_taken(service: Service) -> None:
    done = service.cli.run("serve", "--port", "0", "--data-dir", "data")
    assert done.code == 1
    assert "is in use by quire serve" in done.err
    assert "Traceback" not in done.err


def test_pages_that_failed_are_said_when_a_job_is_watched(cli: Cli) -> None:
    service = Service(cli, FILES_BASE=str(cli.folder), OCR_ENABLED="false")
    document = pymupdf.open()
    document.new_page().insert_text((72, 72), "Words that can be read without any effort")
    scan = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 300, 400))
    scan.clear_with(120)
    page = document.new_page()
    page.insert_image(page.rect, pixmap=scan)
    document.save(cli.folder / "mixed.pdf")
    job_id = service.submit(cli.folder / "mixed.pdf")
    assert service.run("jobs", "watch", job_id).code == 3


def test_stopped_service_is_named_when_nobody_answers(cli: Cli) -> None:
    done = cli.run("jobs", "list", "--url", "http://127.0.0.1:9")
    assert done.code == 1
    assert done.err == (
        "quire: No service answers at http://127.0.0.1:9. Start `quire serve`, or set QUIRE_URL.\n"
    )


def test_worker_says_what_to_do_when_no_service_runs(cli: Cli) -> None:
    done = cli.run("worker", "--data-dir", "nothing-here")
    assert done.code == 1
    assert "Start `quire serve` first" in done.err
    assert "Traceback" not in done.err
    assert not (cli.folder / "nothing-here").exists()


def test_worker_lists_the_queues_when_one_is_not_known(cli: Cli) -> None:
    done = cli.run("worker", "--queues", "split,pgae")
    assert done.code == 2
    assert done.err.startswith("quire: There is no queue 'pgae'. Known are: download, split, read, ")


def test_serve_is_refused_when_others_could_reach_it_without_keys(cli: Cli) -> None:
    done = cli.run("serve", "--host", "0.0.0.0")
    assert done.code == 2
    assert "set API_KEYS and WEB_PASSWORD first" in done.err


def test_watch_sees_the_job_through_when_it_begins_before_the_work(cli: Cli) -> None:
    service = Service(cli, RUN_DISPATCHER="false", FILES_BASE=str(cli.folder))
    make_pdf(cli.folder / "report.pdf", "One", "Two")
    job_id = service.submit(cli.folder / "report.pdf")
    watching = cli.start("jobs", "watch", job_id, "--json", QUIRE_URL=service.url, QUIRE_API_KEY=KEY)
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    assert (first["event"], first["data"]["status"]) == ("snapshot", "queued")
    cli.start("worker", "--data-dir", "data", LOG_LEVEL="error")
    _wait_for(watching)
    assert watching.returncode == 0


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: process.poll() is not None, "the process ends")
