"""Tokens and cost: the estimate for a call, and what a page, a document, a team and an API key have used."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, replace

from quire.clock import Clock
from quire.coordination.ai_accounts import Account, AiAccounts, Charge
from quire.coordination.ai_admission import Target
from quire.domain.payer import MICRO, Payer
from quire.providers.price_list import PriceList
from quire.providers.provider_protocol import TokenUsage

_MARGIN = 1.15
_CHARS_PER_TOKEN = 3.5
_PIXELS_PER_TOKEN = 600
_LEAST_IMAGE_TOKENS = 800
_LEAST_TOKENS_OUT = 500


@dataclass(frozen=True, slots=True)
class Size:
    """What the token count of a request depends on."""

    characters: int
    own_characters: int
    pixels: int


def estimate(size: Size, max_tokens_out: int) -> TokenUsage:
    """Returns a generous estimate; the count in the answer replaces it."""
    image = max(_LEAST_IMAGE_TOKENS, math.ceil(size.pixels / _PIXELS_PER_TOKEN))
    tokens_in = _MARGIN * (size.characters / _CHARS_PER_TOKEN + image)
    tokens_out = _MARGIN * max(_LEAST_TOKENS_OUT, 1.2 * size.own_characters / _CHARS_PER_TOKEN)
    return TokenUsage(math.ceil(tokens_in), min(math.ceil(tokens_out), max_tokens_out))


@dataclass(frozen=True, slots=True)
class Spent:
    """What one page has used in all its calls, and which candidates failed in this round."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    tried: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    waiting_since: float = 0.0
    """When the page first found the breakers of all its candidates open; 0 if it never did."""
    last: str = ""
    """The candidate of the last failed call, as `provider:model`."""
    last_error: str = ""
    """The error code of that call, or why its answer was rejected."""

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
            last=name if failed else self.last,
            last_error=reason if failed else self.last_error,
        )


DOCUMENT_CEILING = "cost_ceiling"
TEAM_CEILING = "team_cost_ceiling"
KEY_CEILING = "key_cost_ceiling"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The most US dollars for a document, and for a team in a month. 0 is no ceiling."""

    document_usd: float = 0.0
    team_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class MonthUsage:
    """The usage of a team or of an API key in a month."""

    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


class Ledger:
    """Books what was spent, in whole micro-dollars. A page's own account is deleted with its job."""

    def __init__(
        self,
        accounts: AiAccounts,
        prices: PriceList,
        clock: Clock,
        ceilings: Ceilings = Ceilings(),  # noqa: B008 - frozen
    ) -> None:
        self._accounts = accounts
        self._prices = prices
        self._clock = clock
        self._document_micro = round(ceilings.document_usd * MICRO)
        self._team_micro = round(ceilings.team_usd * MICRO)

    async def preload(self) -> None:
        """Loads the price list in a thread, because its import takes a moment."""
        await asyncio.to_thread(self._prices.preload)

    async def close(self) -> None:
        """Books what is not booked yet."""
        await self._accounts.flush()

    def price(self, target: Target, usage: TokenUsage) -> float:
        """Returns the price in US dollars; 0 where it is unknown."""
        return self._prices.cost(target.provider, target.model, usage).usd

    async def spent(self, job_id: str, epoch: int, number: int) -> Spent:
        found = await self._accounts.page(job_id, epoch, number)
        if found is None:
            return Spent()
        return Spent(**{**found, "tried": tuple(found["tried"]), "reasons": tuple(found["reasons"])})

    async def keep(self, job_id: str, epoch: int, number: int, spent: Spent) -> None:
        fields = {name: getattr(spent, name) for name in Spent.__slots__}
        await self._accounts.store_page(job_id, epoch, number, fields)

    async def forget(self, job_id: str, epoch: int, number: int) -> None:
        await self._accounts.forget_page(job_id, epoch, number)

    async def open_job(self, job_id: str, usd: float) -> None:
        """Makes the account of a job with what it has spent before, unless Redis has the account."""
        await self._accounts.open_account(Account.of_job(job_id), math.ceil(usd * MICRO))

    async def reserve(self, job_id: str, team: str, usd: float, payer: Payer | None = None) -> str:
        """Reserves the price of a call on the accounts that have a ceiling, before the call is made.

        Returns '' or the ceiling that it would exceed (DOCUMENT_CEILING, KEY_CEILING, TEAM_CEILING). A call with no job
        (an embedding) has no document's ceiling.
        """
        micro = math.ceil(usd * MICRO)
        reserved: list[Account] = []
        for account, ceiling_micro, reason in self._ceilings(job_id, team, payer):
            if not await self._accounts.reserve(account, micro, ceiling_micro):
                # If this process dies here, the accounts before have paid for one call that was not made.
                for one in reserved:
                    await self._accounts.refund(one, micro)
                return reason
            reserved.append(account)
        return ""

    async def charge(
        self,
        job_id: str,
        team: str,
        reserved_usd: float,
        usd: float,
        usage: TokenUsage,
        *,
        payer: Payer | None = None,
    ) -> None:
        """Replaces the reserved price by the real one, and books the call on the accounts of the team and the key."""
        charge = Charge(
            micro=round(usd * MICRO),
            reserved_micro=math.ceil(reserved_usd * MICRO),
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
        )
        booked = [Account.of_team(team, self._month())]
        if payer is not None:
            booked.append(Account.of_key(payer.key_id, self._month()))
        reserved = [account for account, _, _ in self._ceilings(job_id, team, payer)]
        await self._accounts.charge(charge, booked=booked, reserved=reserved)

    async def team(self, team: str) -> MonthUsage:
        """Returns the team's usage in the current month (UTC)."""
        return await self._usage(Account.of_team(team, self._month()))

    async def key(self, key_id: str) -> MonthUsage:
        """Returns the usage of an API key in the current month (UTC)."""
        return await self._usage(Account.of_key(key_id, self._month()))

    async def _usage(self, account: Account) -> MonthUsage:
        calls, tokens_in, tokens_out, micro = await self._accounts.usage(account)
        return MonthUsage(calls, tokens_in, tokens_out, micro / MICRO)

    def _ceilings(self, job_id: str, team: str, payer: Payer | None) -> list[tuple[Account, int, str]]:
        """The accounts that have a ceiling, with it in micro-dollars and the reason of a refusal."""
        found: list[tuple[Account, int, str]] = []
        if job_id and self._document_micro:
            found.append((Account.of_job(job_id), self._document_micro, DOCUMENT_CEILING))
        if payer is not None and payer.budget_micro:
            found.append((Account.of_key(payer.key_id, self._month()), payer.budget_micro, KEY_CEILING))
        if self._team_micro:
            found.append((Account.of_team(team, self._month()), self._team_micro, TEAM_CEILING))
        return found

    def _month(self) -> str:
        return time.strftime("%Y-%m", time.gmtime(self._clock.now()))
