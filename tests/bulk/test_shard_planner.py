"""Plans: what is new since the last one, in shards that never change."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from quire.bulk.bulk_run import BulkRun
from quire.bulk.plan_options import DocumentFilter, PlanOptions, keys_from, split_pattern
from quire.bulk.shard_plan import DELETED, DUPLICATE, READ, PlannedDocument, Plans
from quire.bulk.shard_planner import Planner
from quire.clock import SystemClock
from quire.errors import ObjectsError, RequestError, StateConflictError
from quire.objects.bulk_locations import BulkLocation


class Lake:
    """A folder of documents, and a target."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "lake"
        self.root.mkdir()
        self.source = BulkLocation.open(str(self.root))
        self.target = BulkLocation.open(str(folder / "target"))

    def write(self, key: str, text: str, at: float = 1_000_000.0) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (at, at))

    async def plan(self, **options: object) -> list[tuple[str, str]]:
        """Makes a plan and returns its entries."""
        plans = await _plans(self.target)
        header = await Planner(self.source, self.target, plans, PlanOptions(**options)).run(SystemClock())  # type: ignore[arg-type]
        if header is None:
            return []
        fresh = await _plans(self.target)
        found: list[PlannedDocument] = []
        for number in range(header.first_shard, header.first_shard + header.shards):
            found += (await fresh.shard(number)).documents
        return [(one.key, one.action) for one in found]


async def _plans(target: BulkLocation) -> Plans:
    (target.folder or Path()).mkdir(exist_ok=True)
    return await Plans.load(target)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


async def test_a_second_plan_has_only_what_is_new_changed_or_gone(lake: Lake) -> None:
    lake.write("a.pdf", "one")
    lake.write("sub/b.pdf", "two two")
    lake.write("sub/c.pdf", "three three")
    assert await lake.plan() == [("a.pdf", READ), ("sub/b.pdf", READ), ("sub/c.pdf", READ)]
    assert await lake.plan() == []
    lake.write("new.pdf", "a new one here")
    lake.write("a.pdf", "one, changed", at=2_000_000.0)
    (lake.root / "sub/b.pdf").unlink()
    assert sorted(await lake.plan()) == [("a.pdf", READ), ("new.pdf", READ), ("sub/b.pdf", DELETED)]
    assert await lake.plan() == []
    lake.write("sub/b.pdf", "two two")
    assert await lake.plan() == [("sub/b.pdf", READ)]
    plans = await Plans.load(lake.target)
    assert [(one.run, one.first_shard) for one in plans.headers] == [(1, 0), (2, 1), (3, 2)]


async def test_nothing_is_marked_deleted_when_the_source_lists_nothing(lake: Lake) -> None:
    lake.write("a.pdf", "one")
    await lake.plan()
    (lake.root / "a.pdf").unlink()
    with pytest.raises(RequestError, match="lists no document now; 1 were known"):
        await lake.plan()


async def test_shards_do_not_begin_anew_when_a_plan_is_missing_or_damaged(lake: Lake) -> None:
    for number in range(2):
        lake.write(f"{number}.pdf", "x" * (number + 1))
        await lake.plan()
    first, _ = sorted((lake.target.folder or Path()).rglob("plan-*.json"))
    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(ObjectsError, match="A plan before"):
        await Plans.load(lake.target)
    first.write_bytes(kept)
    [*_, segment] = sorted((lake.target.folder or Path()).rglob("segment-*"))
    segment.write_bytes(segment.read_bytes()[:-5])
    plans = await Plans.load(lake.target)
    with pytest.raises(ObjectsError, match="damaged"):
        await plans.shard(1)


