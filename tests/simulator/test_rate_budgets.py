"""The enforced limits against what a limit means: never more than that in any window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.simulator.rate_budgets import Bucket, Budgets, SlidingWindow
from quire.simulator.scenario import ModelProfile

steps = st.lists(st.tuples(st.floats(0, 20, allow_nan=False), st.integers(1, 40)), min_size=1, max_size=120)


@given(steps)
def test_sliding_window_never_admits_more_than_the_limit_when_calls_come_at_random(
    steps: list[tuple[float, int]],
) -> None:
    window, at_s, taken = SlidingWindow(100, tolerance_s=0), 0.0, []
    for pause_s, amount in steps:
        at_s += pause_s
        if window.wait_s(amount, at_s) <= 0:
            window.take(amount, at_s)
            taken.append((at_s, amount))
    for end_s, _ in taken:
        assert sum(amount for then_s, amount in taken if end_s - 60 < then_s <= end_s) <= 100


@given(steps)
def test_bucket_never_admits_more_than_burst_and_refill_when_calls_come_at_random(
    steps: list[tuple[float, int]],
) -> None:
    bucket, at_s, taken = Bucket(60, burst_s=30, tolerance_s=0), 0.0, []
    for pause_s, wanted in steps:
        at_s += pause_s
        amount = min(wanted, 30)
        if bucket.wait_s(amount, at_s) <= 0:
            bucket.take(amount, at_s)
            taken.append((at_s, amount))
    for first, (start_s, _) in enumerate(taken):
        for last in range(first, len(taken)):
            used = sum(amount for _, amount in taken[first : last + 1])
            assert used <= 30 + (taken[last][0] - start_s) + 1e-6


@given(steps)
def test_wait_is_long_enough_and_not_longer_when_told(steps: list[tuple[float, int]]) -> None:
    for budget in (Bucket(100, 60, 0), SlidingWindow(100, 0)):
        at_s = 0.0
        for pause_s, amount in steps:
            at_s += pause_s
            wait_s = budget.wait_s(amount, at_s)
            if wait_s > 0:
                assert wait_s <= 60 + 1e-6
                at_s += wait_s + 1e-6
                assert budget.wait_s(amount, at_s) <= 1e-5
                continue
            budget.take(amount, at_s)
            assert 0 <= budget.left(at_s) <= 100
            assert 0 <= budget.reset_s(at_s) <= 60 + 1e-6


def test_nothing_is_counted_when_one_of_the_two_is_short() -> None:
    budgets = Budgets.of(ModelProfile(rpm=10, tpm=100, tolerance_s=0))
    assert budgets.requests is not None
    assert budgets.tokens is not None
    assert budgets.take(80, 0.0) == 0
    assert budgets.take(80, 0.0) > 0
    assert (budgets.requests.left(0.0), budgets.tokens.left(0.0)) == (9, 20)


def test_huge_call_is_not_barred_for_ever_when_it_exceeds_the_limit() -> None:
    assert Bucket(100, 60, 0).wait_s(5_000, 0.0) == 0
    assert SlidingWindow(100, 0).wait_s(5_000, 0.0) == 0
