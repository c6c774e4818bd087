"""Which files of a watched folder are finished."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import pytest

from quire.cli.watch_inbox import Inbox, InboxFile, digest_of, is_being_written, look_at, result_names


def names(found: list[InboxFile]) -> list[str]:
    return [one.name for one in found]


def put(path: Path, data: bytes = b"content") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_file_is_finished_when_two_looks_see_the_same(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    path = put(tmp_path / "a.pdf")
    put(tmp_path / "sub/deep/b.pdf")
    assert names(inbox.look()[0]) == []
    assert names(inbox.look()[0]) == ["a.pdf", "sub/deep/b.pdf"]
    path.write_bytes(b"other content")
    finished, unfinished = inbox.look()
    assert names(finished) == ["sub/deep/b.pdf"]
    assert names(unfinished) == ["a.pdf"]
    assert names(inbox.look()[0]) == ["a.pdf", "sub/deep/b.pdf"]


def test_a_file_is_not_finished_when_its_time_changes_and_its_size_does_not(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    path = put(tmp_path / "a.pdf", b"aaaa")
    inbox.look()
    before = path.stat().st_mtime_ns
    path.write_bytes(b"bbbb")
    os.utime(path, ns=(before + 1, before + 1))
    assert names(inbox.look()[0]) == []


def test_a_file_is_not_finished_when_another_took_its_place(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    path = put(tmp_path / "a.pdf", b"aaaa")
    inbox.look()
    seen = path.stat()
    other = put(tmp_path / ".other", b"bbbb")
    os.utime(other, ns=(seen.st_mtime_ns, seen.st_mtime_ns))
    other.replace(path)
    assert names(inbox.look()[0]) == []


def test_a_file_is_not_finished_when_somebody_has_it_open_for_writing(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    path = put(tmp_path / "a.pdf")
    with path.open("ab") as writer:
        inbox.look()
        assert is_being_written(path)
        assert names(inbox.look()[0]) == []
        writer.write(b"more")
    inbox.look()
    with path.open("rb"):
        assert not is_being_written(path), "a reader is no writer"
        assert names(inbox.look()[0]) == ["a.pdf"]


@pytest.mark.parametrize(
    "name",
    [
        *(".hidden.pdf", ".git/a.pdf", "a.pdf.part", "a.pdf.crdownload", "A.PDF.TMP", "a.partial"),
        *("a.download", "~$report.docx", "report.docx~", ".~lock.a.odt#", "a.pdf.filepart", "#a.txt#"),
    ],
)
def test_a_file_is_left_alone_when_its_name_says_that_it_is_no_document(tmp_path: Path, name: str) -> None:
    inbox = Inbox(tmp_path)
    put(tmp_path / name)
    assert inbox.look() == ([], [])
    assert inbox.look() == ([], [])


def test_what_is_no_plain_file_is_left_alone_when_it_lies_there(tmp_path: Path) -> None:
    secret = put(tmp_path / "elsewhere/secret.pdf")
    folder = tmp_path / "inbox"
    folder.mkdir()
    (folder / "link.pdf").symlink_to(secret)
    (folder / "folder").symlink_to(secret.parent)
    os.mkfifo(folder / "pipe.pdf")
    (folder / os.fsdecode(b"not-\xff-text.pdf")).write_bytes(b"x")
    inbox = Inbox(folder)
    inbox.look()
    assert inbox.look() == ([], [])
    with pytest.raises(OSError, match="symbolic link"):
        digest_of(folder / "link.pdf")
    assert look_at(folder / "link.pdf") is None


def test_folders_are_left_out_when_asked(tmp_path: Path) -> None:
    put(tmp_path / "out/a.md")
    put(tmp_path / "outer/a.md")
    inbox = Inbox(tmp_path, leave_out=[tmp_path / "x/../out"])
    inbox.look()
    assert names(inbox.look()[0]) == ["outer/a.md"]


def test_the_folder_is_asked_for_again_when_it_is_gone(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        inbox.look()


def test_only_what_is_wanted_is_looked_at_when_much_is_done_already(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    put(tmp_path / "a.pdf")
    put(tmp_path / "b.pdf")
    inbox.look()
    finished, unfinished = inbox.look(lambda found: found.name == "b.pdf")
    assert (names(finished), unfinished) == (["b.pdf"], [])


def test_names_of_results_fit_when_those_of_documents_hardly_do() -> None:
    long = "ü" * 126 + ".c"
    for name in islice(result_names(f"a/{long}", ".json"), 3):
        assert len(Path(name).name.encode()) <= 255
        assert name.endswith(".json")


def test_names_of_results_differ_when_the_best_one_is_taken() -> None:
    assert list(islice(result_names("a/report.pdf", ".md"), 4)) == [
        "a/report.md",
        "a/report.pdf.md",
        "a/report.pdf-2.md",
        "a/report.pdf-3.md",
    ]
