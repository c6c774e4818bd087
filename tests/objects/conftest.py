"""The object store on each of its implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quire.objects.object_store import ObjectStore


@pytest.fixture(params=["directory", "s3"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    """The same suite for every implementation of the objects plane."""
    if request.param == "directory":
        (tmp_path / "objects").mkdir()  # a folder that is not there is on a disk that is away
        opened = ObjectStore.open(str(tmp_path / "objects"), tmp_path / "scratch")
    else:
        opened = ObjectStore.open(
            f"s3://planes/{tmp_path.name}",
            tmp_path / "scratch",
            credentials=request.getfixturevalue("s3_credentials"),
            scratch_bytes=1_000_000,
        )
    yield opened
    await opened.close()
