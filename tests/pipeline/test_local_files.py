"""`file://` sources: the file that was checked is the file that is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quire.errors import DownloadError, LinkRefusedError, QuireError, RequestError, TooLargeError
from quire.pipeline.intake import local_files
from quire.pipeline.intake.local_files import open_local_file


async def content(url: str, base: Path | None, max_bytes: int = 1000) -> bytes:
    with open_local_file(url, base, max_bytes) as file:
        return b"".join([piece async for piece in file.pieces()])


async def test_file_is_read_when_it_is_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in side").mkdir()
    (tmp_path / "in side" / "a.md").write_bytes(b"x" * 900)
    assert await content(f"file://{tmp_path}/in%20side/a.md", tmp_path) == b"x" * 900
    assert await content(f"file://localhost{tmp_path}/in%20side/a.md", tmp_path) == b"x" * 900
    (tmp_path / "link").symlink_to(tmp_path / "in side" / "a.md")
    assert await content(f"file://{tmp_path}/link", tmp_path) == b"x" * 900


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("{base}/../secret", LinkRefusedError),
        ("{base}/out", LinkRefusedError),
        ("{base}/none", DownloadError),
        ("{base}", DownloadError),
        ("{base}/pipe", DownloadError),
        ("{base}/circle", DownloadError),
        ("{base}/large", TooLargeError),
        ("{base}/a%00b", RequestError),
        ("//other.example{base}/large", LinkRefusedError),
        ("//[", RequestError),
    ],
)
async def test_file_is_refused_when_it_is_elsewhere_or_no_file(
    tmp_path: Path, path: str, error: type[QuireError]
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (tmp_path / "secret").write_text("hunter2")
    (base / "out").symlink_to(tmp_path / "secret")
    (base / "circle").symlink_to(base / "circle")
    os.mkfifo(base / "pipe")
    (base / "large").write_bytes(bytes(2000))
    with pytest.raises(error):
        await content("file:" + path.format(base=base), base)


async def test_nothing_is_read_when_no_folder_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(LinkRefusedError, match="FILES_BASE"):
        await content(f"file://{tmp_path}/a", None)


@pytest.mark.parametrize("swapped", ["file", "folder"])
async def test_file_is_refused_when_a_link_takes_its_place_after_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    base, outside = tmp_path / "base", tmp_path / "outside"
    for folder in (base / "folder", outside):
        folder.mkdir(parents=True)
        (folder / "a.md").write_text("hunter2" if folder is outside else "harmless")
    check = local_files._resolved

    def check_then_swap(url: str) -> Path:
        found = check(url)
        place = base / "folder" / "a.md" if swapped == "file" else base / "folder"
        place.rename(tmp_path / "away")
        place.symlink_to(outside / "a.md" if swapped == "file" else outside)
        return found

    monkeypatch.setattr(local_files, "_resolved", check_then_swap)
    with pytest.raises(DownloadError):
        await content(f"file://{base}/folder/a.md", base)
