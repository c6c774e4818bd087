"""The one catalog of a process: opened by the first caller that needs it, closed when the process stops."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from quire.catalog.database.postgres_address import PostgresAddress
from quire.clock import Clock
from quire.errors import CatalogError
from quire.settings import Settings

if TYPE_CHECKING:
    from quire.catalog.catalog import Catalog


class SharedCatalog:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Raises SettingsError for a DATABASE_URL that can't be used, before anything is accepted."""
        if settings.catalog.database_url:
            PostgresAddress.read(settings.catalog.database_url)
        self._settings = settings
        self._clock = clock
        self._turn = asyncio.Lock()
        self._opened: Catalog | None = None
        self._closed = False

    @property
    def opened(self) -> Catalog | None:
        """The catalog, if a caller has needed it so far."""
        return self._opened

    async def open_once(self) -> Catalog:
        """Returns the catalog; callers that come while it is opened wait. Raises CatalogError once it is closed."""
        # In a thread: importing SQLAlchemy takes a second, in which no other request would be served.
        await asyncio.to_thread(importlib.import_module, "quire.catalog.catalog")
        from quire.catalog.catalog import Catalog, CatalogOptions

        async with self._turn:
            if self._closed:
                raise CatalogError("The catalog has been closed: this process is stopping.")
            if self._opened is None:
                options = CatalogOptions(
                    file=self._settings.catalog_file,
                    url=self._settings.catalog.database_url,
                    stale_after_s=self._settings.vault.stale_after_s,
                )
                self._opened = await Catalog.open(options, self._clock)
        return self._opened

    async def close(self) -> None:
        async with self._turn:
            self._closed = True
            if self._opened is not None:
                await self._opened.close()
