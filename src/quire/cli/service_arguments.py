"""The arguments of `quire batch` and `quire schemas`. Light, because every run of `quire` pays for it."""

from __future__ import annotations

import argparse

from quire.cli.argument_kinds import add_command, add_debug_option, add_service_options


def add_batch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "batch",
        "batch_command",
        "run",
        "convert many documents with a running service, under one id",
        details="Files (a ZIP archive is taken apart) or addresses (one of a bucket that ends with / is all below it), "
        "not both. Exit codes: 0 all converted; 1 none was; 3 some were not; 130 interrupted, and the batch goes on.",
    )
    parser.add_argument(
        "sources", nargs="*", metavar="PATH_OR_URL", help="files, or http(s) and s3:// addresses"
    )
    parser.add_argument("--id", metavar="BATCH", help="instead of sources: a batch that was started before")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write all results")
    parser.add_argument(
        "--format", choices=("zip", "jsonl"), default="zip", help="of the results (default: zip)"
    )
    parser.add_argument("--mode", choices=("auto", "local", "ai"), help="how pages are read (default: auto)")
    parser.add_argument("--no-wait", action="store_true", help="print the id of the batch and end")
    parser.add_argument("--cancel", action="store_true", help="with --id: cancel what has not ended")
    add_service_options(parser)


def add_schemas(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "schemas",
        help="save JSON Schemas, and extract by them from documents of the vault",
        description="Save JSON Schemas, and extract by them from documents of the vault.",
        allow_abbrev=False,
    )
    add_debug_option(parser)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_service_options(
        add_command(actions, "list", "schemas_command", "show_names", "list the saved schemas")
    )
    for action, function, help_text in (
        ("show", "show", "print a saved schema"),
        ("save", "save", "save a schema under a name"),
        ("delete", "delete", "delete a saved schema"),
        ("apply", "apply", "extract from all documents of the vault that the filters choose"),
    ):
        one = add_command(actions, action, "schemas_command", function, help_text)
        one.add_argument("name", metavar="NAME", help="small letters, digits, - and _")
        add_service_options(one)
        if action == "save":
            one.add_argument("file", metavar="FILE", help="the JSON Schema")
            one.add_argument("--instructions", metavar="TEXT", help="more words for the model")
            one.add_argument("--ungrounded", choices=("null", "keep"), help="values that no page says")
        elif action == "apply":
            _filters(one)


def _filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where to write the table")
    parser.add_argument(
        "--format", choices=("csv", "jsonl", "parquet"), default="csv", help="of the table (default: csv)"
    )
    parser.add_argument("--tag", action="append", default=[], help="only documents with this tag; repeatable")
    parser.add_argument("--type", action="append", default=[], help="only documents of this type, as in pdf")
    parser.add_argument("--query", metavar="WORDS", help="only documents with all these words")
    parser.add_argument("--date-from", metavar="DAY", help="the document's date, YYYY-MM-DD")
    parser.add_argument("--date-to", metavar="DAY", help="the document's date, YYYY-MM-DD, included")
