"""Exit codes of commands, and the one sentence on standard error when a command fails."""

from __future__ import annotations

import os
import signal
import sys

from quire.errors import QuireError, SettingsError

OK = 0
FAILED = 1
USAGE = 2
PARTIAL = 3
"""Converted, but some pages could not be read."""
INTERRUPTED = 128 + signal.SIGINT
_READER_LEFT = 128 + signal.SIGPIPE


class CommandUsageError(QuireError):
    """What was asked can't be done as asked; nothing has been started."""

    code = "usage"


def report(error: Exception, *, debug: bool) -> int:
    """Says what went wrong and answers the exit code. The traceback is shown only with --debug."""
    if debug:
        import traceback

        traceback.print_exception(error)
    cause = first_cause(error)
    if isinstance(cause, QuireError):
        for line in cause.public.splitlines():
            say(f"quire: {line}")
        return USAGE if isinstance(cause, CommandUsageError | SettingsError) else FAILED
    if isinstance(cause, OSError) and cause.strerror:
        place = f"{cause.filename}: " if cause.filename else ""
        say(f"quire: {place}{cause.strerror}.")
    else:
        say(f"quire: something unexpected went wrong ({type(cause).__name__}). Run it again with --debug.")
    return FAILED


def first_cause(error: Exception) -> Exception:
    """Task groups wrap what their tasks raised; a user wants to hear of the error itself."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def say(line: str) -> None:
    """One line on standard error, without anything in it that a terminal would obey."""
    print(printable(line), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """File names and error texts come from anywhere; escape sequences in them must not reach a terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def reader_left() -> int:
    """The reader of our output (`| head`) has closed the pipe: that is no error, and there is nothing left to flush."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return _READER_LEFT
