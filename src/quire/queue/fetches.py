"""How far the download of a job has come, for whoever asks and whoever follows."""

from __future__ import annotations

from quire.queue import keys
from quire.queue.connection import Connection


class Fetches:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def progress(self, job_id: str, epoch: int, token: str, done: int, total: int | None) -> bool:
        """Keeps the figures and tells them as an event; False if this download is no longer wanted."""
        kept = await self._connection.script(
            "fetching", keys.JobKeys.of(job_id).all(), epoch, token, done, total or 0
        )
        return bool(kept)
