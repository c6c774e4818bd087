"""The arguments of `quire extract`. Light, because every run of `quire` pays for it."""

from __future__ import annotations

import argparse

from quire.cli.argument_kinds import add_command, add_data_dir


def add_extract(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "extract",
        "extract_command",
        "run",
        "extract values by a JSON Schema, each with its proof",
        details="Converts the document on this machine, asks an AI model for the values, and checks each against the "
        "page. Exit codes: 0 all pages were asked about and the values are valid; 1 failed; 2 wrong usage or settings; "
        "3 some pages got no answer, or the values do not satisfy the schema; 130 interrupted.",
    )
    parser.add_argument("source", metavar="PATH_OR_URL", help="a file, an http(s) link or an s3:// object")
    parser.add_argument("--schema", required=True, metavar="FILE", help="the JSON Schema of the values")
    parser.add_argument("--instructions", default="", metavar="TEXT", help="more words for the model")
    parser.add_argument(
        "--ungrounded",
        choices=("null", "keep"),
        default="null",
        help="what becomes of values that no page says (default: null)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the JSON (default: stdout)")
    parser.add_argument("--values", action="store_true", help="write the values alone, without their proof")
    parser.add_argument(
        "--mode", choices=("auto", "local", "ai"), default="auto", help="how pages are read (default: auto)"
    )
    parser.add_argument("--pages", metavar="RANGES", help="which pages, as in 1-5,8,12-")
    parser.add_argument(
        "--password-file", metavar="FILE", help="the document's password is this file's first line"
    )
    add_data_dir(
        parser, "work in this folder and leave it there (default: a private one, deleted at the end)"
    )
