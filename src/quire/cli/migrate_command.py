"""`quire migrate`: copies a data directory into Redis, an object store and PostgreSQL, and compares the copy."""

from __future__ import annotations

import argparse
import asyncio

from quire.cli import exit_codes, interrupts
from quire.cli.startup import errors_only, settings_from
from quire.pipeline.upkeep.plane_migration import MigrationReport, migrate_planes


def run(args: argparse.Namespace) -> int:
    """Raises SettingsError, DataDirInUseError, StateConflictError, or the error of a plane that fails."""
    errors_only()
    settings = settings_from(args)
    with interrupts.as_keyboard_interrupt():
        report = asyncio.run(
            interrupts.stoppable(migrate_planes(settings, dry_run=args.dry_run, progress=_progress))
        )
    _print(report, dry_run=args.dry_run)
    return exit_codes.OK


def _progress(step: str) -> None:
    exit_codes.say(f"quire: {step} …")


def _print(report: MigrationReport, *, dry_run: bool) -> None:
    if report.was_done:
        print(
            "This data directory was copied to these targets before; nothing was done. "
            "To copy it again, delete migration.json in it and empty the targets."
        )
        return
    for plane, content in report.planes.items():
        print(f"{plane:<10}{'would copy ' if dry_run else 'copied and compared '}{content}")
    if report.needs_key_file:
        print("Copy secret.key from the data directory to the DATA_DIR of every process of the fleet.")
