"""Admission of AI calls: breakers, leases and limits of all candidates, decided in one round trip.

The scripts use the server's clock, so that workers with different clocks agree; tests pass their own. Time in the
scripts never goes back. Weakness: when the server's clock jumps forward, every bucket is full once more, which is one
capacity (one second of requests, or the tokens of one page).
"""

from __future__ import annotations

import json
import logging
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.ai_leases import new_lease_id
from quire.coordination.connection import RedisConnection

_LOG = logging.getLogger(__name__)
START_CAP = 2
_LEASE_MARGIN_S = 5.0
"""What a call may take beyond its timeout: the first one loads the provider's SDK."""
_ASK = struct.Struct("=5d")
_ANSWERED_KEPT_S = 3600.0
"""How long the last success of a model is known."""
_WANTED_S = 180.0
"""How long recovery stays wanted after a page found no model; classifications ask again within a minute."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model of a provider and the account's limits for it. 0: no limit is known."""

    provider: str
    model: str
    rpm: int = 0
    tpm: int = 0
    max_inflight: int = 16

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


@dataclass(frozen=True, slots=True)
class Ask:
    """A target and the tokens that the call may use there, input and output."""

    target: Target
    tokens: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The permission for one call. The holder settles it after any outcome; otherwise it expires."""

    id: str
    place: int
    target: Target
    tokens: int
    admitted_ms: int
    probe: bool


class BusyReason(StrEnum):
    """Why a candidate can't be called now; the values are the script's letters."""

    PROVIDER_OPEN = "a"
    OPEN = "o"
    PROBING = "h"
    IN_FLIGHT = "f"
    REQUESTS = "r"
    TOKENS = "t"
    PAUSED = "p"

    @property
    def broken(self) -> bool:
        """Whether a breaker is open, as opposed to a limit that is reached."""
        return self in (BusyReason.PROVIDER_OPEN, BusyReason.OPEN, BusyReason.PROBING)


@dataclass(frozen=True, slots=True)
class Busy:
    """No candidate is free. `wait_s` is the time until the first may be; `why` has one reason for each."""

    wait_s: float
    why: tuple[BusyReason, ...]


@dataclass(frozen=True, slots=True)
class Free:
    """A candidate would be free; nothing was taken."""

    place: int


class CallOutcome(StrEnum):
    """How a call ended, for limits and breakers."""

    OK = "ok"
    NEUTRAL = "neutral"
    FAILED = "fail"
    LIMITED = "limit"
    AUTH = "auth"
    UNSENT = "unsent"


@dataclass(frozen=True, slots=True)
class ReportedLimits:
    """Limits that the provider reported: per minute, and a pause before the next call. 0: not reported."""

    rpm: int = 0
    tpm: int = 0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Settled:
    """`counted` is False if the lease had expired or was settled before. `room`: calls that could go now."""

    counted: bool
    open: bool
    opens_in_s: float
    room: int


@dataclass(frozen=True, slots=True)
class ModelState:
    """The state of a model, for `GET /dispatch` and `quire dispatch`."""

    target: Target
    state: str
    opens_in_s: float
    incidents: int
    in_flight: int
    cap: int
    rpm: int
    rpm_used: float
    tpm: int
    tpm_used: float
    calls_ok: int
    calls_failed: int
    last_error: str


@dataclass(frozen=True, slots=True)
class RecentError:
    target: str
    code: str
    at: float


@dataclass(frozen=True, slots=True)
class Backoff:
    base_s: float = 30.0
    max_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Admission:
    """`lease_s` must be longer than the longest call. Raises CoordinationError during an outage of the server."""

    connection: RedisConnection
    lease_s: float = 60.0 + _LEASE_MARGIN_S
    backoff: Backoff = field(default_factory=Backoff)
    clock: Clock | None = None
    sticky: bool = False
    """Whether a page waits for its first healthy candidate when that is short of budget (BUDGET_POLICY)."""
    holder: str = ""
    """The id of this process (`WorkerId`): when it is dead, its leases are released (`AiLeases`). Without one, they
    expire."""

    @classmethod
    def for_timeout(
        cls,
        connection: RedisConnection,
        timeout_s: float,
        backoff: Backoff,
        *,
        sticky: bool = False,
        holder: str = "",
    ) -> Admission:
        return cls(connection, timeout_s + _LEASE_MARGIN_S, backoff, sticky=sticky, holder=holder)

    async def admit(self, asks: Sequence[Ask]) -> Lease | Busy:
        """Returns a lease on the first free candidate, or when to ask again."""
        lease_id = new_lease_id(self.holder)
        answer = await self._ask(asks, lease_id, take=True)
        if not answer[0]:
            return _busy(answer)
        ask = asks[answer[1] - 1]
        return Lease(lease_id, answer[1] - 1, ask.target, ask.tokens, int(answer[2]), bool(answer[3]))

    async def peek(self, asks: Sequence[Ask]) -> Free | Busy:
        """Returns whether a candidate is free, without taking a lease."""
        answer = await self._ask(asks, "-", take=False)
        return Free(answer[1] - 1) if answer[0] else _busy(answer)

    async def admit_probe(self, target: Target, rested_s: float) -> Lease | None:
        """Returns a lease for a probe of a model whose breaker opened at least rested_s ago, also before its time.

        None if the breaker is closed, opened later, has a probe in flight, or the provider asked for a longer pause.
        """
        lease_id = new_lease_id(self.holder)
        answer = await self._ask([Ask(target, 0)], lease_id, take=True, early_s=rested_s)
        if not answer[0]:
            return None
        lease = Lease(lease_id, 0, target, 0, int(answer[2]), bool(answer[3]))
        if lease.probe:
            log_half_open(target)
            return lease
        await self.settle(lease, CallOutcome.UNSENT)
        return None

    async def want_recovery(self) -> None:
        """Records that a page or document found no model: broken models are probed while this is recent."""
        await self.connection.command("SET", keys.AI_RECOVERY_WANTED, 1, "PX", _ms(_WANTED_S))

    async def recovery_wanted(self) -> bool:
        return bool(await self.connection.command("EXISTS", keys.AI_RECOVERY_WANTED))

    async def settle(
        self,
        lease: Lease,
        outcome: CallOutcome,
        *,
        code: str = "",
        tokens: int = 0,
        retry_after_s: float = 0.0,
        reported: ReportedLimits = ReportedLimits(),  # noqa: B008 - frozen
    ) -> Settled:
        """Ends a lease. Idempotent: only the first time counts."""
        target = lease.target
        of = keys.ModelKeys.of(target.provider, target.model)
        answer = await self.connection.script(
            "ai/settle",
            [
                keys.AI_CLOCK,
                *of.all(),
                keys.AI_ERRORS,
                keys.ai_answered(target.provider, target.model),
            ],
            *(self._now(), lease.id, lease.admitted_ms, outcome.value, code, lease.tokens, tokens),
            *(target.rpm, target.tpm, target.max_inflight, START_CAP),
            *(_ms(retry_after_s), _ms(self.backoff.base_s), _ms(self.backoff.max_s)),
            *(reported.rpm, reported.tpm, _ms(reported.pause_s), str(target), _ms(_ANSWERED_KEPT_S)),
        )
        settled = Settled(bool(answer[0]), answer[1] == "open", answer[2] / 1000, int(answer[3]))
        _log_changes(target, answer[4], answer[5], code, settled.opens_in_s)
        return settled

    async def states(self, targets: Sequence[Target]) -> list[ModelState]:
        names, args = [keys.AI_CLOCK], [self._now()]
        for target in targets:
            names += keys.ModelKeys.of(target.provider, target.model).all()
            args += (str(target.rpm), str(target.tpm))
        rows = await self.connection.script("ai/models", names, *args)
        return [_state(target, rows[14 * i : 14 * i + 14]) for i, target in enumerate(targets)]

    async def since_answer_s(self, targets: Sequence[Target]) -> float:
        """Returns how long ago a call of one of the models succeeded; infinity if none has in the last hour."""
        left = await self.connection.commands(
            [("PTTL", keys.ai_answered(one.provider, one.model)) for one in targets]
        )
        ages = [_ANSWERED_KEPT_S - int(ms) / 1000 for ms in left if int(ms) > 0]
        return max(0.0, min(ages, default=math.inf))

    async def recent_errors(self, limit: int = 20) -> list[RecentError]:
        """The newest first."""
        rows = await self.connection.command("LRANGE", keys.AI_ERRORS, 0, limit - 1)
        parsed = [json.loads(row) for row in rows]
        return [RecentError(row["target"], row["code"], float(row["at"]) / 1000) for row in parsed]

    async def _ask(self, asks: Sequence[Ask], lease_id: str, *, take: bool, early_s: float = 0.0) -> Any:
        providers = list(dict.fromkeys(ask.target.provider for ask in asks))
        of = [keys.ModelKeys.of(ask.target.provider, ask.target.model) for ask in asks]
        names = [keys.AI_CLOCK, keys.ai_lease(lease_id), *map(keys.ai_provider_breaker, providers)]
        names += (one.breaker for one in of)
        packed = b""
        for ask, one in zip(asks, of, strict=True):
            names += (one.rpm, one.tpm, one.inflight)
            target = ask.target
            place = providers.index(target.provider) + 1
            packed += _ASK.pack(place, target.rpm, target.tpm, target.max_inflight, ask.tokens)
        names.append(keys.AI_MODELS)
        return await self.connection.script(
            "ai/admit",
            names,
            *(
                self._now(),
                lease_id,
                _ms(self.lease_s),
                START_CAP,
                int(take),
                len(providers),
                packed,
                int(self.sticky),
                _ms(early_s),
            ),
        )

    def _now(self) -> str:
        return "" if self.clock is None else str(now_ms(self.clock))


def _busy(answer: Sequence[Any]) -> Busy:
    return Busy(float(answer[1]) / 1000, tuple(BusyReason(letter) for letter in answer[2]))


def log_half_open(target: Target) -> None:
    """Call it when a probe is sent. A lease for one may also be handed back unsent."""
    _LOG.info("breaker half-open", extra=_breaker_fields(target))


def _log_changes(target: Target, own: str, wide: str, code: str, opens_in_s: float) -> None:
    """Logs what a call did to the breakers of its model and of its provider."""
    if own == "opened":
        fields = {**_breaker_fields(target), "error_class": code, "cooldown_s": round(opens_in_s, 3)}
        _LOG.warning("breaker opened", extra=fields)
    elif own == "closed":
        _LOG.info("breaker closed", extra=_breaker_fields(target))
    if wide == "opened":
        fields = {"provider": target.provider, "model": "*", "error_class": code}
        _LOG.error("breaker opened: the provider rejects the key", extra=fields)
    elif wide == "closed":
        _LOG.info("breaker closed", extra={"provider": target.provider, "model": "*"})


def _breaker_fields(target: Target) -> dict[str, object]:
    return {"provider": target.provider, "model": target.model}


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def _state(target: Target, row: Sequence[str]) -> ModelState:
    wide, own = row[0:3], row[3:6]
    # A model is as unavailable as the stricter of the two breakers.
    incidents, left_ms, code = wide if float(wide[0]) and float(wide[1]) >= float(own[1]) else own
    state = "closed" if not float(incidents) else "open" if float(left_ms) else "half_open"
    out, cap, rpm, requests, tpm, tokens, ok, failed = (float(one) for one in row[6:14])
    return ModelState(
        target=target,
        state=state,
        opens_in_s=float(left_ms) / 1000,
        incidents=int(float(incidents)),
        in_flight=int(out),
        cap=min(int(cap) or START_CAP, target.max_inflight),
        rpm=int(rpm),
        rpm_used=requests,
        tpm=int(tpm),
        tpm_used=tokens,
        calls_ok=int(ok),
        calls_failed=int(failed),
        last_error=code,
    )
