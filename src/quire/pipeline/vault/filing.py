"""The stages of the vault: what follows the end of a job, classification, embedding."""

from __future__ import annotations

from collections.abc import Mapping

from quire.domain.jobs import UnitKind
from quire.errors import CatalogError, ObjectsError
from quire.pipeline.parts import Parts
from quire.pipeline.vault.classifying import put_off, run_classify, unknown_document
from quire.pipeline.vault.embedding import run_embed
from quire.pipeline.vault.vault import Vault
from quire.pipeline.worker import Stage
from quire.queue.jobs import Claim


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


def stages(vault: Vault) -> Mapping[UnitKind, Stage]:
    async def filing(claim: Claim, _parts: Parts) -> None:
        await run_filing(claim, vault)

    async def classify(claim: Claim, _parts: Parts) -> None:
        await run_classify(claim, vault)

    async def embed(claim: Claim, _parts: Parts) -> None:
        await run_embed(claim, vault)

    return {UnitKind.VAULT: filing, UnitKind.CLASSIFY: classify, UnitKind.EMBED: embed}
