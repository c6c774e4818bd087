"""The embedding model that comes with Quire."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import numpy as np
import pytest

from quire.embedding.local_embedder import LocalEmbedder
from quire.errors import EmbeddingError


async def test_alike_texts_are_nearer_than_others() -> None:
    car, vehicle, cake = await LocalEmbedder().embed(
        ["car insurance policy", "vehicle coverage contract", "chocolate cake recipe"]
    )
    assert float(car @ vehicle) > float(car @ cake) + 0.2
    assert np.linalg.norm(car) == pytest.approx(1.0, abs=1e-3)


async def test_every_text_gets_its_own_vector_when_many_ask_at_once() -> None:
    embedder = LocalEmbedder()
    texts = [f"document about subject {n}" for n in range(70)]
    (together, *alone) = await asyncio.gather(
        embedder.embed(texts), *(embedder.embed([text]) for text in texts[:5])
    )
    assert len(together) == 70
    for number, (one,) in enumerate(alone):
        assert np.allclose(one, together[number], atol=1e-5)


async def test_hostile_texts_get_finite_vectors() -> None:
    found = await LocalEmbedder().embed(["", "  \n", "\0", "日本語", "x" * 100_000, "🙂" * 5000])
    assert [float(np.linalg.norm(one)) > 0 for one in found] == [False, False, True, True, True, True]
    assert all(np.isfinite(one).all() for one in found)
    assert await LocalEmbedder().embed([]) == []


async def test_embedding_error_is_raised_when_time_is_up() -> None:
    with pytest.raises(EmbeddingError) as late:
        await LocalEmbedder().embed(["text"] * 1000, timeout_s=0.0001)
    assert late.value.retryable


def test_logging_stays_as_it_was_when_the_model_is_loaded() -> None:
    code = (
        "import asyncio, logging; from quire.embedding.local_embedder import LocalEmbedder; "
        "asyncio.run(LocalEmbedder().open()); root = logging.getLogger(); print(root.level, root.handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{logging.WARNING} []\n"
