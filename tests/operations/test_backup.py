"""A backup under load: the copy serves what was completed, and everything else ends by itself."""

from __future__ import annotations

import subprocess
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from tests.support.environment import clean_environment
from tests.support.marked_documents import marked_pdf
from tests.support.programs import Service
from tests.support.quire_processes import run_quire
from tests.support.waiting import DEADLINE_S, wait_until

DOCUMENTS = 12


def command(*args: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return run_quire(*args, env=clean_environment(**settings))


def text_of(service: Service, job: str) -> bytes:
    with urllib.request.urlopen(f"{service.url}/jobs/{job}/result?format=md", timeout=DEADLINE_S) as answer:
        found: bytes = answer.read()
        return found


def test_copy_serves_the_same_results_and_the_rest_ends_when_taken_under_load(tmp_path: Path) -> None:
    first, second, copy = tmp_path / "first", tmp_path / "second", tmp_path / "copy"
    first.mkdir()
    second.mkdir()
    settings = {"READER_PROCESSES": "1"}
    with ExitStack() as stack:
        service = Service(first, DATA_DIR=str(tmp_path / "data"), **settings)
        stack.callback(service.make_sure_it_is_gone)
        service.wait_ready()
        jobs = [
            service.submit(marked_pdf(tmp_path / f"{n}.pdf", 30, n), f"key-{n}") for n in range(DOCUMENTS)
        ]
        wait_until(lambda: service.over(jobs[0]), "a document is read")
        before = [job for job in jobs if service.over(job)]
        done = command("backup", str(copy), DATA_DIR=str(tmp_path / "data"))
        assert done.returncode == 0, done.stderr
        assert "Serve it with" in done.stdout
        texts = {job: text_of(service, job) for job in before}
        service.make_sure_it_is_gone()

        restored = Service(second, DATA_DIR=str(copy), **settings)
        stack.callback(restored.make_sure_it_is_gone)
        restored.wait_ready()
        assert {job: text_of(restored, job) for job in before} == texts
        for job in jobs:
            wait_until(lambda job=job: restored.over(job), "every accepted document ends")
        states = {restored.get(f"/jobs/{job}")["status"] for job in jobs}
        assert states == {"completed"}


def test_backup_refuses_with_a_sentence_when_a_plane_is_elsewhere_or_the_folder_is_in_use(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    elsewhere = command(
        "backup", str(tmp_path / "copy"), DATA_DIR=str(data), REDIS_URL="redis://127.0.0.1:1/0"
    )
    assert elsewhere.returncode == 2
    assert "REDIS_URL is set" in elsewhere.stderr
    full = tmp_path / "full"
    full.mkdir()
    (full / "something").touch()
    assert "is not an empty folder" in command("backup", str(full), DATA_DIR=str(data)).stderr
    missing = command("backup", str(tmp_path / "copy"), DATA_DIR=str(tmp_path / "nothing"))
    assert "There is no data directory" in missing.stderr
