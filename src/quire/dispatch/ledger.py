"""Tokens and money: what a call may use, and what a page, a document and a team have used."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace

from quire.clock import Clock
from quire.coordination import keys
from quire.coordination.ai_admission import Target
from quire.coordination.connection import RedisConnection
from quire.providers.price_list import PriceList
from quire.providers.provider_protocol import TokenUsage

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


def estimate(size: Size, max_tokens_out: int) -> TokenUsage:
    """A generous guess; the answer's own count replaces it."""
    image = max(_LEAST_IMAGE_TOKENS, math.ceil(size.pixels / _PIXELS_PER_TOKEN))
    tokens_in = _MARGIN * (size.characters / _CHARS_PER_TOKEN + image)
    tokens_out = _MARGIN * max(_LEAST_TOKENS_OUT, 1.2 * size.own_characters / _CHARS_PER_TOKEN)
    return TokenUsage(math.ceil(tokens_in), min(math.ceil(tokens_out), max_tokens_out))


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
        self, name: str, usage: TokenUsage, cost_usd: float, seconds: float, reason: str, *, failed: bool
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


DOCUMENT_CEILING = "cost_ceiling"
TEAM_CEILING = "team_cost_ceiling"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """US dollars after which nothing more is paid: for a document, and for a team in a month. 0 is no ceiling."""

    document_usd: float = 0.0
    team_usd: float = 0.0


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
        self,
        connection: RedisConnection,
        prices: PriceList,
        clock: Clock,
        ceilings: Ceilings = Ceilings(),  # noqa: B008 - frozen
    ) -> None:
        self._connection = connection
        self._prices = prices
        self._clock = clock
        self._document_micro = round(ceilings.document_usd * _MICRO)
        self._team_micro = round(ceilings.team_usd * _MICRO)

    def price(self, target: Target, usage: TokenUsage) -> float:
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

    async def reserve(self, job_id: str, team: str, usd: float) -> str:
        """Puts the price of a call on the accounts that have a ceiling, before it is made; answers which is in the way.

        If this process dies with the call out, the price stays where it was put: the call was probably billed.
        """
        micro = math.ceil(usd * _MICRO)
        document = keys.ai_pages(job_id)
        if self._document_micro and not await self._fits(
            document, micro, self._document_micro, _PAGES_KEPT_S
        ):
            return DOCUMENT_CEILING
        if self._team_micro and not await self._fits(
            self._month(team), micro, self._team_micro, _TEAM_KEPT_S
        ):
            # Should this be the last thing this process did not do, the document has paid for one call too many.
            if self._document_micro:
                await self._connection.command("HINCRBY", document, "cost", -micro)
            return TEAM_CEILING
        return ""

    async def _fits(self, account: str, micro: int, ceiling_micro: int, kept_s: int) -> bool:
        return bool(
            await self._connection.script("plain/reserve_amount", [account], micro, ceiling_micro, kept_s)
        )

    async def charge(
        self, job_id: str, team: str, reserved_usd: float, usd: float, usage: TokenUsage
    ) -> None:
        """Replaces what was reserved by what the call really cost, and puts it on the team's account."""
        month = self._month(team)
        micro = round(usd * _MICRO)
        difference = micro - math.ceil(reserved_usd * _MICRO)
        commands: list[tuple[str | int, ...]] = [
            ("HINCRBY", month, "calls", 1),
            ("HINCRBY", month, "tokens_in", usage.tokens_in),
            ("HINCRBY", month, "tokens_out", usage.tokens_out),
            ("HINCRBY", month, "cost", difference if self._team_micro else micro),
            ("EXPIRE", month, _TEAM_KEPT_S),
        ]
        if self._document_micro:
            commands.append(("HINCRBY", keys.ai_pages(job_id), "cost", difference))
        await self._connection.commands(commands)

    async def team(self, team: str) -> TeamUsage:
        found = await self._connection.command(
            "HMGET", self._month(team), "calls", "tokens_in", "tokens_out", "cost"
        )
        calls, tokens_in, tokens_out, cost = (int(one or 0) for one in found)
        return TeamUsage(calls, tokens_in, tokens_out, cost / _MICRO)

    def _month(self, team: str) -> str:
        return keys.ai_team_usage(team, time.strftime("%Y-%m", time.gmtime(self._clock.now())))
