"""The command line. Only what `--help` needs is imported here; each command's module comes when it is chosen."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and answers its exit code. Never raises for what a user can do wrong."""
    from quire.cli.arguments import parse

    try:
        args = parse(argv)
    except SystemExit as ended:  # argparse has said what there is to say
        return ended.code if isinstance(ended.code, int) else 2
    from quire.cli import exit_codes

    try:
        code: int = args.load_command()(args)
        sys.stdout.flush()
    except BrokenPipeError:
        return exit_codes.reader_left()
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except Exception as error:
        return exit_codes.report(error, debug=args.debug)
    return code
