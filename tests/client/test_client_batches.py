"""Both clients against a real service: batches, and what differs between two jobs."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from quire.client import AsyncQuire, Batch, InvalidError, NotFoundError, Quire, TookTooLongError, UsageError
from quire.client.batch_calls import finished_batch
from quire.client.service_calls import Source
from tests.support.waiting import DEADLINE_S

Pdf = Callable[..., bytes]


def test_batch_of_files_is_followed_and_exported(quire: Quire, make_pdf: Pdf, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.pdf").write_bytes(make_pdf(f"Batch of files {name}"))
    (tmp_path / "odd.bin").write_bytes(b"\x7fELF" + b"\0" * 64)
    seen: list[Batch] = []
    threads: set[int] = set()

    def counted(batch: Batch) -> None:
        threads.add(threading.get_ident())
        assert quire.batch_state(batch.batch_id).ended >= batch.ended
        seen.append(batch)

    files: list[Source] = [tmp_path / "first.pdf", str(tmp_path / "second.pdf"), tmp_path / "odd.bin"]
    batch = quire.batch(files, on_progress=counted, wait_s=DEADLINE_S, idempotency_key="client-batch")
    assert (batch.status, batch.total, batch.completed, batch.failed) == ("completed", 3, 2, 1)
    assert [one.name for one in batch.items] == ["first.pdf", "second.pdf", "odd.bin"]
    assert batch.items[2].error is not None
    assert batch.items[2].error["code"] == "unsupported_type"
    assert threads == {threading.get_ident()}
    assert seen[-1] == batch
    counts = [one.ended for one in seen]
    assert counts == sorted(set(counts)), "each state once"
    assert quire.batch(files, idempotency_key="client-batch").batch_id == batch.batch_id
    assert "Batch of files second" in quire.result(batch.items[1].job_id or "").markdown
    with zipfile.ZipFile(quire.export_batch(batch.batch_id, tmp_path / "all.zip")) as found:
        assert found.namelist() == ["first.md", "second.md", "failures.json"]
    lines = (
        quire.export_batch(batch.batch_id, tmp_path / "all.jsonl", format="jsonl").read_text().splitlines()
    )
    assert [json.loads(line)["status"] for line in lines] == ["completed", "completed", "failed"]
    with pytest.raises(InvalidError, match="format"):
        quire.export_batch(batch.batch_id, tmp_path / "all.csv", format="csv")
    assert not (tmp_path / "all.csv").exists()


async def test_batch_of_addresses_that_are_refused_has_their_errors(
    aquire: AsyncQuire, tmp_path: Path
) -> None:
    addresses = ["http://127.0.0.1:9/a.pdf", "http://127.0.0.1:9/b.pdf"]
    accepted = await aquire.batch(addresses, wait=False)
    batch = await aquire.wait_batch(accepted.batch_id, wait_s=DEADLINE_S)
    assert (batch.over, batch.status, batch.failed) == (True, "failed", 2)
    assert [one.name for one in batch.items] == ["a.pdf", "b.pdf"]
    assert all(one.error for one in batch.items)
    assert (await aquire.cancel_batch(batch.batch_id)).failed == 2
    wrong: list[tuple[Iterable[Source], str]] = [
        ([], "no document"),
        ([*addresses, tmp_path / "a.pdf"], "not both"),
        ([tmp_path / "gone.pdf"], "gone.pdf"),
        ("report.pdf", "list of documents"),
    ]
    for sources, why in wrong:
        with pytest.raises(UsageError, match=why):
            await aquire.batch(sources)
    with pytest.raises(NotFoundError):
        await aquire.batch_state("0123456789abcdef")


async def test_waiting_for_a_batch_ends_when_the_callers_time_is_up(aquire: AsyncQuire) -> None:
    queued = Batch("0123456789abcdef", "queued", 0, 1, queued=1)
    with pytest.raises(TookTooLongError) as caught:
        await finished_batch(aquire._transport, queued, 0, None)
    assert caught.value.job_id == queued.batch_id


def test_differing_pages_are_named_with_their_elements(quire: Quire, make_pdf: Pdf) -> None:
    was = quire.convert(make_pdf("Stays as it is", "The fee is 10")).job_id
    now = quire.convert(make_pdf("Stays as it is", "The fee is 12", "A new page")).job_id
    found = quire.diff(was, now)
    assert (found.equal, found.pages_equal, found.pages_changed, found.pages_added) == (False, 1, 1, 1)
    assert [(page.change, page.a, page.b) for page in found.pages] == [("changed", 2, 2), ("added", None, 3)]
    (element,) = found.pages[0].elements or ()
    assert element.a is not None
    assert element.b is not None
    assert (element.a["text"], element.b["text"]) == ("The fee is 10", "The fee is 12")
    assert quire.diff(was, now, limit=1).pages[1].elements is None
    assert quire.diff(was, was).equal
    with pytest.raises(NotFoundError):
        quire.diff(was, "0123456789abcdef")
