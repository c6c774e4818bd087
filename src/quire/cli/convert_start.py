"""`quire convert` begins with its readers: they load the parsers while this process loads all the rest."""

from __future__ import annotations

import argparse
import gc

from quire.reading.pool.server_process import ServerProcess


def run(args: argparse.Namespace) -> int:
    """As `convert_command.run`."""
    readers = ServerProcess()
    try:
        # Imported after the readers have been started.
        from quire.cli.interrupts import as_keyboard_interrupt

        with as_keyboard_interrupt():
            gc.disable()  # collecting during the imports takes a ninth of their time
            try:
                from quire.cli import convert_command
            finally:
                gc.enable()
            return convert_command.run(args, readers)
    finally:
        readers.kill()
