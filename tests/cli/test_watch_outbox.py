"""What the journal makes of a process that died at any step."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quire.cli.exit_codes import CommandUsageError
from quire.cli.watch_inbox import InboxFile, Look, look_at
from quire.cli.watch_journal import NAME, Journal, JournalEntry
from quire.cli.watch_outbox import Outbox

SHA = hashlib.sha256(b"document").hexdigest()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    inbox, out, failed = tmp_path / "in", tmp_path / "out", tmp_path / "failed"
    for folder in (inbox, out, failed):
        folder.mkdir()
    return inbox, out, failed


@pytest.fixture
def journal(folders: tuple[Path, Path, Path]) -> Iterator[Journal]:
    found = Journal(folders[1])
    yield found
    found.close()


def dropped(inbox: Path, name: str = "sub/a.pdf") -> InboxFile:
    path = inbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"document")
    look = look_at(path)
    assert look is not None
    return InboxFile(name, path, look)


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


def reopened(journal: Journal, folders: tuple[Path, Path, Path]) -> tuple[Journal, Outbox]:
    """The journal and the outbox of the next process."""
    journal.close()
    fresh = Journal(folders[1])
    outbox = Outbox(folders[1], folders[2], fresh, ".md")
    outbox.recover(folders[0])
    return fresh, outbox


async def test_result_counts_as_done_when_the_process_died_after_it_appeared(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    inbox, out, failed = folders
    found = dropped(inbox)
    outbox = Outbox(out, failed, journal, ".md")
    target = outbox.target_of(found.name)
    assert target == out / "sub/a.md"
    assert await outbox.publish(found, SHA, 1, target, pieces(b"# A", b"\n"))
    assert target.read_bytes() == b"# A\n"
    done = journal.of(found.name)
    assert done is not None
    journal.add(replace(done, state="writing"))
    fresh, _ = reopened(journal, folders)
    known = fresh.of(found.name)
    assert known is not None
    assert (known.state, known.target, known.look) == ("done", "sub/a.md", found.look)


async def test_result_does_not_count_when_the_process_died_before_it_appeared(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    inbox, out, _ = folders
    found = dropped(inbox)
    (out / ".quire-watch-0123.part").write_bytes(b"# half")
    journal.add(JournalEntry("writing", found.name, SHA, "a.md", found.look, result_sha256="0" * 64))
    fresh, outbox = reopened(journal, folders)
    known = fresh.of(found.name)
    assert known is not None
    assert known.state == "writing"
    assert [path.name for path in out.iterdir()] == [NAME], "the half-written file is gone"
    assert outbox.target_of(found.name) == out / "a.md", "the same name as announced"


async def test_nothing_is_written_when_the_document_was_changed_meanwhile(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    inbox, out, failed = folders
    found = dropped(inbox)
    outbox = Outbox(out, failed, journal, ".md")
    found.path.write_bytes(b"document, second version")
    assert await outbox.publish(found, SHA, 1, out / "a.md", pieces(b"# A")) is False
    assert outbox.put_aside(found, SHA, 1, "damaged") is None
    assert [path.name for path in out.iterdir()] == [NAME]
    assert list(failed.iterdir()) == []
    assert journal.of(found.name) is None


def test_failure_is_moved_with_its_reason_when_it_is_put_aside(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    inbox, out, failed = folders
    outbox = Outbox(out, failed, journal, ".md")
    for number, expected in ((1, "a.pdf"), (2, "a-2.pdf")):
        found = dropped(inbox)
        moved = outbox.put_aside(found, SHA, number, "It is damaged.")
        assert moved == failed / "sub" / expected
        assert moved.read_bytes() == b"document"
        assert moved.with_name(f"{expected}.error.txt").read_text() == "sub/a.pdf: It is damaged.\n"
        assert not found.path.exists()
        known = journal.of(found.name)
        assert known is not None
        assert (known.state, known.attempt) == ("failed", number)


def test_failure_is_moved_when_its_name_is_as_long_as_names_can_be(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    inbox, out, failed = folders
    name = "a" * 251 + ".pdf"
    for _ in range(2):
        assert Outbox(out, failed, journal, ".md").put_aside(dropped(inbox, name), SHA, 1, "damaged")
    assert len(list(failed.glob("*.error.txt"))) == 2
    assert len(list(failed.glob("*.pdf"))) == 2


@pytest.mark.parametrize("copied", [False, True], ids=["before the move", "after the copy"])
def test_failure_is_moved_once_when_the_process_died_on_the_way(
    folders: tuple[Path, Path, Path], journal: Journal, copied: bool
) -> None:
    inbox, _, failed = folders
    found = dropped(inbox, "a.pdf")
    journal.add(JournalEntry("failing", found.name, SHA, "a.pdf", found.look))
    (failed / "a.pdf.error.txt").write_text("a.pdf: damaged\n")
    if copied:
        (failed / "a.pdf").write_bytes(b"document")
    fresh, outbox = reopened(journal, folders)
    known = fresh.of(found.name)
    assert known is not None
    if copied:
        assert known.state == "failed"
    else:
        assert known.state == "failing"
        assert outbox.put_aside(found, SHA, 1, "damaged") == failed / "a.pdf"
    assert not found.path.exists()
    assert sorted(path.name for path in failed.iterdir()) == ["a.pdf", "a.pdf.error.txt"]


def test_a_new_document_stays_when_it_has_the_name_of_one_that_was_moved(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    inbox, _, failed = folders
    found = dropped(inbox, "a.pdf")
    journal.add(JournalEntry("failing", found.name, SHA, "a.pdf", found.look))
    (failed / "a.pdf").write_bytes(b"document")
    found.path.write_bytes(b"another document")
    reopened(journal, folders)
    assert found.path.read_bytes() == b"another document"


def test_results_are_named_apart_when_documents_share_a_stem(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    _, out, failed = folders
    outbox = Outbox(out, failed, journal, ".md")
    (out / "mine.md").write_text("not made by us")
    assert outbox.target_of("a.pdf").name == "a.md"
    assert outbox.target_of("a.docx").name == "a.docx.md", "though nothing is written yet"
    assert outbox.target_of("mine.pdf").name == "mine.pdf.md"
    done = JournalEntry("done", "a.pdf", SHA, "a.md", Look(1, 2, 3))
    journal.add(done)
    assert outbox.target_of("a.pdf").name == "a.md", "a new version takes the place of the old one"


def test_the_rest_counts_when_the_last_line_is_torn_or_others_are_strange(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    out = folders[1]
    one = JournalEntry("done", "größe\n.pdf", SHA, "a.md", Look(1, 2, 3), "r", 2)
    journal.add(one)
    journal.add(replace(one, name="two"))
    with (out / NAME).open("ab") as file:
        file.write(b'\xff\n[]\n{"state":"odd"}\n{"state":"done","name":"three"}\n')
        file.write(b'{"state":"done","name":"torn","sha')
    journal.close()
    fresh = Journal(out)
    assert fresh.of("größe\n.pdf") == one
    assert fresh.of("three") is None
    assert fresh.of("torn") is None
    fresh.add(replace(one, name="four"))
    fresh.close()
    again = Journal(out)
    assert again.of("four") is not None
    again.close()


def test_a_second_process_is_refused_when_one_has_the_journal(
    folders: tuple[Path, Path, Path], journal: Journal
) -> None:
    with pytest.raises(CommandUsageError, match="already"):
        Journal(folders[1])
    assert journal.unfinished() == []
