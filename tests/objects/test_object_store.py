"""The objects plane, the same promises from each implementation."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quire.errors import MissingError, ObjectsError
from quire.objects.object_store import PIECE_BYTES, ObjectStore

KEY = "jobs/ab12/original-ab12.pdf"


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def streamed(store: ObjectStore, key: str, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([piece async for piece in store.stream(key, start=start, end=end)])


async def test_put_is_read_back_when_stored(store: ObjectStore) -> None:
    await store.put(KEY, b"one")
    await store.put(KEY, b"two!")
    assert await store.get(KEY) == b"two!"
    assert await store.size(KEY) == 4


@pytest.mark.parametrize("has_second_names", [True, False])
async def test_copy_stays_as_it_is_when_its_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_second_names: bool
) -> None:
    if not has_second_names:

        def refused(*_: object) -> None:
            raise PermissionError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(os, "link", refused)
    (tmp_path / "objects").mkdir()
    store = ObjectStore.open(str(tmp_path / "objects"), tmp_path / "scratch")
    await store.put(KEY, b"one")
    await store.copy(KEY, "jobs/cd34/copy")
    await store.put(KEY, b"two!")
    assert await store.get("jobs/cd34/copy") == b"one"
    await store.delete(KEY)
    assert await store.get("jobs/cd34/copy") == b"one"
    with pytest.raises(MissingError):
        await store.copy(KEY, "jobs/cd34/other")


@pytest.mark.parametrize(
    "key", ["a/with space (1).pdf", "a/Größe–☃.pdf", "a/50%25#1?x=y&z~.pdf", "a/x:y=z,@+!.md"]
)
async def test_put_is_read_back_when_the_key_has_odd_characters(store: ObjectStore, key: str) -> None:
    await store.put(key, key.encode())
    assert await store.get(key) == key.encode()
    async with store.local(key) as path:
        assert path.read_bytes() == key.encode()
    assert await store.delete_prefix("a") == 1
    assert await store.size(key) is None


async def test_absence_is_reported_when_there_is_no_object(store: ObjectStore) -> None:
    assert await store.size(KEY) is None
    with pytest.raises(MissingError):
        await store.get(KEY)
    with pytest.raises(MissingError):
        await streamed(store, KEY)
    with pytest.raises(MissingError):
        await streamed(store, KEY, 1, 2)
    with pytest.raises(MissingError):
        async with store.local(KEY):
            pytest.fail("a file that isn't there was handed out")
    await store.delete(KEY)
    assert await store.delete_prefix("jobs/ab12") == 0


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "..",
        "a/../b",
        "a/./b",
        ".incoming/x",
        "a\0b",
        "a\nb",
        "a\\b",
        "a/" + "x" * 300,
        "é" * 600,
    ],
)
async def test_key_is_refused_when_it_could_leave_its_place(store: ObjectStore, key: str) -> None:
    with pytest.raises(ValueError):
        await store.put(key, b"")
    with pytest.raises(ValueError):
        await store.get(key)
    with pytest.raises(ValueError):
        await streamed(store, key)
    with pytest.raises(ValueError):
        await store.size(key)
    with pytest.raises(ValueError):
        await store.delete(key)
    with pytest.raises(ValueError):
        store.writer(key)
    with pytest.raises(ValueError):
        async with store.local(key):
            pytest.fail("a bad key was handed out")


async def test_writer_stores_size_and_hash_when_it_ends_well(store: ObjectStore, tmp_path: Path) -> None:
    pieces = [os.urandom(size) for size in (1, 700_000, 0, 3_000_000, 12_345_678)]
    async with store.writer(KEY) as writer:
        for piece in pieces:
            await writer.write(piece)
            assert await store.size(KEY) is None
    whole = b"".join(pieces)
    assert writer.size == len(whole)
    assert writer.sha256 == hashlib.sha256(whole).hexdigest()
    assert await store.get(KEY) == whole


async def test_writer_stores_an_empty_object_when_nothing_is_written(store: ObjectStore) -> None:
    async with store.writer(KEY) as writer:
        pass
    assert writer.size == 0
    assert writer.sha256 == hashlib.sha256().hexdigest()
    assert await store.get(KEY) == b""
    assert await streamed(store, KEY) == b""
    assert await streamed(store, KEY, 0, 10) == b""


async def test_writer_leaves_nothing_when_its_block_fails(store: ObjectStore, tmp_path: Path) -> None:
    await store.put("kept", b"before")
    kept = set(files_below(tmp_path))

    async def fail() -> None:
        async with store.writer(KEY) as writer:
            await writer.write(b"x" * 3_000_000)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await store.size(KEY) is None
    left = {path for path in files_below(tmp_path) if path.parent.name != "lives"}
    assert left == kept


async def test_writer_keeps_the_old_object_when_its_block_is_cancelled(store: ObjectStore) -> None:
    await store.put(KEY, b"before")
    begun = asyncio.Event()

    async def write() -> None:
        async with store.writer(KEY) as writer:
            await writer.write(b"x" * 3_000_000)
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.get(KEY) == b"before"


async def test_stream_gives_the_range_when_asked_for_one(store: ObjectStore) -> None:
    whole = os.urandom(PIECE_BYTES * 3 + 17)
    await store.put(KEY, whole)
    assert await streamed(store, KEY) == whole
    for start, end in [
        (0, 1),
        (5, PIECE_BYTES + 9),
        (PIECE_BYTES, None),
        (len(whole) - 1, None),
        (3, 10**9),
        (7, 7),
    ]:
        assert await streamed(store, KEY, start, end) == whole[start:end]
    assert await streamed(store, KEY, len(whole), None) == b""
    assert await streamed(store, KEY, len(whole) + 5, len(whole) + 9) == b""
    assert max([len(piece) async for piece in store.stream(KEY)]) <= PIECE_BYTES


async def test_delete_removes_one_object_when_called_twice(store: ObjectStore) -> None:
    await store.put("a/b/one", b"1")
    await store.put("a/b/two", b"2")
    await store.delete("a/b/one")
    await store.delete("a/b/one")
    await store.delete("a/b")
    assert await store.size("a/b/one") is None
    assert await store.get("a/b/two") == b"2"


async def test_delete_prefix_takes_whole_segments_when_names_are_alike(store: ObjectStore) -> None:
    for key in ("jobs/1/a", "jobs/1/deep/er/b", "jobs/1/c", "jobs/10/a", "jobs/1x"):
        await store.put(key, b".")
    assert await store.delete_prefix("jobs/1/") == 3
    assert await store.size("jobs/1/deep/er/b") is None
    assert await store.size("jobs/10/a") == 1
    assert await store.size("jobs/1x") == 1


async def test_local_is_the_content_when_asked_for_by_many(store: ObjectStore) -> None:
    whole = os.urandom(2_500_000)
    await store.put(KEY, whole)

    async def use() -> Path:
        async with store.local(KEY) as path:
            assert path.read_bytes() == whole
            return path

    assert len(set(await asyncio.gather(*(use() for _ in range(8))))) == 1


async def test_local_follows_when_the_object_is_replaced_or_deleted(store: ObjectStore) -> None:
    await store.put(KEY, b"first")
    async with store.local(KEY) as path:
        assert path.read_bytes() == b"first"
    async with store.writer(KEY) as writer:
        await writer.write(b"second")
    async with store.local(KEY) as path:
        assert path.read_bytes() == b"second"
    await store.delete_prefix("jobs")
    with pytest.raises(MissingError):
        async with store.local(KEY):
            pytest.fail("a deleted object was handed out")


async def test_check_passes_and_leaves_nothing_when_the_store_works(store: ObjectStore) -> None:
    await store.check()
    assert await store.delete_prefix("checks") == 0


async def test_folders_go_when_their_last_object_goes(tmp_path: Path) -> None:
    store = ObjectStore.open((tmp_path / "objects").as_uri(), tmp_path / "scratch")
    await store.put("jobs/1/deep/a", b".")
    await store.put("jobs/2/b", b".")
    await store.delete_prefix("jobs/1")
    assert {path.name for path in (tmp_path / "objects" / "jobs").iterdir()} == {"2"}
    await store.delete("jobs/2/b")
    assert {path.name for path in (tmp_path / "objects").iterdir()} == {".incoming"}


async def test_files_are_private_when_the_umask_is_generous(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = ObjectStore.open(str(tmp_path / "new" / "objects"), tmp_path / "scratch")
        await store.put("jobs/1/a", b".")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").rglob("*")}
    assert modes == {"objects": 0o700, ".incoming": 0o700, "jobs": 0o700, "1": 0o700, "a": 0o600}


async def test_puts_succeed_when_their_folder_is_being_removed_all_the_time(tmp_path: Path) -> None:
    store = ObjectStore.open(str(tmp_path / "objects"), tmp_path / "scratch")

    async def churn() -> None:
        for number in range(150):
            await store.put(f"jobs/{number % 2}/a", b".")
            await store.delete_prefix(f"jobs/{number % 2}")

    await asyncio.gather(*(churn() for _ in range(4)))
    assert files_below(tmp_path / "objects") == []


@pytest.mark.parametrize("where", ["/dev/null/objects", "/proc/objects"])
async def test_directory_is_reported_when_it_cannot_be_written(where: str, tmp_path: Path) -> None:
    store = ObjectStore.open(where, tmp_path)
    with pytest.raises(ObjectsError, match=where):
        await store.check()
    with pytest.raises(ObjectsError):
        await store.put("a", b".")
    with pytest.raises(ObjectsError):
        async with store.writer("a") as writer:
            await writer.write(b".")


KILLED_WRITER = """
import asyncio, json, pathlib, sys
from quire.objects.object_store import ObjectStore

