"""Who counts calls, for metrics. A process that nobody asks for figures counts nothing."""

from __future__ import annotations

from typing import Protocol


class Counting(Protocol):
    def call_ended(
        self, provider: str, model: str, outcome: str, *, seconds: float, tokens: tuple[int, int], usd: float
    ) -> None:
        """`outcome` is `ok`, the code of an error, or why the answer did not count."""
        ...

    def page_from_cache(self) -> None: ...

    def page_parked(self) -> None: ...


class NotCounting:
    def call_ended(
        self, provider: str, model: str, outcome: str, *, seconds: float, tokens: tuple[int, int], usd: float
    ) -> None:
        pass

    def page_from_cache(self) -> None:
        pass

    def page_parked(self) -> None:
        pass
