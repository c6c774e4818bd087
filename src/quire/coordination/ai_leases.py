"""The leases of AI calls by their holder, and the release of those whose holder is dead.

A lease's id is `<random>/<holder>`; the holder is the id of a process (`WorkerId`). Ids without a holder, as earlier
versions write them, are left alone: they expire.

Weakness: a process without a worker (`quire serve` beside workers) sends no heartbeat. That it is dead is known only on
its own machine; from another host its leases are left to expire.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.liveness import Workers

_SEPARATOR = "/"
_AT_ONCE = 1000


def new_lease_id(holder: str) -> str:
    """An id that is used once. The random part comes first: `admit.lua` draws by its first character."""
    token = secrets.token_hex(8)
    return f"{token}{_SEPARATOR}{holder}" if holder else token


@dataclass(frozen=True, slots=True)
class AiLeases:
    """Raises CoordinationError during an outage of the server."""

    connection: RedisConnection
    workers: Workers
    clock: Clock | None = None
    """Replaces the server's clock, as in `Admission`."""

    async def release_dead(self) -> int:
        """Removes the leases of dead holders; returns how many.

        What they have reserved stays spent: their calls may have been made. Idempotent, and at most 1,000 leases of a
        model at once.
        """
        leases = await self._held()
        holders = {holder for of_model in leases.values() for holder in of_model.values()}
        dead = await self.workers.dead_among(holders)
        released = 0
        for model, of_model in leases.items():
            lost = [lease for lease, holder in of_model.items() if holder in dead]
            if lost:
                released += await self.release(model, lost)
        return released

    async def _held(self) -> dict[str, dict[str, str]]:
        """The leases that have a holder, and who that is, by model."""
        models: list[str] = await self.connection.command("ZRANGE", keys.AI_MODELS, 0, -1)
        found = await self.connection.commands(
            ("ZRANGE", keys.ModelKeys.named(model).inflight, 0, _AT_ONCE - 1) for model in models
        )
        held: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for model, leases in zip(models, found, strict=True):
            for lease in leases:
                _, _, holder = lease.partition(_SEPARATOR)
                if holder:
                    held[model][lease] = holder
        return held

    async def release(self, model: str, leases: Collection[str]) -> int:
        """Removes leases of one model (`provider:model`); returns how many were still there."""
        now = "" if self.clock is None else str(now_ms(self.clock))
        of = keys.ModelKeys.named(model)
        names = [keys.AI_CLOCK, of.wide, of.breaker, of.inflight]
        return int(await self.connection.script("ai/release", names, now, *leases))
