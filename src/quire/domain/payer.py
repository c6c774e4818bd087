"""The payer of AI calls: the API key that a request came with, and its monthly budget.

A job keeps its payer, so that every worker books on the account of that key. Jobs that came with no key of the catalog
have none.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

MICRO = 1_000_000
"""Micro-dollars in a US dollar."""
_CURRENT: ContextVar[Payer | None] = ContextVar("payer", default=None)


@dataclass(frozen=True, slots=True)
class Payer:
    """`budget_micro` is the most micro-dollars in a month; 0 is no budget."""

    key_id: str
    budget_micro: int = 0

    def as_text(self) -> str:
        """Returns the form in which a job keeps it."""
        return f"{self.key_id}:{self.budget_micro}"

    @classmethod
    def parse(cls, text: str | None) -> Payer | None:
        """Returns None for a job without a payer, or one whose text can't be read."""
        key_id, _, budget = (text or "").partition(":")
        return cls(key_id, int(budget)) if key_id and budget.isdigit() else None


def current_payer() -> Payer | None:
    """Returns the payer of the current request; None outside of one."""
    return _CURRENT.get()


def set_current_payer(payer: Payer | None) -> None:
    """Sets the payer for the rest of the current request, and for tasks that it starts."""
    _CURRENT.set(payer)
