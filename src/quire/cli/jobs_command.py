"""`quire jobs`: list, show, retry, cancel and delete the jobs of a running service."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from quire.cli import exit_codes
from quire.cli.convert_sources import ConvertResult
from quire.cli.progress import Progress, progress
from quire.cli.service_client import Client, ServerEvent, ServiceError, client_from
from quire.cli.terminal_text import print_table, warning_lines

_MOST_AT_A_TIME = 500
_PAGES_SHOWN = 1000
_OVER = ("completed", "failed", "cancelled")


def run_list(args: argparse.Namespace) -> int:
    jobs = list(_newest(client_from(args), args.limit, args.status))
    if args.json:
        _print_json(jobs)
        return exit_codes.OK
    rows = [
        [
            job["job_id"],
            job["status"],
            f"{job['progress']}%",
            _pages(job),
            str(job.get("doubtful_pages") or ""),
            job["created_at"][:19].replace("T", " "),
            job["filename"],
        ]
        for job in jobs
    ]
    print_table(["id", "status", "done", "pages", "to check", "created (UTC)", "document"], rows)
    return exit_codes.OK


def run_show(args: argparse.Namespace) -> int:
    client = client_from(args)
    job = client.get(_path(args.job_id))
    pages = client.get(f"{_path(args.job_id)}/pages", limit=_PAGES_SHOWN)["pages"] if _is_main(job) else []
    if args.json:
        _print_json(job | ({"pages": pages} if _is_main(job) else {}))
        return exit_codes.OK
    plain = {
        name: value for name, value in job.items() if isinstance(value, str | int | float) and value != ""
    }
    error = (job.get("error") or {}).get("error")
    rows = [[name, str(value)] for name, value in plain.items()] + ([["error", error]] if error else [])
    print_table(["field", "value"], rows)
    if pages:
        print()
        head = ["page", "status", "read by", "grade", "words", "remarks"]
        print_table(head, [_page_row(page) for page in pages])
    return exit_codes.OK


def run_retry(args: argparse.Namespace) -> int:
    return _act(args, "retry")


def run_cancel(args: argparse.Namespace) -> int:
    return _act(args, "cancel")


def run_delete(args: argparse.Namespace) -> int:
    """Deletes a finished job. Raises StateConflictError while it runs, MissingError if there is none."""
    client_from(args).delete(_path(args.job_id))
    if args.json:
        _print_json({"job_id": args.job_id, "deleted": True})
    else:
        print(f"Job {args.job_id} is deleted.")
    return exit_codes.OK


def run_result(args: argparse.Namespace) -> int:
    """The Markdown, or with --json the whole answer. Raises NotReadyError while the job runs."""
    client = client_from(args)
    pieces = client.pieces(f"{_path(args.job_id)}/result", format="json" if args.json else "md")
    if args.output is not None and args.output != "-":
        with ConvertResult(Path(args.output)) as out:
            for piece in pieces:
                out.write(piece)
        return exit_codes.OK
    last = b""
    for last in pieces:
        sys.stdout.buffer.write(last)
    if not last.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    return exit_codes.OK


def run_watch(args: argparse.Namespace) -> int:
    """Follows the job to its end: 0 wholly completed, 3 completed with unread pages, 1 otherwise."""
    client = client_from(args)
    shown = progress(1, quiet=args.json)
    try:
        last = _follow(client, args, shown)
    finally:
        shown.close()
    if last.get("status") != "completed":
        return exit_codes.FAILED
    return exit_codes.PARTIAL if last.get("pages_failed") else exit_codes.OK


def _follow(client: Client, args: argparse.Namespace, shown: Progress) -> dict[str, Any]:
    """The last that was heard of the job. Raises ServiceError if the service goes away meanwhile."""
    path = _path(args.job_id)
    job = client.get(path)
    name = job.get("filename") or args.job_id
    last: dict[str, Any] = {"status": job["status"]}
    for event in _until_over(client, path):
        if args.json:
            print(json.dumps({"id": event.id, "event": event.type, "data": event.data}, ensure_ascii=False))
            sys.stdout.flush()
        last |= event.data
        done = (last.get("pages_completed") or 0) + (last.get("pages_failed") or 0)
        shown.update(0, name, done, last.get("total_pages") or 0)
    error = last.get("error") or {}
    said = f": {error['error']}" if error.get("error") else ""
    line = f"{name}: {last.get('status')}, {_pages(last)} pages{said}"
    shown.finish(0, line, *warning_lines(name, client.get(path).get("metadata") or {}))
    return last


def _until_over(client: Client, path: str) -> Iterator[ServerEvent]:
    """The job's events to its end, also where the service ends the stream before (as it does when it stops)."""
    last_id, over = "", False
    while not over:
        silent = True
        for event in client.events(f"{path}/events", last_id):
            silent, last_id = False, event.id or last_id
            over = over or event.data.get("status") in _OVER
            yield event
        if silent and not over:
            raise ServiceError("The service has nothing more to say about the job. Try again.")


def _act(args: argparse.Namespace, what: str) -> int:
    answer = client_from(args).post(f"{_path(args.job_id)}/{what}")
    if args.json:
        _print_json(answer)
    else:
        print_table(
            ["field", "value"],
            [[name, str(value)] for name, value in answer.items() if isinstance(value, str | int)],
        )
    return exit_codes.OK


def _newest(client: Client, limit: int, status: str | None) -> Iterator[dict[str, Any]]:
    """The newest jobs with the wanted status; fetches further pages until there are enough."""
    before: str | None = None
    while limit > 0:
        answer = client.get("/jobs", limit=min(_MOST_AT_A_TIME, limit), before=before, status=status)
        yield from answer["jobs"]
        limit -= len(answer["jobs"])
        before = answer["next_before"]
        if before is None:
            return


def _path(job_id: str) -> str:
    return f"/jobs/{quote(job_id, safe='')}"


def _is_main(job: dict[str, Any]) -> bool:
    return bool(job.get("type") == "main")


def _pages(job: dict[str, Any]) -> str:
    done = (job.get("pages_completed") or 0) + (job.get("pages_failed") or 0)
    return f"{done}/{job['total_pages']}" if job.get("total_pages") else "-"


def _page_row(page: dict[str, Any]) -> list[str]:
    remarks = (page.get("error") or {}).get("error") or ", ".join(
        (*_flaws(page), *(page.get("reason") or ()))
    )
    width = max(20, shutil.get_terminal_size((200, 24)).columns - 62)
    return [
        str(page["page_number"]),
        page["status"],
        " ".join(filter(None, (page.get("source"), page.get("model") or page.get("reader")))),
        _grade(page),
        str(page.get("words") or 0),
        remarks if len(remarks) <= width else f"{remarks[: width - 1]}…",
    ]


def _grade(page: dict[str, Any]) -> str:
    """`good, .97`: the grade and the confidence, as far as they are known."""
    sure = page.get("confidence")
    return ", ".join(filter(None, (page.get("grade"), f"{sure:.2f}" if sure is not None else "")))


def _flaws(page: dict[str, Any]) -> list[str]:
    """What is known to be missing from the page's text, or to be in it without support."""
    counted = (
        ("words_missing", "words missing"),
        ("ungrounded", "elements without support on the page"),
        ("ungrounded_numbers", "numbers that the page does not have"),
    )
    return [f"{page[name]} {words}" for name, words in counted if page.get(name)]


def _print_json(found: Any) -> None:
    print(json.dumps(found, ensure_ascii=False, indent=2))
