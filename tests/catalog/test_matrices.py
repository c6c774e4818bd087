"""Comparing a query with many vectors in memory: what the sketch finds is what is there."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.search.nearness import Matrix
from tests.catalog.stored_documents import stored
from tests.catalog.test_vectors import EAST, NORTH, NORTH_EAST, near, put
from tests.support.clocks import MovableClock

DIMS = 256


def packed(rows: np.ndarray, first: int = 0) -> list[tuple[int, bytes]]:  # type: ignore[type-arg]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return [(first + number, row.astype("<f2").tobytes()) for number, row in enumerate(unit)]


def spread(many: int, seed: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(seed).normal(size=(many, DIMS)) * np.arange(1, DIMS + 1) ** -0.5


def test_nearest_are_the_true_ones_when_there_is_a_sketch() -> None:
    exact, sketched = Matrix(), Matrix()
    rows = packed(spread(22_000, 1))
    for matrix in (exact, sketched):
        matrix.put(rows[:21_000])
    assert sketched.wants_sketch
    sketched.make_sketch()
    assert not sketched.wants_sketch
    assert sketched.size_bytes > exact.size_bytes
    for matrix in (exact, sketched):
        matrix.put(rows[21_000:])  # after the sketch was made
        matrix.put([(7, rows[8][1])])  # another vector for the same document
        matrix.drop([5, 6])
    shares = []
    for seed in range(20):
        wanted = spread(1, 100 + seed)[0].astype(np.float32)
        wanted /= np.linalg.norm(wanted)
        true, found = exact.nearest(wanted, 50), sketched.nearest(wanted, 50)
        shares.append(len(true.keys() & found.keys()) / 50)
        assert not {5, 6} & found.keys()
        assert all(abs(found[pk] - true[pk]) < 1e-5 for pk in true.keys() & found.keys())
    assert np.mean(shares) > 0.97
    eighth = np.frombuffer(rows[8][1], "<f2").astype(np.float32)
    assert {7, 8} <= sketched.nearest(eighth, 3).keys()


def test_everything_is_compared_when_few_directions_tell_too_little() -> None:
    matrix = Matrix()
    matrix.put(packed(np.random.default_rng(3).normal(size=(20_500, DIMS))))
    matrix.make_sketch()
    assert not matrix.wants_sketch  # it was tried, and is not tried again for every new vector
    some = matrix.cosines(np.ones(DIMS, np.float32) / 16, [1, 2, 99_999])
    assert list(some) == [1, 2]
    found = matrix.nearest(np.ones(DIMS, np.float32) / 16, 10)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_vectors_of_another_width_are_left_out() -> None:
    matrix = Matrix()
    matrix.put([(1, np.ones(4, "<f2").tobytes()), (2, np.ones(6, "<f2").tobytes())])
    matrix.put([(3, np.ones(6, "<f2").tobytes())])
    assert list(matrix.nearest(np.ones(4, np.float32), 5)) == [1]
    assert matrix.nearest(np.ones(6, np.float32), 5) == {}


async def test_search_finds_all_when_another_was_given_up_while_a_thread_took_in_its_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = await Catalog.open(CatalogOptions(file=tmp_path / "catalog.db"), MovableClock())
    for name, values in (("n", NORTH), ("ne", NORTH_EAST)):
        await stored(catalog, name, title=name, language="en")
        await put(catalog, name, values)
    assert await near(catalog, NORTH) == ["n", "ne"]
    await stored(catalog, "e", title="e", language="en")
    await put(catalog, "e", EAST)

    inside, go_on, ended = threading.Event(), threading.Event(), threading.Semaphore(0)
    whole_reserve, whole_put = Matrix._reserve, Matrix.put

    def reserve(matrix: Matrix, wanted: int, dims: int) -> None:
        if not inside.is_set():  # the first thread stays halfway
            inside.set()
            go_on.wait(30)
        whole_reserve(matrix, wanted, dims)

    def put_and_tell(matrix: Matrix, rows: Sequence[tuple[int, bytes]]) -> None:
        try:
            whole_put(matrix, rows)
        finally:
            ended.release()

    monkeypatch.setattr(Matrix, "_reserve", reserve)
    monkeypatch.setattr(Matrix, "put", put_and_tell)
    given_up = asyncio.create_task(near(catalog, EAST))
    assert await asyncio.to_thread(inside.wait, 30)
    given_up.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await given_up
    assert await near(catalog, EAST) == ["e", "ne"]
    go_on.set()
    for _ in range(2):
        assert await asyncio.to_thread(ended.acquire, True, 30)
    assert await near(catalog, EAST) == ["e", "ne"]
    assert await near(catalog, EAST, language="en") == ["e", "ne"]
    await catalog.close()
