"""The worker's stages for the vault: filing after the end of a job, classification, embedding."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from quire.coordination.job_records import Claim
from quire.domain.job import JobType, UnitKind
from quire.errors import CatalogError, ObjectsError, QuireError
from quire.pipeline.parts import Parts
from quire.pipeline.stages.download_stage import run_download
from quire.pipeline.vault.classify_step import missing_row_error, postpone, run_classify
from quire.pipeline.vault.early_text import file_early_text
from quire.pipeline.vault.embed_step import run_embed
from quire.pipeline.vault.vault import Vault
from quire.pipeline.worker import Stage

_LOG = logging.getLogger(__name__)


async def run_filing(claim: Claim, vault: Vault) -> None:
    """Advances a document after one of its jobs has ended. The unit is kept until that is done."""
    link = claim.job.vault
    try:
        if link is not None:
            if await vault.has_document(link) is None:
                raise missing_row_error(link.document_id)
            await vault.advance(link.team, link.document_id)
            ends = await vault.classification_wait_ends(link.team, link.document_id)
            if ends is None:
                ends = await file_early_text(claim, vault)
            if ends is not None and claim.job.type is JobType.MAIN:
                # The unit runs again then: a document must not wait for a model, also if every slot hangs.
                await vault.parts.jobs.park(claim, ends, failed=False)
                return
    except (CatalogError, ObjectsError) as error:
        await postpone(claim, vault, error)
        return
    claim.outcome_write.begun = True
    await vault.parts.jobs.drop_unit(claim)


async def run_fetching(claim: Claim, vault: Vault) -> None:
    """Downloads a link, and stops its conversion if the team already has these bytes."""
    await run_download(claim, vault.parts)
    link = claim.job.vault
    if link is None:
        return
    try:
        await vault.advance(link.team, link.document_id)
    except QuireError as error:  # the download is done; the end of the conversion advances the document again
        _LOG.info("twin lookup failed", extra={"document_id": link.document_id, "code": error.code})


def stages(vault: Vault) -> Mapping[UnitKind, Stage]:
    async def filing(claim: Claim, _parts: Parts) -> None:
        await run_filing(claim, vault)

    async def fetching(claim: Claim, _parts: Parts) -> None:
        await run_fetching(claim, vault)

    async def classify(claim: Claim, _parts: Parts) -> None:
        await run_classify(claim, vault)

    async def embed(claim: Claim, _parts: Parts) -> None:
        await run_embed(claim, vault)

    return {
        UnitKind.DOWNLOAD: fetching,
        UnitKind.VAULT: filing,
        UnitKind.CLASSIFY: classify,
        UnitKind.CLASSIFY_IMAGE: classify,
        UnitKind.EMBED: embed,
    }
