"""`quire backup`: a copy of a data directory, running or not, that can be served."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from quire.cli import exit_codes
from quire.cli.startup import settings_from
from quire.pipeline.upkeep.data_backup import back_up


def run(args: argparse.Namespace) -> int:
    """Raises SettingsError, StateConflictError, or the error of a plane that can't be copied."""
    target = Path(args.target).absolute()
    report = asyncio.run(back_up(settings_from(args), target))
    print(
        f"Copied to {target}: the queues, {report.objects} objects"
        f"{' and the catalog' if report.has_catalog else ''}. Serve it with: quire serve --data-dir {target}"
    )
    return exit_codes.OK
