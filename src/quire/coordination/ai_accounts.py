"""The accounts of AI calls in Redis: one hash for each job, and for each month one for each team and each API key.

Amounts are whole micro-dollars. What was reserved before a process died stays on the account: the call was probably
billed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.coordination import keys
from quire.coordination.connection import RedisConnection

_PAGES_KEPT_S = 86_400
_MONTH_KEPT_S = 400 * 86_400


@dataclass(frozen=True, slots=True)
class Charge:
    """A finished call: what it cost, what was reserved for it, and its tokens."""

    micro: int
    reserved_micro: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Account:
    """A hash with the fields `calls`, `tokens_in`, `tokens_out` and `cost` (micro-dollars)."""

    name: str
    kept_s: int

    @classmethod
    def of_job(cls, job_id: str) -> Account:
        return cls(keys.ai_pages(job_id), _PAGES_KEPT_S)

    @classmethod
    def of_team(cls, team: str, month: str) -> Account:
        return cls(keys.ai_team_usage(team, month), _MONTH_KEPT_S)

    @classmethod
    def of_key(cls, key_id: str, month: str) -> Account:
        return cls(keys.ai_key_usage(key_id, month), _MONTH_KEPT_S)


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

    async def reserve(self, account: Account, micro: int, ceiling_micro: int) -> bool:
        """Adds the amount to the account; False, and nothing is added, if that exceeds the ceiling."""
        return bool(
            await self.connection.script(
                "plain/reserve_amount", [account.name], micro, ceiling_micro, account.kept_s
            )
        )

    async def refund(self, account: Account, micro: int) -> None:
        await self.connection.command("HINCRBY", account.name, "cost", -micro)

    async def open_account(self, account: Account, micro: int) -> None:
        """Makes the account with this amount on it, unless it exists."""
        await self.connection.commands(
            [("HSETNX", account.name, "cost", micro), ("EXPIRE", account.name, account.kept_s)]
        )

    async def charge(self, charge: Charge, *, booked: Sequence[Account], reserved: Sequence[Account]) -> None:
        """Books a call on the accounts `booked`. Where its price was reserved, the real price replaces it."""
        difference = charge.micro - charge.reserved_micro
        commands: list[tuple[str | int, ...]] = []
        for one in booked:
            commands += (
                ("HINCRBY", one.name, "calls", 1),
                ("HINCRBY", one.name, "tokens_in", charge.tokens_in),
                ("HINCRBY", one.name, "tokens_out", charge.tokens_out),
                ("HINCRBY", one.name, "cost", difference if one in reserved else charge.micro),
                ("EXPIRE", one.name, one.kept_s),
            )
        commands += [("HINCRBY", one.name, "cost", difference) for one in reserved if one not in booked]
        await self.connection.commands(commands)

    async def usage(self, account: Account) -> tuple[int, int, int, int]:
        """Returns the calls, input tokens, output tokens and micro-dollars of an account."""
        found = await self.connection.command(
            "HMGET", account.name, "calls", "tokens_in", "tokens_out", "cost"
        )
        calls, tokens_in, tokens_out, cost = (int(one or 0) for one in found)
        return calls, tokens_in, tokens_out, cost
