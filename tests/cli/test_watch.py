"""`quire watch` as a user runs it: a real process, a real folder, and kill -9 where it hurts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, make_pdf
from tests.support.environment import clean_environment
from tests.support.office_files import mail
from tests.support.waiting import DEADLINE_S, wait_until

QUICK = {"READER_PROCESSES": "1"}
LOOK = ("--every", "0.1")


@pytest.fixture
def inbox(cli: Cli) -> Path:
    folder = cli.folder / "in"
    folder.mkdir()
    return folder


def start(cli: Cli, *more: str) -> subprocess.Popen[bytes]:
    return cli.start("watch", "in", "--out", "out", *LOOK, *more, **QUICK)


def once(cli: Cli, *more: str) -> tuple[int, str]:
    done = cli.run("watch", "in", "--out", "out", "--once", *LOOK, *more, **QUICK)
    return done.code, done.err


def stop(process: subprocess.Popen[bytes]) -> str:
    """Asks politely, and gives what was said."""
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err.decode()
    return err.decode()


def files(folder: Path) -> list[str]:
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if not Path(name).name.startswith(".quire-watch"))


def journal(cli: Cli) -> list[tuple[str, str]]:
    """What was written down, in order: the name and what happened."""
    path = cli.folder / "out/.quire-watch.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(line["name"], line["state"]) for line in map(json.loads, lines)]


def test_sdks_are_loaded_before_the_first_document_when_a_provider_is_configured(
    cli: Cli, inbox: Path, tmp_path: Path
) -> None:
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "quire", "watch", "in", "--out", "out", "--debug", *LOOK],
            cwd=cli.folder,
            env=clean_environment(**QUICK, OPENAI_API_KEY="any"),
            stderr=said,
        )
    wait_until(lambda: "AI providers loaded" in (tmp_path / "said").read_text(), "the SDKs are loaded")
    process.terminate()
    assert process.wait(DEADLINE_S) == 0


def test_everything_comes_out_once_when_run_once_and_again(cli: Cli, inbox: Path) -> None:
    (inbox / "letters/2026").mkdir(parents=True)
    make_pdf(inbox / "letters/2026/a.pdf", "Dear reader")
    make_pdf(inbox / "report.pdf", "First", "Second")
    (inbox / "report.txt").write_text("The same stem")
    (inbox / "damaged.pdf").write_bytes(b"%PDF-1.7\nnothing of the kind")
    (inbox / ".hidden.pdf").write_bytes(b"x")
    (inbox / "half.pdf.part").write_bytes(b"x")
    code, said = once(cli)
    assert code == 1, said
    found = files(cli.folder / "out")
    # Of two with the same stem, whichever is done first has the plain name.
    second = "report.txt.md" if "report.txt.md" in found else "report.pdf.md"
    results = ["letters/2026/a.md", "report.md", second]
    assert found == sorted(["failed/damaged.pdf", "failed/damaged.pdf.error.txt", *results])
    texts = {(cli.folder / "out" / name).read_text() for name in results}
    assert texts == {"Dear reader\n", "First\n\n---\n\nSecond\n", "The same stem\n"}
    reason = (cli.folder / "out/failed/damaged.pdf.error.txt").read_text()
    assert reason.startswith("damaged.pdf: ")
    assert "damaged" in reason
    assert files(inbox) == [".hidden.pdf", "half.pdf.part", "letters/2026/a.pdf", "report.pdf", "report.txt"]
    before = journal(cli)
    code, said = once(cli)
    assert (code, said) == (0, ""), "nothing is left to do"
    assert journal(cli) == before
    assert cli.left_behind() == []


def test_a_new_version_takes_the_place_of_the_old_result_when_a_document_is_changed(
    cli: Cli, inbox: Path
) -> None:
    make_pdf(inbox / "a.pdf", "Version one")
    assert once(cli)[0] == 0
    make_pdf(inbox / "a.pdf", "Version two")
    make_pdf(inbox / "b.pdf", "Another")
    os.utime(inbox / "b.pdf", (1, 1))
    assert once(cli)[0] == 0
    assert (cli.folder / "out/a.md").read_text() == "Version two\n"
    os.utime(inbox / "b.pdf", (2, 2))
    assert once(cli) == (0, ""), "only its time was changed"
    assert files(cli.folder / "out") == ["a.md", "b.md"]


def test_a_failure_is_tried_again_when_it_is_put_back(cli: Cli, inbox: Path) -> None:
    (inbox / "a.pdf").write_bytes(b"%PDF-1.7\nnothing of the kind")
    failed = cli.folder / "aside"
    assert once(cli, "--failed", "aside")[0] == 1
    assert files(failed) == ["a.pdf", "a.pdf.error.txt"]
    (failed / "a.pdf").rename(inbox / "a.pdf")
    assert once(cli, "--failed", "aside")[0] == 1
    assert files(failed) == ["a-2.pdf", "a-2.pdf.error.txt", "a.pdf.error.txt"]
    assert [state for _, state in journal(cli)] == ["failing", "failed"] * 2


def test_a_file_is_taken_only_when_its_writer_is_done(cli: Cli, inbox: Path) -> None:
    whole = make_pdf(cli.folder / "whole.pdf", "All of it").read_bytes()
    process = start(cli)
    with (inbox / "slow.pdf").open("wb") as writer:
        writer.write(whole[:200])
        writer.flush()
        make_pdf(inbox / "quick.pdf", "Quick")
        wait_until((cli.folder / "out/quick.md").exists, "the finished file is converted")
        assert ("slow.pdf", "writing") not in journal(cli)
        writer.write(whole[200:])
    wait_until(lambda: ("slow.pdf", "done") in journal(cli), "the other one is converted when it is finished")
    said = stop(process)
    assert (cli.folder / "out/slow.md").read_text() == "All of it\n"
    assert journal(cli).count(("slow.pdf", "writing")) == 1
    assert files(cli.folder / "out") == ["quick.md", "slow.md"]
    assert "slow.pdf: 1 page" in said


def test_every_document_comes_out_once_when_the_watch_is_killed_again_and_again(
    cli: Cli, inbox: Path
) -> None:
    names = [f"d{number:02}" for number in range(12)]
    for name in names:
        make_pdf(inbox / f"{name}.pdf", *[f"{name} page {page}" for page in range(1, 6)])
    (inbox / "bad.pdf").write_bytes(b"%PDF-1.7\nnothing of the kind")
    for done in (1, 8):
        process = start(cli)
        wait_until(lambda done=done: len(journal(cli)) >= done, "some work is done")  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=DEADLINE_S)
    code, said = once(cli)
    assert code in (0, 1), said
    for name in names:
        text = (cli.folder / "out" / f"{name}.md").read_text()
        assert re.findall(r"page \d", text) == [f"page {page}" for page in range(1, 6)]
    expected = [f"{name}.md" for name in names]
    assert files(cli.folder / "out") == sorted(["failed/bad.pdf", "failed/bad.pdf.error.txt", *expected])
    done_lines = [name for name, state in journal(cli) if state == "done"]
    assert sorted(done_lines) == [f"{name}.pdf" for name in names]
    assert once(cli) == (0, "")


def test_attachments_are_there_when_the_watch_is_killed_as_soon_as_their_mail_is(
    cli: Cli, inbox: Path
) -> None:
    attached = make_pdf(cli.folder / "long.pdf", *[f"Page number {page}" for page in range(1, 401)])
    letter = mail("Words.", files={"long.pdf": attached.read_bytes()})
    (inbox / "letter.eml").write_bytes(letter.as_bytes())
    process = start(cli)
    wait_until((cli.folder / "out/letter.md").exists, "the mail is converted")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=DEADLINE_S)
    assert once(cli)[0] == 0
    assert files(cli.folder / "out") == ["letter.attachments/long.pdf.md", "letter.md"]
    text = (cli.folder / "out/letter.attachments/long.pdf.md").read_text()
    assert text.count("Page number") == 400


def test_a_long_document_goes_on_when_the_watch_was_stopped_in_it(cli: Cli, inbox: Path) -> None:
    make_pdf(inbox / "long.pdf", *[f"Page number {page}" for page in range(1, 301)])
    environment = {**QUICK, "SHUTDOWN_TIMEOUT": "0s", "READER_CHUNK_PAGES": "4"}
    process = cli.start("watch", "in", "--out", "out", *LOOK, **environment)
    data = cli.folder / "quire-data"
    wait_until(lambda: any(data.glob("watch-*/objects/jobs/*/e1/*")), "some of its pages are read")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    assert once(cli)[0] == 0
    text = (cli.folder / "out/long.md").read_text()
    assert re.findall(r"Page number (\d+)", text) == [str(page) for page in range(1, 301)]
    jobs = list(data.glob("watch-*/objects/jobs/*"))
    assert len(jobs) == 1, "the job that was begun is the one that was finished"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("in", "--out", "in"), "must not be --out"),
        (("in", "--out", "."), "must not be --out"),
        (("none", "--out", "out"), "is not a folder"),
        (("in", "--out", "file"), "is a file"),
        (("in", "--out", "out", "--mode", "ai"), "AI provider"),
        (("in", "--out", "out", "--every", "0"), "seconds"),
    ],
)
def test_usage_error_when_the_folders_make_no_sense(
    cli: Cli, inbox: Path, arguments: tuple[str, ...], said: str
) -> None:
    (cli.folder / "file").write_text("x")
    done = cli.run("watch", "--once", *arguments, **QUICK)
    assert done.code == 2
    assert said in done.err


def test_a_second_watch_is_refused_when_one_writes_to_the_same_folder(cli: Cli, inbox: Path) -> None:
    make_pdf(inbox / "a.pdf", "Words")
    process = start(cli)
    wait_until((cli.folder / "out/a.md").exists, "the first one works")
    code, said = once(cli, "--data-dir", "other")
    assert code == 2
    assert "Another `quire watch`" in said
    stop(process)