async def main():
    url, scratch, credentials = sys.argv[1:]
    store = ObjectStore.open(url, pathlib.Path(scratch), credentials=json.loads(credentials))
    async with store.writer("jobs/1/original") as writer:
        await writer.write(b"x" * 5_000_000)
        print("written", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["directory", "s3"])
async def test_nothing_half_written_appears_when_the_writer_is_killed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    credentials = request.getfixturevalue("s3_credentials") if kind == "s3" else {}
    url = f"s3://planes/{tmp_path.name}" if kind == "s3" else str(tmp_path / "objects")
    child = subprocess.Popen(  # noqa: ASYNC220 - a moment, and nothing else runs here
        [sys.executable, "-c", KILLED_WRITER, url, str(tmp_path / "scratch"), json.dumps(credentials)],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert await asyncio.to_thread(child.stdout.readline) == b"written\n"
    store = ObjectStore.open(url, tmp_path / "scratch", credentials=credentials)
    assert await store.sweep_temporaries() == 0, "the file of a living process was taken"
    half_written = [path for path in files_below(tmp_path) if path.stat().st_size >= 1_000_000]
    assert len(half_written) == 1

    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert await store.size("jobs/1/original") is None
    assert await store.sweep_temporaries() == 1
    assert await store.sweep_temporaries() == 0
    assert [path for path in files_below(tmp_path) if path.stat().st_size] == []
    await store.close()


async def test_local_copy_stays_when_in_use_and_leaves_when_there_are_too_many(
    s3_credentials: dict[str, str], tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    store = ObjectStore.open(
        f"s3://planes/{tmp_path.name}", scratch, credentials=s3_credentials, scratch_bytes=250
    )
    for number in range(5):
        await store.put(f"o/{number}", bytes([number]) * 100)
    async with store.local("o/0") as used:
        for number in range(1, 5):
            async with store.local(f"o/{number}"):
                pass
        assert used.read_bytes() == bytes(100)
        assert len(files_below(scratch / "copies")) == 2
        await store.delete("o/0")
        assert used.read_bytes() == bytes(100)
    assert not used.exists()
    assert len(files_below(scratch / "copies")) == 1
    await store.close()
    assert files_below(scratch) == []


async def test_download_survives_when_one_of_its_waiters_leaves(
    s3_credentials: dict[str, str], tmp_path: Path
) -> None:
    store = ObjectStore.open(f"s3://planes/{tmp_path.name}", tmp_path / "scratch", credentials=s3_credentials)
    whole = os.urandom(8_000_000)
    await store.put(KEY, whole)

    async def use() -> bytes:
        async with store.local(KEY) as path:
            return path.read_bytes()

    leaver, stayer = asyncio.create_task(use()), asyncio.create_task(use())
    await asyncio.sleep(0)
    leaver.cancel()
    assert await stayer == whole
    assert leaver.cancelled()
    await store.close()


async def test_failure_is_an_objects_error_when_s3_is_gone_or_has_no_bucket(
    s3_credentials: dict[str, str], tmp_path: Path
) -> None:
    nowhere = ObjectStore.open("s3://no-such-bucket/x", tmp_path, credentials=s3_credentials)
    with pytest.raises(ObjectsError):
        await nowhere.check()
    with pytest.raises(ObjectsError):
        async with nowhere.writer("a") as writer:
            await writer.write(b".")
    with pytest.raises(ObjectsError, match="OBJECT_STORE"):
        ObjectStore.open("gopher://x/y", tmp_path)
    await nowhere.close()


def test_address_names_the_object_when_the_store_is_a_directory_or_a_bucket(tmp_path: Path) -> None:
    here = ObjectStore.open(str(tmp_path / "with space"), tmp_path / "scratch")
    assert here.url("jobs/a/original") == f"file://{tmp_path}/with%20space/jobs/a/original"
    bucket = ObjectStore.open(
        "s3://bucket/prefix/", tmp_path / "scratch", credentials={"region": "us-east-1"}
    )
    assert bucket.url("jobs/a/original") == "s3://bucket/prefix/jobs/a/original"
