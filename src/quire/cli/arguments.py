"""The commands and their arguments. Light, because every run of `quire` pays for it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from quire.cli import bulk_arguments, extract_arguments, operator_arguments, service_arguments
from quire.cli.argument_kinds import (
    add_command,
    add_data_dir,
    add_debug_option,
    add_service_options,
    count,
    few,
    pause,
    port,
)

_FORMATS = ("md", "text", "html", "json", "docling", "chunks", "zip")
_CONVERT_FORMATS = (*_FORMATS, "pdf", "parquet")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, with `load_command` to fetch what runs them. Exits as argparse does where they are wrong."""
    parser = _parser()
    args = parser.parse_args(argv)
    args.debug = getattr(args, "debug", False)
    return args


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quire",
        description="Turns documents into Markdown and never loses a page.",
        epilog="Settings come from the environment and from the file QUIRE_CONFIG; `quire config` shows them all.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    add_debug_option(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _convert(commands)
    extract_arguments.add_extract(commands)
    _watch(commands)
    bulk_arguments.add_bulk(commands)
    bulk_arguments.add_compact(commands)
    _serve(commands)
    _worker(commands)
    _jobs(commands)
    service_arguments.add_batch(commands)
    service_arguments.add_schemas(commands)
    _dlq(commands)
    _dispatch(commands)
    operator_arguments.add_status(commands)
    operator_arguments.add_backup(commands)
    operator_arguments.add_migrate(commands)
    operator_arguments.add_keys(commands)
    _search(commands)
    _diff(commands)
    _doctor(commands)
    _repair(commands)
    _config(commands)
    _simulate(commands)
    _backend(commands)
    _mcp(commands)
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from quire import __version__

        print(f"quire {__version__}")
        parser.exit()


def _convert(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "convert",
        "convert_start",
        "run",
        "convert documents on this machine",
        details="Exit codes: 0 all converted wholly; 1 a document failed; 2 wrong usage or settings; "
        "3 converted, but some pages could not be read; 130 interrupted. "
        "Documents have no deadline here unless DOCUMENT_PROCESSING_TIMEOUT is set.",
    )
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="PATH_OR_URL",
        help="files, http(s) links, s3:// objects, or - for stdin",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="a file, or a folder (needed for several documents); - is stdout",
    )
    parser.add_argument(
        "--mode", choices=("auto", "local", "ai"), default="auto", help="how pages are read (default: auto)"
    )
    parser.add_argument("--pages", metavar="RANGES", help="which pages, as in 1-5,8,12-")
    parser.add_argument(
        "--reading-effort", choices=("fast", "balanced", "careful"), help="work for a scanned page"
    )
    parser.add_argument("--ocr-languages", metavar="NAMES", help="languages of the scans, as in eng+deu")
    parser.add_argument("--force-ocr", action="store_true", help="read by OCR what has a text layer")
    parser.add_argument(
        "--format", choices=_CONVERT_FORMATS, default="md", help="what to write (default: md)"
    )
    parser.add_argument(
        "--page-break", metavar="TEXT", help="between pages of Markdown; {page} is the number of the next one"
    )
    parser.add_argument(
        "--front-matter",
        action="store_true",
        help="begin Markdown with what is known of the document, as YAML",
    )
    parser.add_argument(
        "--tables", choices=("markdown", "html", "auto"), help="tables in Markdown (default: markdown)"
    )
    parser.add_argument(
        "--headers", choices=("drop", "keep"), help="running headers and footers in Markdown (default: drop)"
    )
    parser.add_argument(
        "--figures",
        choices=("none", "placeholder", "embedded", "files"),
        help="figures in Markdown; files: in NAME.figures beside the result (default: none)",
    )
    parser.add_argument(
        "--join-tables",
        action="store_true",
        help="a table that goes on over page breaks once in Markdown, on the page where it begins",
    )
    parser.add_argument(
        "--include",
        metavar="NAMES",
        help="with --format json: lines, words, links, outline, form_fields, embedded_files, hidden_text, changes",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="of a chunk, with --format chunks or parquet (default: 512)",
    )
    parser.add_argument(
        "--overlap", type=int, metavar="N", help="tokens that the next chunk repeats (default: 0)"
    )
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help="the document's password is this file's first line; - is stdin",
    )
    add_data_dir(
        parser, "work in this folder and leave it there (default: a private one, deleted at the end)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")


