"""Sizes and waits from a measured line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.batching.service_model import SLOW_S, SLOW_SIZE, TABLE, ServiceModel, batch_size, wait_s

GPU = ServiceModel(0.05, 0.005, measured=True)

models = st.builds(ServiceModel, st.floats(0, 100), st.floats(0, 10), st.booleans())


@given(depth=st.integers(1, 20_000), slots=st.integers(1, 16), most=st.integers(1, 64), model=models)
def test_size_is_within_its_bounds_when_anything_waits(
    depth: int, slots: int, most: int, model: ServiceModel
) -> None:
    size = batch_size(depth, [0.0] * (slots - 1), most, model)
    assert 1 <= size <= min(depth, most)
    least = min(depth, most, next(size for waiting, size in TABLE if depth >= waiting))
    slow = model.measured and model.seconds(2 * size + 1) > SLOW_S
    assert size >= least or (slow and size >= min(least, SLOW_SIZE))


@pytest.mark.parametrize(
    ("depth", "size"), [(1, 1), (3, 3), (8, 4), (40, 10), (100, 25), (128, 32), (2000, 32), (10_000, 32)]
)
def test_queue_is_spread_over_the_slots_when_that_empties_it_sooner(depth: int, size: int) -> None:
    assert batch_size(depth, [0.0] * 3, 32, GPU) == size


@pytest.mark.parametrize(
    ("depth", "busy_s", "size"),
    [
        (120, [0.05, 0.06, 0.07], 32),  # more than one batch in every slot: as large as may be
        (88, [0.01, 0.02, 0.21], 32),
        (57, [0.01, 0.2, 0.21], 30),  # two slots share the rest, the one that is free later takes less
        (28, [0.19, 0.2, 0.21], 28),  # nobody else is free in time
    ],
)
def test_slots_end_together_when_they_get_free_one_after_the_other(
    depth: int, busy_s: list[float], size: int
) -> None:
    assert batch_size(depth, busy_s, 32, GPU) == size


def test_batches_are_halved_when_they_would_take_too_long() -> None:
    assert batch_size(2000, [0.0] * 3, 32, ServiceModel(10, 4, measured=True)) == 8


def test_there_is_no_batch_when_nothing_waits() -> None:
    assert batch_size(0, [0.0] * 3, 32, GPU) == 0


@given(
    fixed=st.floats(0.001, 10),
    each=st.floats(0.0001, 1),
    sizes=st.lists(st.integers(1, 64), min_size=2, max_size=30, unique=True),
)
def test_line_is_found_when_times_lie_on_one(fixed: float, each: float, sizes: list[int]) -> None:
    sums = [0.0] * 5
    for size in sizes:
        seconds = fixed + each * size
        sums = [
            0.95 * old + new
            for old, new in zip(sums, (1, size, seconds, size * size, size * seconds), strict=True)
        ]
    model = ServiceModel.fitted(sums)
    assert math.isclose(model.seconds(32), fixed + each * 32, rel_tol=0.02, abs_tol=0.01)


def test_estimate_is_that_of_the_physical_limit_when_many_wait() -> None:
    assert wait_s(1999, 4, 32, GPU) == pytest.approx(16 * 0.21)
    assert wait_s(0, 4, 32, GPU) == pytest.approx(0.055)
