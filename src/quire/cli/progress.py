"""What `quire convert` and `quire jobs watch` show on standard error while they wait."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from quire.cli.exit_codes import printable, say
from quire.clock import Clock, SystemClock

if TYPE_CHECKING:
    import rich.progress

_EVERY_S = 2.0


class Progress(Protocol):
    """Documents are known by their place among those asked for."""

    def update(self, place: int, name: str, done: int, total: int) -> None:
        """So many pages are done; `total` is 0 until the document has been opened."""

    def finish(self, place: int, *lines: str, failed: bool = False) -> None:
        """The document is over, and these lines are to be said about it."""

    def close(self) -> None:
        """Nothing more will come."""


def progress(documents: int, *, quiet: bool) -> Progress:
    """Bars on a terminal, a few plain lines elsewhere, nothing when it should be quiet."""
    if quiet:
        return Silence()
    if sys.stderr.isatty():
        return Bars(documents)
    return Lines(documents)


class Silence:
    """Nothing but failures."""

    def update(self, place: int, name: str, done: int, total: int) -> None:
        pass

    def finish(self, place: int, *lines: str, failed: bool = False) -> None:
        if failed:
            for line in lines:
                say(line)

    def close(self) -> None:
        pass


class Lines:
    """One line now and then, whichever document it is about, so that a thousand documents don't flood a log."""

    def __init__(self, documents: int, clock: Clock | None = None) -> None:
        self._documents = documents
        self._finished = 0
        self._clock = clock or SystemClock()
        self._said_at = self._clock.monotonic()

    def update(self, place: int, name: str, done: int, total: int) -> None:
        now = self._clock.monotonic()
        if not 0 < done < total or now - self._said_at < _EVERY_S:
            return
        self._said_at = now
        count = f"[{self._finished}/{self._documents}] " if self._documents > 1 else ""
        say(f"{count}{name}: {done}/{total} pages")

    def finish(self, place: int, *lines: str, failed: bool = False) -> None:
        self._finished += 1
        count = f"[{self._finished}/{self._documents}] " if self._documents > 1 and not failed else ""
        for line in lines:
            say(f"{count}{line}")
            count = ""

    def close(self) -> None:
        pass


class Bars:
    """A bar for each document in work and, where there are several, one for them all; gone when it is over."""

    def __init__(self, documents: int) -> None:
        # Late: they take a tenth of a second to import.
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bars = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._of: dict[int, rich.progress.TaskID] = {}
        self._all: rich.progress.TaskID | None = None
        self._documents = documents
        self._finished = 0
        if documents > 1:
            self._all = self._bars.add_task("all documents", total=documents, count=f"0/{documents}")
        self._bars.start()

    def update(self, place: int, name: str, done: int, total: int) -> None:
        count = f"{done}/{total} pages" if total else "opening"
        bar = self._of.get(place)
        if bar is None:
            shown = printable(name) if len(name) <= 40 else f"…{printable(name)[-39:]}"
            self._of[place] = self._bars.add_task(shown, total=total or None, completed=done, count=count)
        else:
            self._bars.update(bar, total=total or None, completed=done, count=count)

    def finish(self, place: int, *lines: str, failed: bool = False) -> None:
        bar = self._of.pop(place, None)
        if bar is not None:
            self._bars.remove_task(bar)
        self._finished += 1
        if self._all is not None:
            self._bars.update(
                self._all, completed=self._finished, count=f"{self._finished}/{self._documents}"
            )
        for line in lines:
            self._bars.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._bars.stop()


def duration(seconds: float) -> str:
    """A rough time for people, in the unit that fits."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
