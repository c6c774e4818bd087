"""A data directory that an earlier version has written is opened, and its documents are served."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from quire.domain.job import JobStatus
from tests.support import running, vault_running

RELEASES = sorted((Path(__file__).parent / "data").glob("release-*.tar.gz"))
"""Made by write_release_data.py with the code of that version."""


@pytest.mark.parametrize("archive", RELEASES, ids=lambda path: path.name.removesuffix(".tar.gz"))
async def test_documents_are_served_when_an_earlier_version_wrote_the_data(
    archive: Path, tmp_path: Path
) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    wrote = json.loads((tmp_path / "data" / "release.json").read_text())
    async with vault_running.vault_at(tmp_path, JOB_TTL="3650d") as (found, vault):
        job = await found.engine.job("default", wrote["job"])
        assert job.status is JobStatus.COMPLETED
        assert await running.markdown(found, job) == wrote["text"]
        catalog = await vault.catalog()
        hits = await catalog.search("default", "zeppelin balloons")
        assert [one.document.id for one in hits.hits] == [wrote["document"]]
        added = await vault_running.add(vault, b"# A document of this version\n")
        assert (await vault_running.settled(vault, added)).error is None


def test_there_is_data_of_an_earlier_version() -> None:
    assert RELEASES
