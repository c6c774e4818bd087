"""A web server on loopback whose pages a test can change, for links into the vault."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from quire.domain.job import JobOptions, JobSecrets
from quire.pipeline.vault.vault import Vault
from quire.pipeline.vault.vault_intake import VaultIntake
from tests.support.vault_running import TEAM, Submission


@asynccontextmanager
async def site(pages: dict[str, bytes]) -> AsyncIterator[str]:
    """Answers with these pages by name, and with 404 for others; yields its address."""

    async def answer(request: web.Request) -> web.Response:
        body = pages.get(request.match_info["name"])
        return web.Response(status=404) if body is None else web.Response(body=body)

    app = web.Application()
    app.router.add_get("/{name}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def follow(
    vault: Vault, url: str, *, password: str | None = None, force: bool = False, key: str | None = None
) -> str:
    """Puts a link into the vault and answers the id of its document."""
    submission = Submission(
        team=TEAM,
        options=JobOptions(),
        secrets=JobSecrets(source_url=url, password=password),
        force=force,
        idempotency_key=key,
    )
    return (await VaultIntake(vault).accept_source(submission)).document.id
