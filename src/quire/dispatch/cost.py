"""Tokens and money: what a call may use, and what a page, a document and a team have used."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace

from quire.clock import Clock
from quire.providers.prices import PriceList
from quire.providers.protocol import Usage
from quire.queue import keys
from quire.queue.admission import Target
from quire.queue.connection import Connection

_MARGIN = 1.15
_CHARS_PER_TOKEN = 3.5
_PIXELS_PER_TOKEN = 600
_LEAST_IMAGE_TOKENS = 800
_LEAST_TOKENS_OUT = 500
_MICRO = 1_000_000
_PAGES_KEPT_S = 86_400
_TEAM_KEPT_S = 400 * 86_400


@dataclass(frozen=True, slots=True)
class Size:
    """What of a request tells how many tokens it takes."""

    characters: int
    own_characters: int
    pixels: int


def estimate(size: Size, max_tokens_out: int) -> Usage:
    """A generous guess; the answer's own count replaces it."""
    image = max(_LEAST_IMAGE_TOKENS, math.ceil(size.pixels / _PIXELS_PER_TOKEN))
    tokens_in = _MARGIN * (size.characters / _CHARS_PER_TOKEN + image)
    tokens_out = _MARGIN * max(_LEAST_TOKENS_OUT, 1.2 * size.own_characters / _CHARS_PER_TOKEN)
    return Usage(math.ceil(tokens_in), min(math.ceil(tokens_out), max_tokens_out))


@dataclass(frozen=True, slots=True)
class Spent:
    """What one page has used so far, over all its calls, and which candidates failed in this round."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    tried: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def after(
        self, name: str, usage: Usage, cost_usd: float, seconds: float, reason: str, *, failed: bool
    ) -> Spent:
        reasons = self.reasons if not reason or reason in self.reasons else (*self.reasons, reason)
        return replace(
            self,
            calls=self.calls + 1,
            tokens_in=self.tokens_in + usage.tokens_in,
            tokens_out=self.tokens_out + usage.tokens_out,
            cost_usd=self.cost_usd + cost_usd,
            seconds=self.seconds + seconds,
            tried=(*self.tried, name) if failed else self.tried,
            reasons=reasons,
        )


@dataclass(frozen=True, slots=True)
class TeamUsage:
    """A team's calls of a month."""

    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


class Ledger:
    """Keeps what was spent, in whole micro-dollars. A page's own account goes with its job."""

    def __init__(
        self, connection: Connection, prices: PriceList, clock: Clock, ceiling_usd: float = 0.0
    ) -> None:
        self._connection = connection
        self._prices = prices
        self._clock = clock
        self._ceiling_micro = round(ceiling_usd * _MICRO)

    def price(self, target: Target, usage: Usage) -> float:
        return self._prices.cost(target.provider, target.model, usage).usd

    async def spent(self, job_id: str, epoch: int, number: int) -> Spent:
        raw = await self._connection.command("HGET", keys.ai_pages(job_id), f"{epoch}:{number}")
        if not raw:
            return Spent()
        found = json.loads(raw)
        return Spent(**{**found, "tried": tuple(found["tried"]), "reasons": tuple(found["reasons"])})

    async def keep(self, job_id: str, epoch: int, number: int, spent: Spent) -> None:
        fields = {name: getattr(spent, name) for name in Spent.__slots__}
        key = keys.ai_pages(job_id)
        await self._connection.commands(
            [
                ("HSET", key, f"{epoch}:{number}", json.dumps(fields)),
                ("EXPIRE", key, _PAGES_KEPT_S),
            ]
        )

    async def forget(self, job_id: str, epoch: int, number: int) -> None:
        await self._connection.command("HDEL", keys.ai_pages(job_id), f"{epoch}:{number}")

    async def reserve(self, job_id: str, usd: float) -> bool:
        """Puts the price of a call on the document's account before it is made; False if that is over its ceiling."""
        if not self._ceiling_micro:
            return True
        key, micro = keys.ai_pages(job_id), math.ceil(usd * _MICRO)
        total = int(await self._connection.command("HINCRBY", key, "cost", micro))
        if total > self._ceiling_micro:
            await self._connection.command("HINCRBY", key, "cost", -micro)
            return False
        await self._connection.command("EXPIRE", key, _PAGES_KEPT_S)
        return True

    async def charge(self, job_id: str, team: str, reserved_usd: float, usd: float, usage: Usage) -> None:
        """Replaces what was reserved by what the call really cost, and puts it on the team's account."""
        month = keys.ai_team_usage(team, time.strftime("%Y-%m", time.gmtime(self._clock.now())))
        micro = round(usd * _MICRO)
        commands: list[tuple[str | int, ...]] = [
            ("HINCRBY", month, "calls", 1),
            ("HINCRBY", month, "tokens_in", usage.tokens_in),
            ("HINCRBY", month, "tokens_out", usage.tokens_out),
            ("HINCRBY", month, "cost", micro),
            ("EXPIRE", month, _TEAM_KEPT_S),
        ]
        if self._ceiling_micro:
            difference = micro - math.ceil(reserved_usd * _MICRO)
            commands.append(("HINCRBY", keys.ai_pages(job_id), "cost", difference))
        await self._connection.commands(commands)

    async def release(self, job_id: str, reserved_usd: float) -> None:
        """The call was never made."""
        if self._ceiling_micro:
            micro = math.ceil(reserved_usd * _MICRO)
            await self._connection.command("HINCRBY", keys.ai_pages(job_id), "cost", -micro)

    async def team(self, team: str) -> TeamUsage:
        month = keys.ai_team_usage(team, time.strftime("%Y-%m", time.gmtime(self._clock.now())))
        found = await self._connection.command("HMGET", month, "calls", "tokens_in", "tokens_out", "cost")
        calls, tokens_in, tokens_out, cost = (int(one or 0) for one in found)
        return TeamUsage(calls, tokens_in, tokens_out, cost / _MICRO)
