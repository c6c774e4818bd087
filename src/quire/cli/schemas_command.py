"""`quire schemas`: saved JSON Schemas of a running service, and tables of what documents say by them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from quire.cli import exit_codes
from quire.cli.exit_codes import CommandUsageError, say
from quire.cli.service_client import ServiceError, client_from
from quire.cli.startup import settings_from
from quire.client import ClientError, Filters, Quire, UsageError


def show_names(args: argparse.Namespace) -> int:
    """Prints a name a line."""
    answer = client_from(args).get("/schemas")
    print(json.dumps(answer) if args.json else "\n".join(answer["schemas"]))
    return exit_codes.OK


def show(args: argparse.Namespace) -> int:
    """Prints the schema; with --json also when and how it was saved. Raises MissingError."""
    answer = client_from(args).get(f"/schemas/{quote(args.name, safe='')}")
    print(json.dumps(answer if args.json else answer["schema"], ensure_ascii=False, indent=2))
    return exit_codes.OK


def save(args: argparse.Namespace) -> int:
    """Raises CommandUsageError for a file that is no JSON, ServiceError if the service refuses the schema."""
    try:
        schema = json.loads(Path(args.file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CommandUsageError(f"The schema {args.file} can't be read as JSON.") from error
    with _service(args) as quire:
        quire.documents.save_schema(
            args.name, schema, instructions=args.instructions, ungrounded=args.ungrounded
        )
    return exit_codes.OK


def delete(args: argparse.Namespace) -> int:
    """Raises MissingError if there is no such schema."""
    client_from(args).delete(f"/schemas/{quote(args.name, safe='')}")
    return exit_codes.OK


def apply(args: argparse.Namespace) -> int:
    """Writes the table to a file, which is there whole or not at all. Raises ServiceError."""
    filters = Filters(
        tags=tuple(args.tag), types=tuple(args.type), date_from=args.date_from, date_to=args.date_to
    )
    with _service(args) as quire:
        quire.documents.apply_schema(
            args.name, args.output, format=args.format, query=args.query, filters=filters
        )
    say(f"quire: written to {args.output}.")
    return exit_codes.OK


@contextmanager
def _service(args: argparse.Namespace) -> Iterator[Quire]:
    settings = settings_from(args).client
    try:
        with Quire(settings.url, settings.api_key) as quire:
            yield quire
    except UsageError as error:
        raise CommandUsageError(str(error)) from error
    except ClientError as error:
        raise ServiceError(str(error)) from error