async def test_a_plan_is_refused_when_a_folder_can_not_be_listed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its documents would be missing from a run that is reported as complete."""
    lake.write("a.pdf", "one")
    lake.write("sub/b.pdf", "two two")
    real = os.scandir

    def refusing(path: Path) -> object:
        if Path(path).name == "sub":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    monkeypatch.setattr("quire.objects.bulk_locations.os.scandir", refusing)
    with pytest.raises(ObjectsError, match=r"sub can't be listed: Permission denied"):
        await lake.plan()


async def test_a_plan_is_refused_when_a_document_can_not_be_looked_up(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write("a.pdf", "one")
    lake.write("b.pdf", "two two")
    real = Path.stat

    def refusing(path: Path, **options: bool) -> os.stat_result:
        if path.name == "b.pdf":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", refusing)
    with pytest.raises(ObjectsError, match=r"b\.pdf can't be read: Permission denied"):
        await lake.plan()


async def test_left_over_files_are_looked_for_once_when_a_run_writes_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[Path] = []
    monkeypatch.setattr("quire.objects.bulk_locations.sweep", swept.append)
    place = BulkLocation.open(str(tmp_path))
    for number in range(3):
        await place.put(f"part-{number}", b"x")
    assert len(swept) == 1


async def test_equal_contents_are_planned_once(lake: Lake) -> None:
    lake.write("a.pdf", "same")
    lake.write("b.pdf", "same")
    lake.write("c.pdf", "diff")
    assert await lake.plan() == [("a.pdf", READ), ("b.pdf", DUPLICATE), ("c.pdf", READ)]
    lake.write("d.pdf", "same")
    assert await lake.plan() == [("d.pdf", DUPLICATE)]
    lake.write("e.pdf", "same")
    assert await lake.plan(dedupe=False) == [("e.pdf", READ)]


async def test_documents_beyond_the_limit_are_left_to_later_runs_and_not_deleted(lake: Lake) -> None:
    for number in range(5):
        lake.write(f"{number}.txt", f"text {number} " + "x" * number)
    assert await lake.plan(limit=2) == [("0.txt", READ), ("1.txt", READ)]
    assert await lake.plan(limit=2) == [("2.txt", READ), ("3.txt", READ)]
    assert await lake.plan() == [("4.txt", READ)]


async def test_filters_choose_documents_and_never_mark_the_others_as_deleted(lake: Lake) -> None:
    lake.write("a.pdf", "pdf 1")
    lake.write("x/b.pdf", "pdf two", at=3_000_000.0)
    lake.write("x/c.txt", "a text")
    lake.write("out/part-000000.parquet", "rows")
    lake.write(".hidden/d.pdf", "hidden")
    await lake.plan(wanted=DocumentFilter(excluded="out/"))
    assert await lake.plan(wanted=DocumentFilter("**/*.pdf", excluded="out/")) == []
    lake.write("x/e.pdf", "late", at=4_000_000.0)
    lake.write("x/f.pdf", "early one", at=2_000_000.0)
    assert await lake.plan(wanted=DocumentFilter("**/*.pdf", since=3_500_000.0)) == [("x/e.pdf", READ)]
    assert await lake.plan(wanted=DocumentFilter(keys=keys_from(['{"key": "x/f.pdf"}', "", "no.pdf"]))) == [
        ("x/f.pdf", READ)
    ]


async def test_shards_are_cut_by_estimated_pages(lake: Lake) -> None:
    for number in range(7):
        lake.write(f"{number}.txt", "x" * (number + 1))
    await lake.plan(shard_pages=3)
    plans = await Plans.load(lake.target)
    assert plans.shard_count == 3
    assert [len((await plans.shard(number)).documents) for number in range(3)] == [3, 3, 1]
    with pytest.raises(ObjectsError):
        await plans.shard(3)


async def test_the_first_of_two_drivers_wins_when_both_plan_at_once(lake: Lake) -> None:
    lake.write("a.pdf", "one")
    plans = [await _plans(lake.target) for _ in range(2)]
    first, second = (Planner(lake.source, lake.target, one, PlanOptions()) for one in plans)
    assert await first.run(SystemClock()) is not None
    with pytest.raises(StateConflictError):
        await second.run(SystemClock())
    assert len((await Plans.load(lake.target)).headers) == 1


async def test_a_target_of_another_source_or_other_options_is_refused(lake: Lake, tmp_path: Path) -> None:
    lake.write("a.pdf", "one")
    await BulkRun(lake.source, lake.target, PlanOptions(row_options={"ocr": "on"})).plan(SystemClock())
    with pytest.raises(RequestError, match="holds the rows of"):
        await BulkRun(BulkLocation.open(str(tmp_path)), lake.target, PlanOptions()).plan(SystemClock())
    with pytest.raises(RequestError, match="Use the same options"):
        await BulkRun(lake.source, lake.target, PlanOptions(row_options={"ocr": "off"})).plan(SystemClock())


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("**/*.pdf", {"a.pdf", "x/b.pdf", "x/y/c.pdf"}),
        ("*.pdf", {"a.pdf"}),
        ("x/**", {"x/b.pdf", "x/y/c.pdf"}),
        ("?/[ab].p?f", {"x/b.pdf"}),
        ("x/[!b].pdf", set()),
        ("**", {"a.pdf", "x/b.pdf", "x/y/c.pdf"}),
    ],
)
def test_patterns_match_as_a_shell_does(pattern: str, keys: set[str]) -> None:
    wanted = DocumentFilter(pattern)
    assert {key for key in ("a.pdf", "x/b.pdf", "x/y/c.pdf") if wanted.matches(key)} == keys


def test_a_source_is_split_before_its_first_wildcard() -> None:
    assert split_pattern("s3://lake/in/**/*.pdf") == ("s3://lake/in", "**/*.pdf")
    assert split_pattern("*.pdf") == (".", "*.pdf")
    assert split_pattern("/data") == ("/data", "")


def test_a_manifest_that_is_not_understood_names_its_line() -> None:
    with pytest.raises(ObjectsError, match="Line 2"):
        keys_from(["a.pdf", "{broken"])
