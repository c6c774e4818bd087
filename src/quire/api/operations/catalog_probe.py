"""Whether the catalog answers, asked for `/health` at most every few seconds."""

from __future__ import annotations

import asyncio

from quire.clock import Clock
from quire.errors import CatalogError
from quire.pipeline.vault.shared_catalog import SharedCatalog

_GOOD_FOR_S = 5.0
_TIMEOUT_S = 2.0


class CatalogProbe:
    """With `has_server` (DATABASE_URL) the catalog is opened to be asked; a file is asked once it is open."""

    def __init__(self, catalog: SharedCatalog | None, clock: Clock, *, has_server: bool) -> None:
        self._catalog = catalog
        self._clock = clock
        self._has_server = has_server
        self._opening: asyncio.Task[object] | None = None
        self._seen: tuple[float, bool] = (float("-inf"), True)

    async def issue(self) -> str | None:
        """One sentence for the operator if the catalog does not answer."""
        now = self._clock.monotonic()
        if now - self._seen[0] >= _GOOD_FOR_S:
            self._seen = (now, await self._answers())
        if self._seen[1]:
            return None
        setting = " (DATABASE_URL)" if self._has_server else ""
        return f"The catalog{setting} does not answer: the vault can't be used; conversions go on."

    async def _answers(self) -> bool:
        if self._catalog is None or not (self._has_server or self._catalog.opened):
            return True
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                if self._catalog.opened is None:
                    await self._open(self._catalog)
                if self._catalog.opened is not None:
                    await self._catalog.opened.ping()
        except (CatalogError, TimeoutError):
            return False
        return True

    async def _open(self, catalog: SharedCatalog) -> None:
        """Opening may take longer than the timeout (a migration): it goes on, and the next question waits for it."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(catalog.open_once(), name="catalog-probe")
        await asyncio.shield(self._opening)
