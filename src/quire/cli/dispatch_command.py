"""`quire dispatch`: the AI models of a running service with their breakers, limits and calls in flight."""

from __future__ import annotations

import argparse
import json
from typing import Any

from quire.cli import exit_codes
from quire.cli.service_client import client_from
from quire.cli.terminal_text import print_table


def run(args: argparse.Namespace) -> int:
    answer: dict[str, Any] = client_from(args).get("/dispatch")
    if args.json:
        print(json.dumps(answer, ensure_ascii=False, indent=2))
        return exit_codes.OK
    if not answer["configured"]:
        print("No AI provider is configured.")
        return exit_codes.OK
    head = [
        "model",
        "breaker",
        "retry in",
        "failures",
        "in flight",
        "requests/min",
        "tokens/min",
        "last error",
    ]
    print_table(head, [_row(one) for one in answer["models"]])
    print(f"Pages that wait for a model: {answer['waiting']}")
    return exit_codes.OK


def _row(model: dict[str, Any]) -> list[str]:
    retry_in = f"{model['opens_in_seconds']:.0f} s" if model["state"] == "open" else "-"
    return [
        f"{model['provider']}:{model['model']}",
        model["state"],
        retry_in,
        str(model["incidents"]),
        f"{model['in_flight']} of {model['in_flight_allowed']} (at most {model['in_flight_max']})",
        _used(model["requests_used"], model["requests_per_minute"]),
        _used(model["tokens_used"], model["tokens_per_minute"]),
        model["last_error"] or "-",
    ]


def _used(used: float, limit: int | None) -> str:
    return f"{used:.0f} of {limit}" if limit else "no limit"
