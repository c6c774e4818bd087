"""The accounts of AI calls in Redis: one hash for each job, and for each month one for each team and each API key.

Amounts are whole micro-dollars. What was reserved before a process died stays on the account: the call was probably
billed. Calls on accounts without a ceiling are booked together, once a second.

Weakness: a process that is killed loses the bookings of its last second. Accounts with a ceiling lose nothing, because
the price of a call is reserved on them before the call is made.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.errors import CoordinationCommandError, CoordinationError

_LOG = logging.getLogger(__name__)
_BOOKED_EVERY_S = 1.0
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


class AiAccounts:
    """Raises CoordinationError during an outage of the server."""

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection
        self._unbooked: dict[Account, Counter[str]] = {}
        self._booking: asyncio.Task[None] | None = None
        self._flushing = asyncio.Event()

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
        """Books a call on the accounts `booked`. Where its price was reserved, the real price replaces it at once."""
        difference = charge.micro - charge.reserved_micro
        usage = {"calls": 1, "tokens_in": charge.tokens_in, "tokens_out": charge.tokens_out}
        commands: list[tuple[str | int, ...]] = []
        for one in booked:
            if one in reserved:
                commands += _additions(one, {**usage, "cost": difference})
            else:
                self._unbooked.setdefault(one, Counter()).update({**usage, "cost": charge.micro})
        commands += [("HINCRBY", one.name, "cost", difference) for one in reserved if one not in booked]
        if self._unbooked and self._booking is None:
            self._booking = asyncio.create_task(self._book_soon(), name="ai-accounts")
        await self.connection.commands(commands)

    async def _book_soon(self) -> None:
        try:
            while self._unbooked:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_BOOKED_EVERY_S):
                        await self._flushing.wait()
                try:
                    await self._book()
                except (CoordinationError, CoordinationCommandError) as error:
                    _LOG.warning("AI calls not booked yet", extra={"code": error.code})
                if self._flushing.is_set():
                    break
        finally:
            self._booking = None

    async def _book(self) -> None:
        unbooked, self._unbooked = self._unbooked, {}
        try:
            await self.connection.commands(
                command for account, amounts in unbooked.items() for command in _additions(account, amounts)
            )
        except BaseException:
            # Some of it may have been booked: a usage that is too high is better than one that is too low.
            for account, amounts in unbooked.items():
                self._unbooked.setdefault(account, Counter()).update(amounts)
            raise

    async def flush(self) -> None:
        """Books at once what is not booked yet; during an outage it only logs how many calls are not."""
        self._flushing.set()
        if self._booking is not None:
            await asyncio.wait({self._booking})
        self._flushing.clear()
        if self._unbooked:
            calls = sum(one["calls"] for one in self._unbooked.values())
            _LOG.warning("AI calls not booked", extra={"calls": calls})

    async def usage(self, account: Account) -> tuple[int, int, int, int]:
        """Returns the calls, input tokens, output tokens and micro-dollars of an account."""
        if account in self._unbooked:
            await self.flush()
        found = await self.connection.command(
            "HMGET", account.name, "calls", "tokens_in", "tokens_out", "cost"
        )
        calls, tokens_in, tokens_out, cost = (int(one or 0) for one in found)
        return calls, tokens_in, tokens_out, cost


def _additions(account: Account, amounts: Mapping[str, int]) -> list[tuple[str | int, ...]]:
    added: list[tuple[str | int, ...]] = [
        ("HINCRBY", account.name, field, amount) for field, amount in amounts.items()
    ]
    return [*added, ("EXPIRE", account.name, account.kept_s)]
