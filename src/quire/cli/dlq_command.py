"""`quire dlq`: work that a running service has given up, and another try at it."""

from __future__ import annotations

import argparse
import json
from typing import Any
from urllib.parse import quote

from quire.cli import exit_codes
from quire.cli.exit_codes import CommandUsageError, say
from quire.cli.service_client import Client, client_from
from quire.cli.terminal_text import print_table
from quire.errors import MissingError, RequestError, StateConflictError

_MOST_AT_A_TIME = 500
_TRIES = 5


def run_list(args: argparse.Namespace) -> int:
    letters = _letters(client_from(args), args.limit)
    if args.json:
        print(json.dumps(letters, ensure_ascii=False, indent=2))
        return exit_codes.OK
    rows = [
        [_id(one), one["job_id"], (one["at"] or "")[:19].replace("T", " "), one["reason"]] for one in letters
    ]
    print_table(["id", "job", "given up (UTC)", "reason"], rows)
    return exit_codes.OK


def run_replay(args: argparse.Namespace) -> int:
    """Replays letters one after the other; exit code 1 if one of them could not be."""
    if args.all == bool(args.ids):
        raise CommandUsageError("Name the letters to replay (see `quire dlq list`), or use --all.")
    client = client_from(args)
    known = {_id(one): one for one in _letters(client, _MOST_AT_A_TIME)}
    answers, failed = [], False
    for one in known if args.all else args.ids:
        try:
            answer = _replay(client, one, known.get(one, {}).get("main_job_id"))
        except RequestError as error:
            failed = True
            say(f"quire: {one}: {error.public}")
            continue
        answers.append(answer | {"id": one})
        if not args.json:
            print(
                f"{one}: {'tried again' if answer['retried'] else 'nothing better to get'}, job {answer['job_id']}"
            )
    if args.json:
        print(json.dumps(answers, ensure_ascii=False, indent=2))
    return exit_codes.FAILED if failed else exit_codes.OK


def _replay(client: Client, letter: str, main_job_id: str | None) -> dict[str, Any]:
    """Where an earlier letter has set the same job going, waits until it is over: one page is redone at a time."""
    queue, _, entry = letter.partition("/")
    if not entry:
        raise MissingError("Expected the id of a letter as `quire dlq list` shows it, such as split/1699-0.")
    for _ in range(_TRIES):
        try:
            answer: dict[str, Any] = client.post(
                f"/dlq/{quote(queue, safe='')}/{quote(entry, safe='')}/replay"
            )
            return answer
        except StateConflictError:
            if main_job_id is None:
                raise
            for _event in client.events(f"/jobs/{quote(main_job_id, safe='')}/events"):
                pass
    raise StateConflictError(f"Job {main_job_id} keeps being retried by another caller. Try again later.")


def _letters(client: Client, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/dlq", limit=min(limit, _MOST_AT_A_TIME))["letters"]
    return found


def _id(letter: dict[str, Any]) -> str:
    return f"{letter['queue']}/{letter['entry_id']}"
