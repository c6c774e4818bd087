"""The stages of the vault: what follows the end of a job, classification, embedding."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from quire.coordination.job_records import Claim
from quire.domain.job import UnitKind
from quire.errors import CatalogError, ObjectsError, QuireError
from quire.pipeline.parts import Parts
from quire.pipeline.stages.download_stage import run_download
from quire.pipeline.vault.classify_step import put_off, run_classify, unknown_document
from quire.pipeline.vault.embed_step import run_embed
from quire.pipeline.vault.vault import Vault
from quire.pipeline.worker import Stage

_LOG = logging.getLogger(__name__)


async def run_filing(claim: Claim, vault: Vault) -> None:
    """A job of a document has ended: the document goes on. The unit is kept until that is done."""
    link = claim.job.vault
    try:
        if link is not None:
            if await vault.holds(link) is None:
                raise unknown_document(link.document_id)
            await vault.advance(link.team, link.document_id)
    except (CatalogError, ObjectsError) as error:
        await put_off(claim, vault, error)
        return
    claim.settlement.begun = True
    await vault.parts.jobs.drop_unit(claim)


async def run_fetching(claim: Claim, vault: Vault) -> None:
    """Fetches a link. If the vault has these bytes already, nobody needs to read them again."""
    await run_download(claim, vault.parts)
    link = claim.job.vault
    if link is None:
        return
    try:
        await vault.advance(link.team, link.document_id)
    except QuireError as error:  # the download is done; the end of the conversion brings us here again
        _LOG.info("looked for its twin in vain", extra={"document_id": link.document_id, "code": error.code})


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
        UnitKind.EMBED: embed,
    }
