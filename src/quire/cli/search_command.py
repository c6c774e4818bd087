"""`quire search`: find documents of the vault of a running service."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from quire.cli import exit_codes
from quire.cli.exit_codes import printable
from quire.cli.service_client import client_from

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where nothing was found, as grep does."""
    answer = client_from(args).get(
        "/search",
        q=" ".join(args.query),
        limit=args.limit,
        status=args.status,
        tag=args.tag,
        type=args.type,
        language=args.language,
        date_from=args.date_from,
        date_to=args.date_to,
    )
    if args.json:
        print(json.dumps(answer, ensure_ascii=False, indent=2))
    else:
        _show(answer, bold=sys.stdout.isatty())
    return exit_codes.OK if answer["hits"] else exit_codes.FAILED


def _show(answer: dict[str, Any], *, bold: bool) -> None:
    for meant, instead in answer["corrections"].items():
        print(printable(f"({meant} was taken for {instead})"))
    for hit in answer["hits"]:
        document = hit["document"]
        title = _text(hit["title"], bold=bold) or printable(document["filename"])
        facts = [document["date"], document["type"], ", ".join(document["tags"]), document["state"]]
        print(title)
        print(printable(f"    {document['document_id']}  {'  '.join(filter(None, facts))}"))
        if hit["snippet"]:
            page = f"p. {hit['snippet']['page']}: " if hit["snippet"]["page"] else ""
            print(f"    {page}{_text(hit['snippet'], bold=bold)}")
    if not answer["hits"]:
        print("Nothing was found.", file=sys.stderr)
    elif answer["next_cursor"]:
        print("There is more; ask for it with --limit.", file=sys.stderr)


def _text(marked: dict[str, Any] | None, *, bold: bool) -> str:
    """On one line, with what was found in bold where there is a terminal. The text is a stranger's."""
    pieces = []
    for piece in (marked or {}).get("pieces", ()):
        text = printable(" ".join(piece["text"].split()))
        before = " " if piece["text"][:1].isspace() else ""
        after = " " if piece["text"][-1:].isspace() and text else ""
        shown = f"{_BOLD}{text}{_PLAIN}" if bold and piece["match"] else text
        pieces.append(f"{before}{shown}{after}")
    return "".join(pieces).strip()
