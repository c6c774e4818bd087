"""`quire diff`: which pages and elements differ between two jobs of a running service."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any
from urllib.parse import quote

from quire.cli import exit_codes
from quire.cli.exit_codes import printable
from quire.cli.service_client import client_from

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where they differ, as diff does."""
    path = f"/jobs/{quote(args.a, safe='')}/diff/{quote(args.b, safe='')}"
    answer = client_from(args).get(path, limit=args.limit)
    if args.json:
        print(json.dumps(answer, ensure_ascii=False, indent=2))
    else:
        _show(answer)
    return exit_codes.OK if answer["equal"] else exit_codes.FAILED


def _show(answer: dict[str, Any]) -> None:
    for page in answer["pages"]:
        place = " → ".join(str(page[side]) for side in ("a", "b") if page[side] is not None)
        print(f"{_SIGNS[page['change']]} page {place} {page['change']}")
        for element in page["elements"] or ():
            for side, sign in (("a", "-"), ("b", "+")):
                if element[side] is not None:
                    text = printable(" ".join(element[side]["text"].split()))
                    print(f"    {sign} {element[side]['kind']}: {text}")
    counts = ", ".join(
        f"{answer[f'pages_{name}']} {name}" for name in ("equal", "changed", "added", "removed")
    )
    print(f"Pages: {counts}.", file=sys.stderr)
