"""API keys: their scopes, their text, and what is stored of them. The key itself is never stored, only its hash."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum

from quire.domain.payer import MICRO, Payer

_FORM = re.compile(r"qk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


class KeyScope(StrEnum):
    """What a key permits; each includes those before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def permits(self, wanted: KeyScope) -> bool:
        order = list(KeyScope)
        return order.index(self) >= order.index(wanted)


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key as it is stored. For `requests_per_minute` and `budget_micro` (micro-dollars a month) 0 is no limit."""

    id: str
    team: str
    name: str
    scope: KeyScope
    digest: str
    created_at: float
    requests_per_minute: int = 0
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    budget_micro: int = 0

    def __repr__(self) -> str:
        return f"AccessKey({self.id}, {self.team}, {self.scope.value})"

    @property
    def payer(self) -> Payer:
        return Payer(self.id, self.budget_micro)

    @property
    def budget_usd(self) -> float:
        return self.budget_micro / MICRO

    def state_at(self, now: float) -> str:
        """Returns `valid`, `revoked` or `expired`."""
        return "valid" if self.valid_at(now) else "revoked" if self.revoked_at else "expired"

    def valid_at(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    at: float
    actor: str
    action: str
    subject: str
    details: str


def new_key() -> tuple[str, str]:
    """A new key and its id. The key has 256 bits of chance, so its hash needs no salt and no slowness."""
    key_id = secrets.token_hex(6)
    return f"qk_{key_id}_{secrets.token_urlsafe(32)}", key_id


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What a new key may do at most; the defaults are no limit."""

    requests_per_minute: int = 0
    budget_usd: float = 0.0
    expires_in_s: float | None = None


def made_key(team: str, name: str, scope: KeyScope, now: float, limits: KeyLimits) -> tuple[str, AccessKey]:
    """Returns a new key and what is stored of it. A budget below one micro-dollar counts as one."""
    text, key_id = new_key()
    key = AccessKey(
        id=key_id,
        team=team,
        name=name or key_id,
        scope=scope,
        digest=digest_of(text),
        created_at=now,
        requests_per_minute=limits.requests_per_minute,
        expires_at=None if limits.expires_in_s is None else now + limits.expires_in_s,
        budget_micro=math.ceil(limits.budget_usd * MICRO),
    )
    return text, key


def id_of(key: str) -> str | None:
    """The id inside a key; None for a text that is no key of this form."""
    match = _FORM.fullmatch(key)
    return match[1] if match else None


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
