"""The building blocks of arguments: a command that is loaded when it runs, common options, kinds of values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module

Command = Callable[[argparse.Namespace], int]


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    module: str,
    function: str,
    help_text: str,
    *,
    details: str = "",
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=help_text,
        description=help_text[0].upper() + help_text[1:] + ".",
        epilog=details or None,
        allow_abbrev=False,
    )

    def load() -> Command:
        found: Command = getattr(import_module(f"quire.cli.{module}"), function)
        return found

    parser.set_defaults(load_command=load)
    add_debug_option(parser)
    return parser


def add_debug_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,  # or the command's own default would undo `quire --debug COMMAND`
        help="log everything and show tracebacks",
    )


def add_data_dir(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument("--data-dir", metavar="DIR", help=help_text)


def add_service_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="the address of the service (QUIRE_URL)")
    parser.add_argument("--json", action="store_true", help="the answer as it came, for programs")


def pause(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError("expected a number of seconds from 0.05 to 3600")
    return value


def dollars(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError("expected a number of US dollars above 0")
    return value


def port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError("expected a number from 0 to 65535")
    return value


def few(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError("expected a number from 1 to 100")
    return value


def count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError("expected a number from 1 to 1000")
    return value
