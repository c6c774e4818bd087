"""Signals while something must be made whole."""

from __future__ import annotations

import os
import signal

import pytest

from quire.cli import interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_waits_until_what_is_held_is_done(number: signal.Signals) -> None:
    done = []

    def make() -> None:
        with interrupts.as_keyboard_interrupt():
            with interrupts.held():
                os.kill(os.getpid(), number)
                done.append("made")
            done.append("never")

    with pytest.raises(KeyboardInterrupt):
        make()
    assert done == ["made"]


def test_handlers_are_the_old_ones_after_a_hold() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interrupts.held():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
