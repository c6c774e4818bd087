"""The protocol of an embedder: the bundled model or a provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from quire.domain.payer import Payer


class Embedder(Protocol):
    """Safe for many calls at once."""

    @property
    def model(self) -> str:
        """The model and what else makes its vectors comparable; kept with each vector."""
        ...

    async def embed(
        self, texts: Sequence[str], *, team: str, timeout_s: float, payer: Payer | None = None
    ) -> Sequence[Any]:
        """A vector for each text, in order. Raises NoEmbedderFreeError, or a QuireError that says what went wrong."""
        ...
