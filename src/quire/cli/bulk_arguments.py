"""The arguments of `quire bulk` and `quire bulk-compact`."""

from __future__ import annotations

import argparse
from datetime import datetime

from quire.cli.argument_kinds import add_command

AI_OFF = "off"
_CODES = (
    "Exit codes: 0 every document was read; 3 there are rows with errors; 1 the run could not finish (run it again to "
    "go on); 2 wrong arguments; 130 interrupted. See docs/bulk.md."
)


def add_bulk(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "bulk",
        "bulk_command",
        "run",
        "read a folder or a bucket of documents into Parquet, one row a page",
        details=_CODES,
    )
    parser.add_argument(
        "source", metavar="SRC", help="a folder, s3://, gs:// or az://; may end in a pattern: docs/**/*.pdf"
    )
    parser.add_argument(
        "target", metavar="DST", help="a folder or a bucket prefix for the parts; running again resumes"
    )
    parser.add_argument(
        "--keys", metavar="FILE", help="only these keys of SRC: one a line, or JSON lines with `key`"
    )
    parser.add_argument(
        "--since", type=moment, metavar="TIME", help="only documents changed since then (ISO 8601)"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="at most N new documents in this run")
    parser.add_argument(
        "--no-dedupe", action="store_true", help="read every document, also one with the content of another"
    )
    parser.add_argument(
        "--ocr", choices=("on", "off"), default="on", help="read scans by local OCR (default: on)"
    )
    parser.add_argument(
        "--formats", default="", metavar="LIST", help="columns besides markdown: text,html,elements,chunks"
    )
    parser.add_argument("--password-file", metavar="F", help="a password to try on protected documents")
    parser.add_argument(
        "--ai",
        choices=(AI_OFF, "now", "batch"),
        default=AI_OFF,
        help="read pages by AI that local readers see badly, by single calls or at half the price within a day",
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="with --ai batch: don't wait for batches; run again to collect"
    )
    parser.add_argument(
        "--max-cost",
        type=dollars,
        metavar="USD",
        help="the most that AI may cost for DST, all runs together; checked before each call",
    )
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="what spreads the shards")
    parser.add_argument(
        "--address",
        metavar="A",
        help="the Ray cluster to join (default: RAY_ADDRESS, else a new one for this run)",
    )
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="reader processes (default: READER_PROCESSES, else one for each core)",
    )
    parser.add_argument(
        "--shard-pages",
        type=positive,
        default=1_000,
        metavar="N",
        help="pages in a part, about (default: 1000)",
    )
    parser.add_argument(
        "--shard-index", type=natural, default=0, metavar="I", help="of several machines, this one"
    )
    parser.add_argument(
        "--shard-count", type=positive, default=1, metavar="N", help="how many machines there are"
    )
    parser.add_argument("--plan-only", action="store_true", help="list SRC and store the plan; read nothing")
    parser.add_argument("--no-plan", action="store_true", help="read what is planned; don't list SRC again")
    parser.add_argument(
        "--dry-run", action="store_true", help="count, measure a sample and estimate; write nothing"
    )
    parser.add_argument("--json", action="store_true", help="the report on standard output, for programs")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def add_compact(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "bulk-compact",
        "bulk_command",
        "run_compact",
        "write the current rows of a bulk run as few large files",
        details="Old versions and deleted documents are left out. The target of the bulk run is not changed.",
    )
    parser.add_argument("target", metavar="DST", help="the target of `quire bulk`")
    parser.add_argument("output", metavar="OUT", help="an empty folder or bucket prefix")
    parser.add_argument(
        "--file-mb", type=positive, default=256, metavar="MB", help="size of a file, about (default: 256)"
    )


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("expected a number from 1")
    return value


def natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("expected a number from 0")
    return value


def dollars(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError("expected an amount above 0")
    return value


def moment(text: str) -> float:
    """Seconds since 1970; a time without a zone is local."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise argparse.ArgumentTypeError("expected a time such as 2026-11-17 or 2026-11-17T08:00Z") from error
