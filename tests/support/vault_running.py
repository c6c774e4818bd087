"""A whole Quire with a vault in this process, on a data directory of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from quire.bootstrap import Runtime, runtime
from quire.domain.job import JobOptions, JobSecrets, UnitKind
from quire.domain.vault_document import DocumentStatus, VaultDocument
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.vault.vault import Vault
from quire.pipeline.vault.vault_intake import VaultIntake
from quire.settings import load
from tests.support.waiting import until

TEAM = "team"


@asynccontextmanager
async def vault_at(
    folder: Path, *, kinds: Collection[UnitKind] | None = tuple(UnitKind), **env: str
) -> AsyncIterator[tuple[Runtime, Vault]]:
    settings = load(
        {
            "DATA_DIR": str(folder / "data"),
            "READER_PROCESSES": "1",
            "RETRY_BASE_DELAY": "20ms",
            "RETRY_JITTER": "0",
            "SHUTDOWN_TIMEOUT": "0",
            "CLASSIFY_WAIT": "1h",
            **env,
        }
    )
    async with runtime(settings, owner="test", kinds=kinds, vault=True) as found:
        assert found.vault is not None
        yield found, found.vault


async def add(
    vault: Vault, data: bytes, *, name: str = "note.md", password: str | None = None, force: bool = True
) -> str:
    submission = Submission(
        team=TEAM, options=JobOptions(), secrets=JobSecrets(password=password), filename=name, force=force
    )
    intake = VaultIntake(vault)
    upload = await intake.begin_upload(submission)
    async with upload.writer:
        await upload.write(data)
    return (await intake.accept_upload(submission, upload)).document.id


async def row_of(vault: Vault, document_id: str) -> VaultDocument:
    return await (await vault.catalog()).get(TEAM, document_id)


async def settled(vault: Vault, document_id: str, attempt: int = 1) -> VaultDocument:
    async def over() -> bool:
        row = await row_of(vault, document_id)
        reading = (row.error or {}).get("code") == "still_reading"
        return row.status is not DocumentStatus.PENDING and not reading and row.attempt >= attempt

    await until(over, f"the end of attempt {attempt} at {document_id}")
    return await row_of(vault, document_id)
