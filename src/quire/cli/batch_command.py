"""`quire batch`: many documents converted by a running service under one id, with all results in one file."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from quire.cli import exit_codes
from quire.cli.exit_codes import CommandUsageError, printable, say
from quire.cli.service_client import ServiceError
from quire.cli.startup import settings_from
from quire.client import Batch, ClientError, Options, Quire, UsageError


def run(args: argparse.Namespace) -> int:
    """Exit code 1 if no document was converted, 3 if some were not. Raises CommandUsageError, ServiceError."""
    if bool(args.sources) == bool(args.id):
        raise CommandUsageError("Give documents, or the id of a batch with --id.")
    if args.cancel and not args.id:
        raise CommandUsageError("--cancel goes with --id.")
    settings = settings_from(args).client
    try:
        with Quire(settings.url, settings.api_key) as quire:
            return _run(quire, args)
    except UsageError as error:
        raise CommandUsageError(str(error)) from error
    except ClientError as error:
        raise ServiceError(str(error)) from error


def _run(quire: Quire, args: argparse.Namespace) -> int:
    if args.cancel:
        batch = quire.cancel_batch(args.id)
    elif args.id:
        batch = quire.batch_state(args.id)
    else:
        batch = quire.batch(args.sources, options=Options(mode=args.mode), wait=False)
        say(f"quire: batch {batch.batch_id}: {batch.total} documents.")
    if not args.no_wait and not batch.over:
        batch = quire.wait_batch(batch.batch_id, on_progress=_show_progress)
    if args.json:
        print(json.dumps(dataclasses.asdict(batch), ensure_ascii=False, indent=2))
    elif args.no_wait:
        print(batch.batch_id)
    else:
        _show(batch)
    if not batch.over:
        return exit_codes.OK
    if args.output and batch.completed:
        quire.export_batch(batch.batch_id, args.output, format=args.format)
    if batch.completed == batch.total:
        return exit_codes.OK
    return exit_codes.PARTIAL if batch.completed else exit_codes.FAILED


def _show_progress(batch: Batch) -> None:
    if sys.stderr.isatty():
        print(f"\r{batch.ended} of {batch.total} documents", end="", file=sys.stderr, flush=True)


def _show(batch: Batch) -> None:
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for one in batch.items:
        error = f"  {one.error.get('error', '')}" if one.error else ""
        print(printable(f"{one.status:10} {one.job_id or '-'}  {one.name}{error}"))