def _watch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "watch",
        "watch_command",
        "run",
        "convert what is dropped into a folder",
        details="Every finished file below INBOX is converted once, as the journal in the output folder remembers. "
        "Hidden files and unfinished downloads are left alone. With --once, exit codes are those of convert.",
    )
    parser.add_argument("inbox", metavar="INBOX", help="the folder to watch, with those below it")
    parser.add_argument(
        "--out", metavar="DIR", required=True, help="where results go, in the same sub-folders"
    )
    parser.add_argument(
        "--failed",
        metavar="DIR",
        help="where documents go that can't be converted (default: failed, in --out)",
    )
    parser.add_argument("--once", action="store_true", help="convert what is there, then end")
    parser.add_argument(
        "--every", type=pause, default=1.0, metavar="SECONDS", help="how often to look (default: 1)"
    )
    parser.add_argument(
        "--mode", choices=("auto", "local", "ai"), default="auto", help="how pages are read (default: auto)"
    )
    parser.add_argument("--format", choices=_FORMATS, default="md", help="what to write (default: md)")
    add_data_dir(parser, "where work in hand is kept (default: a folder of its own in DATA_DIR)")


def _serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "serve", "serve_command", "run", "run the service and the dashboard")
    parser.add_argument("--host", help="the address to listen on (HOST)")
    parser.add_argument("--port", help="the port; 0 takes any free one (PORT)")
    add_data_dir(parser, "the folder that holds everything (DATA_DIR)")


def _worker(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "worker",
        "worker_command",
        "run",
        "run workers beside a running service",
        details="Queues: download, split, read (pages read locally in bulk), page (pages read one by one: OCR, AI; "
        "and read, as both read pages), merge, export, callback, classify, embed, batch; slow is page without read.",
    )
    parser.add_argument("--queues", metavar="NAMES", help="comma-separated (default: all)")
    parser.add_argument(
        "--concurrency",
        metavar="N",
        help="slow pages in hand at a time (WORKER_CONCURRENCY); cores used are READER_PROCESSES",
    )
    add_data_dir(parser, "the data directory of the service to join (DATA_DIR)")


def _jobs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "jobs",
        help="see and steer the jobs of a running service",
        description="See and steer the jobs of a running service, at QUIRE_URL with QUIRE_API_KEY.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = add_command(actions, "list", "jobs_command", "run_list", "list the newest jobs")
    listing.add_argument("--limit", type=count, default=20, metavar="N", help="how many (default: 20)")
    listing.add_argument(
        "--status",
        choices=("queued", "processing", "completed", "failed", "cancelled"),
        help="only jobs with this status",
    )
    add_service_options(listing)
    for name, text in (
        ("show", "show one job and its pages"),
        ("retry", "redo what did not come from its best route"),
        ("cancel", "stop a job"),
        ("delete", "delete a finished job with all its data"),
    ):
        one = add_command(actions, name, "jobs_command", f"run_{name}", text)
        one.add_argument("job_id", metavar="ID", help="a job's id, of any type")
        add_service_options(one)
    result = add_command(actions, "result", "jobs_command", "run_result", "print a job's Markdown")
    result.add_argument("job_id", metavar="ID", help="a job's id; a page's gives that page")
    result.add_argument("-o", "--output", metavar="FILE", help="write it here (default: stdout)")
    add_service_options(result)
    watch = add_command(actions, "watch", "jobs_command", "run_watch", "follow a job to its end")
    watch.add_argument("job_id", metavar="ID", help="a job's id")
    add_service_options(watch)


def _dlq(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "dlq",
        help="see and replay the dead letters of a running service",
        description="Work that was given up after all attempts, at QUIRE_URL with QUIRE_API_KEY.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = add_command(actions, "list", "dlq_command", "run_list", "list dead letters")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="how many (default: 50)")
    add_service_options(listing)
    replay = add_command(actions, "replay", "dlq_command", "run_replay", "try dead letters again")
    replay.add_argument("ids", nargs="*", metavar="ID", help="the letters to replay")
    replay.add_argument("--all", action="store_true", help="all of them")
    add_service_options(replay)


def _dispatch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "dispatch",
        "dispatch_command",
        "run",
        "show breakers, limits and calls in flight of the AI models",
        details="At QUIRE_URL with QUIRE_API_KEY.",
    )
    add_service_options(parser)


