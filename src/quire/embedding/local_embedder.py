"""The embedding model that comes with Quire: static word vectors, averaged. No network, no GPU.

It takes about a second to load, 80 MB, and a fifth of a millisecond for a query, so it lives in this process and works
in a thread: a round trip to a child process would cost more than the embedding itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.domain.payer import Payer
from quire.errors import EmbeddingError

MODEL = "wordllama:l2-supercat-256"

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float32]]

_MAX_CHARS = 4_000
_AT_A_TIME = 32


class LocalEmbedder:
    """Safe for many calls at once; they take turns. The first call loads the model."""

    def __init__(self) -> None:
        self._loaded: Any = None
        self._turn = asyncio.Lock()

    @property
    def model(self) -> str:
        return MODEL

    async def open(self) -> None:
        """Loads the model, so that the first search doesn't wait for it. Raises EmbeddingError."""
        async with self._turn:
            await self._load()

    async def embed(
        self, texts: Sequence[str], *, team: str = "", timeout_s: float = 30.0, payer: Payer | None = None
    ) -> list[Floats]:
        """A vector of length one for each text, in order. A text without any words gets a vector of zeros.

        Raises EmbeddingError when the model is not there or `timeout_s` is over.
        """
        found: list[Floats] = []
        try:
            async with asyncio.timeout(timeout_s):
                async with self._turn:
                    loaded = await self._load()
                for at in range(0, len(texts), _AT_A_TIME):
                    some = [text[:_MAX_CHARS] for text in texts[at : at + _AT_A_TIME]]
                    async with self._turn:  # between two parts a waiting query gets its turn
                        found += await asyncio.to_thread(_embed, loaded, some)
        except TimeoutError as error:
            raise EmbeddingError("The embedding took too long.") from error
        return found

    async def _load(self) -> Any:
        if self._loaded is None:
            self._loaded = await asyncio.to_thread(_loaded_model)
        return self._loaded


def _loaded_model() -> Any:
    try:
        root = logging.getLogger()
        before = (root.level, root.handlers[:])
        import wordllama  # type: ignore[import-untyped]

        # The import configures logging for the whole process; that is undone here.
        root.setLevel(before[0])
        root.handlers[:] = before[1]
        # Its own search for the weights ends in a download; they are installed beside the code.
        return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    except (ImportError, OSError, ValueError) as error:
        raise EmbeddingError("The local embedding model can't be loaded.", retryable=False) from error


def _embed(loaded: Any, texts: list[str]) -> list[Floats]:
    import numpy as np  # here: an idle service has no use for its 20 MB

    # A blank text has no tokens, and the average of nothing is not a number.
    given = [text if text.strip() else "-" for text in texts]
    rows = np.asarray(loaded.embed(given, norm=True), dtype=np.float32)
    return [
        np.zeros(rows.shape[1], np.float32) if not text.strip() or not np.isfinite(row).all() else row
        for text, row in zip(texts, rows, strict=True)
    ]
