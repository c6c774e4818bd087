"""The accounts of AI calls in Redis: one hash for each job, one for each team and month.

Amounts are whole micro-dollars. What was reserved before a process died stays on the account: the call was probably
billed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quire.coordination import keys
from quire.coordination.connection import RedisConnection

_PAGES_KEPT_S = 86_400
_TEAM_KEPT_S = 400 * 86_400


@dataclass(frozen=True, slots=True)
class Charge:
    """A finished call: what it cost, what was reserved for it, and its tokens."""

    micro: int
    reserved_micro: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class AiAccounts:
    """Raises CoordinationError during an outage of the server."""

    connection: RedisConnection

    async def page(self, job_id: str, epoch: int, number: int) -> dict[str, Any] | None:
        """Returns what `store_page` stored for this page, or None."""
        raw = await self.connection.command("HGET", keys.ai_pages(job_id), f"{epoch}:{number}")
        found: dict[str, Any] | None = json.loads(raw) if raw else None
        return found

    async def store_page(self, job_id: str, epoch: int, number: int, fields: Mapping[str, Any]) -> None:
        key = keys.ai_pages(job_id)
        await self.connection.commands(
            [
                ("HSET", key, f"{epoch}:{number}", json.dumps(fields)),
                ("EXPIRE", key, _PAGES_KEPT_S),
            ]
        )

    async def forget_page(self, job_id: str, epoch: int, number: int) -> None:
        await self.connection.command("HDEL", keys.ai_pages(job_id), f"{epoch}:{number}")

    async def reserve_for_job(self, job_id: str, micro: int, ceiling_micro: int) -> bool:
        """Adds the amount to the job's account; False, and nothing is added, if that exceeds the ceiling."""
        return await self._reserve(keys.ai_pages(job_id), micro, ceiling_micro, _PAGES_KEPT_S)

    async def reserve_for_team(self, team: str, month: str, micro: int, ceiling_micro: int) -> bool:
        """Adds the amount to the team's account; False, and nothing is added, if that exceeds the ceiling."""
        return await self._reserve(keys.ai_team_usage(team, month), micro, ceiling_micro, _TEAM_KEPT_S)

    async def refund_job(self, job_id: str, micro: int) -> None:
        await self.connection.command("HINCRBY", keys.ai_pages(job_id), "cost", -micro)

    async def charge(
        self, job_id: str, team: str, month: str, charge: Charge, *, job_reserved: bool, team_reserved: bool
    ) -> None:
        """Books a call. On an account where its price was reserved, the real price replaces it."""
        account = keys.ai_team_usage(team, month)
        difference = charge.micro - charge.reserved_micro
        commands: list[tuple[str | int, ...]] = [
            ("HINCRBY", account, "calls", 1),
            ("HINCRBY", account, "tokens_in", charge.tokens_in),
            ("HINCRBY", account, "tokens_out", charge.tokens_out),
            ("HINCRBY", account, "cost", difference if team_reserved else charge.micro),
            ("EXPIRE", account, _TEAM_KEPT_S),
        ]
        if job_reserved:
            commands.append(("HINCRBY", keys.ai_pages(job_id), "cost", difference))
        await self.connection.commands(commands)

    async def team(self, team: str, month: str) -> tuple[int, int, int, int]:
        """Returns the calls, input tokens, output tokens and micro-dollars of a team in a month."""
        account = keys.ai_team_usage(team, month)
        found = await self.connection.command("HMGET", account, "calls", "tokens_in", "tokens_out", "cost")
        calls, tokens_in, tokens_out, cost = (int(one or 0) for one in found)
        return calls, tokens_in, tokens_out, cost

    async def _reserve(self, account: str, micro: int, ceiling_micro: int, kept_s: int) -> bool:
        return bool(
            await self.connection.script("plain/reserve_amount", [account], micro, ceiling_micro, kept_s)
        )