def _diff(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "diff",
        "diff_command",
        "run",
        "show what differs between two jobs of a running service",
        details="At QUIRE_URL with QUIRE_API_KEY. Exit codes: 0 the documents are equal; 1 they differ.",
    )
    parser.add_argument("a", metavar="A", help="the id of the first job")
    parser.add_argument("b", metavar="B", help="the id of the second job")
    parser.add_argument(
        "--limit", type=few, default=50, metavar="N", help="pages whose elements are shown (default: 50)"
    )
    add_service_options(parser)


def _search(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "search",
        "search_command",
        "run",
        "find documents in the vault of a running service",
        details="At QUIRE_URL with QUIRE_API_KEY. Exit codes: 0 something was found; 1 nothing was.",
    )
    parser.add_argument("query", nargs="+", metavar="Q", help="words, or what it is about")
    parser.add_argument(
        "--limit", type=few, default=20, metavar="N", help="how many, up to 100 (default: 20)"
    )
    parser.add_argument(
        "--status",
        choices=("pending", "completed", "failed", "stale", "needs_classification", "unsupported"),
        help="only documents with this status",
    )
    parser.add_argument("--tag", metavar="TAG", help="only documents with this tag")
    parser.add_argument("--type", metavar="TYPE", help="only this type: pdf, docx, …")
    parser.add_argument("--language", metavar="CODE", help="only in this language: en, de, …")
    parser.add_argument(
        "--from", dest="date_from", metavar="DATE", help="dated this day or later (YYYY-MM-DD)"
    )
    parser.add_argument("--to", dest="date_to", metavar="DATE", help="dated this day or earlier")
    add_service_options(parser)


def _repair(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "repair",
        "repair_command",
        "run",
        "check queue, objects and catalog, and mend what is damaged",
        details="Run it with --dry-run first. Damaged files are kept aside, never deleted.",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    add_data_dir(parser, "the data directory (default: DATA_DIR, ./quire-data)")


def _doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands, "doctor", "doctor_command", "run", "check this installation and say what to do"
    )
    parser.add_argument("--json", action="store_true", help="the findings for programs")
    add_data_dir(parser, "the data directory to check (DATA_DIR)")


def _config(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands, "config", "config_command", "run", "show every setting and where it came from"
    )
    parser.add_argument("--json", action="store_true", help="the settings for programs")


def _backend(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "backend",
        "backend_command",
        "run",
        "serve the local batch backend",
        details="Answers POST /parse-batch and GET /health; other Quires use it as their BATCH_BACKEND_URL.",
    )
    parser.add_argument("--host", help="the address to listen on (HOST)")
    parser.add_argument("--port", help="the port; 0 takes any free one (PORT)")


def _simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "simulate",
        "simulate_command",
        "run",
        "run a server that behaves, and misbehaves, as AI providers do",
        details="Speaks the protocols of OpenAI (/v1/chat/completions) and Anthropic (/v1/messages); see "
        "docs/simulator.md for scenarios.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=port, default=8089, help="the port; 0 takes any free one (default: 8089)"
    )
    parser.add_argument("--scenario", metavar="FILE", help="JSON or YAML: models, limits, faults")
    parser.add_argument(
        "--truth", metavar="FILE", help="JSON: what documents say, for questions about values"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="what chance begins with (default: 0)"
    )


def _mcp(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "mcp",
        "mcp_command",
        "run",
        "let an agent convert, search and read, over the Model Context Protocol",
        details="Speaks on standard input and output, with the service at QUIRE_URL; see docs/client.md.",
    )
    parser.add_argument("--url", help="the address of the service (QUIRE_URL)")
    parser.add_argument(
        "--root",
        action="append",
        metavar="DIR",
        help="a folder whose files may be converted, as often as needed (default: the current one)",
    )
