"""The arguments of the operator's commands: status, backup, migrate, keys."""

from __future__ import annotations

import argparse

from quire.cli.argument_kinds import add_command, add_data_dir, add_service_options, count, dollars, pause


def add_status(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "status",
        "status_command",
        "run",
        "show queues, workers, models and rates of a running service, live",
        details="At QUIRE_URL with QUIRE_API_KEY. Ends with Ctrl-C. With --once: 0 if it is healthy, else 1.",
    )
    parser.add_argument("--once", action="store_true", help="show it once, then end")
    parser.add_argument(
        "--every", type=pause, default=2.0, metavar="SECONDS", help="how often it is drawn (default: 2)"
    )
    add_service_options(parser)


def add_backup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "backup",
        "backup_command",
        "run",
        "copy a data directory, running or not, so that the copy can be served",
        details="For the embedded planes. To restore, start `quire serve --data-dir COPY`. See docs/operations.md.",
    )
    parser.add_argument("target", metavar="COPY", help="a folder that is not there yet, or is empty")
    add_data_dir(parser, "the data directory to copy (DATA_DIR)")


def add_migrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "migrate",
        "migrate_command",
        "run",
        "copy a data directory into Redis, an object store and PostgreSQL",
        details="The targets are REDIS_URL, OBJECT_STORE and DATABASE_URL; a plane that is not set is not copied. "
        "The service on the data directory must be stopped. A killed run is repeated. See docs/operations.md.",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check source and targets, say what would be copied"
    )
    add_data_dir(parser, "the data directory to copy (DATA_DIR)")


def add_keys(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "keys",
        help="make, list and revoke API keys",
        description="API keys of the catalog, on the host that has it (DATA_DIR, DATABASE_URL). Only hashes are kept.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = add_command(
        actions, "create", "keys_command", "run_create", "make a key and print it, this once"
    )
    create.add_argument("--team", required=True, help="the team whose data the key is for")
    create.add_argument("--name", default="", help="what it is for, shown in lists")
    create.add_argument(
        "--scope",
        choices=("read", "write", "admin"),
        default="write",
        help="what it permits (default: write)",
    )
    create.add_argument(
        "--rpm", type=count, default=0, metavar="N", help="requests a minute (default: no limit)"
    )
    create.add_argument(
        "--budget",
        type=dollars,
        default=0.0,
        metavar="USD",
        help="US dollars for AI calls in a month, then pages are read locally (default: no budget)",
    )
    create.add_argument(
        "--expires", metavar="DURATION", help="how long it is valid, as in 90d (default: no end)"
    )
    listing = add_command(actions, "list", "keys_command", "run_list", "list all keys")
    revoke = add_command(actions, "revoke", "keys_command", "run_revoke", "refuse a key from now on")
    revoke.add_argument("key_id", metavar="ID", help="the id of the key, as listed")
    audit = add_command(
        actions, "audit", "keys_command", "run_audit", "show what was done to keys, and by whom"
    )
    audit.add_argument("--limit", type=count, default=50, metavar="N", help="how many (default: 50)")
    for one in (create, listing, revoke, audit):
        one.add_argument("--json", action="store_true", help="the answer for programs")
        add_data_dir(one, "the data directory of the catalog (DATA_DIR)")
