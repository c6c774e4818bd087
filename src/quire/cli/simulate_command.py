"""`quire simulate`: the provider simulator, for tests and for planning a load."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from quire.cli import exit_codes
from quire.cli.exit_codes import CommandUsageError
from quire.cli.interrupts import until_stopped
from quire.cli.startup import run_service
from quire.errors import RequestError


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT. Prints its address on standard output once it answers."""
    from quire.simulator.scenario import parse

    try:
        given = _read(Path(args.scenario)) if args.scenario else {}
        if args.truth and isinstance(given, dict):
            given = {**given, "truth": _read(Path(args.truth))}
        scenario = parse(given)
    except RequestError as error:
        raise CommandUsageError(f"{args.scenario or args.truth}: {error.public}") from error
    run_service(_serve(scenario, args))
    return exit_codes.OK


async def _serve(scenario: Any, args: argparse.Namespace) -> None:
    from quire.clock import SystemClock
    from quire.simulator.provider_server import Simulator, start

    simulator = Simulator(scenario, SystemClock(), seed=args.seed)
    runner, address = await start(simulator, host=args.host, port=args.port)
    try:
        print(f"The simulator listens on {address}", flush=True)
        await until_stopped()
    finally:
        simulator.stop()
        await runner.cleanup()


def _read(path: Path) -> object:
    """A scenario file: JSON, or YAML by its ending. Raises CommandUsageError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandUsageError(f"The scenario {path} can't be read.") from error
    if path.suffix.lower() not in {".yaml", ".yml"}:
        try:
            return json.loads(text)
        except ValueError as error:
            raise CommandUsageError(f"The scenario {path} is not JSON.") from error
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CommandUsageError(f"The scenario {path} is not YAML.") from error
