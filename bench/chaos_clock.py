"""`python bench/chaos_clock.py FILE ARGS…` is `quire ARGS…` on a host whose clock is off by the seconds in FILE."""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path

_READ_EVERY_S = 0.2


class MovedClock:
    """The system's clock, moved by the number in a file, which may change at any time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._system = time.time
        self._offset_s, self._read_at = 0.0, -1.0

    def now(self) -> float:
        if time.monotonic() - self._read_at > _READ_EVERY_S:
            self._read_at = time.monotonic()
            self._offset_s = float(self._file.read_text() or 0)
        return self._system() + self._offset_s


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    time.time = MovedClock(file).now
    sys.argv[0] = "quire"
    runpy.run_module("quire", run_name="__main__", alter_sys=True)
