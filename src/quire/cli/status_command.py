"""`quire status`: the fleet behind a running service, drawn anew every few seconds, as `top` does for processes."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from typing import Any

from quire.cli import exit_codes
from quire.cli.exit_codes import printable
from quire.cli.service_client import Client, ServiceError
from quire.cli.startup import settings_from

_CLEAR = "\x1b[H\x1b[2J"
_HEAD_MODELS = (
    "model",
    "breaker",
    "in flight",
    "requests/min",
    "tokens/min",
    "calls/min",
    "failed/min",
    "last error",
)


def run(args: argparse.Namespace) -> int:
    """Shows the state until interrupted, or once. Raises ServiceError when no service answers at the start."""
    client = Client(settings_from(args).client)
    seen = _seen(client)
    if args.json:
        print(json.dumps(seen, ensure_ascii=False, indent=2))
        return exit_codes.OK
    if args.once or not sys.stdout.isatty():
        print("\n".join(drawn(seen, None, _width())))
        return exit_codes.OK if seen["health"]["status"] == "healthy" else exit_codes.FAILED
    return _follow(client, seen, args.every)


def _follow(client: Client, seen: dict[str, Any], every_s: float) -> int:
    before: dict[str, Any] | None = None
    trouble = ""
    try:
        while True:
            lines = drawn(seen, before, _width())
            sys.stdout.write(_CLEAR + "\n".join([*lines, trouble] if trouble else lines) + "\n")
            sys.stdout.flush()
            time.sleep(every_s)
            try:
                before, seen, trouble = seen, _seen(client), ""
            except ServiceError as error:
                trouble = error.public
    except KeyboardInterrupt:
        return exit_codes.OK


def _seen(client: Client) -> dict[str, Any]:
    """What the service says of itself, its queues and its models, and when."""
    found = {name: client.get(f"/{name}") for name in ("health", "queues", "dispatch")}
    return {**found, "at": time.monotonic()}


def drawn(seen: dict[str, Any], before: dict[str, Any] | None, width: int) -> list[str]:
    """The lines of one screen. Rates need an earlier state; without one they are left out."""
    health, queues, dispatch = seen["health"], seen["queues"], seen["dispatch"]
    lines = [
        f"quire {health['version']}   {health['status']}   up {_duration(health['uptime_seconds'])}   "
        f"workers {queues['workers_alive']}   documents {queues['documents_active']} of {queues['documents_max']}"
    ]
    lines += [f"! {issue}" for issue in health["issues"]]
    lines += ["", *_table(("queue", "waiting", "change/s", "delayed", "dead"), _queue_rows(seen, before))]
    if dispatch["configured"]:
        lines += ["", *_table(_HEAD_MODELS, _model_rows(seen, before))]
        lines.append(
            f"pages waiting for a model: {dispatch['waiting']}   "
            f"this month: {dispatch['usage_this_month']['calls']} calls, "
            f"{dispatch['usage_this_month']['cost_usd']:.2f} USD"
        )
    workers = [_worker_line(one) for one in queues["workers"]]
    lines += ["", *(workers or ["No worker is known."])]
    return [printable(line)[:width] for line in lines]


def _worker_line(worker: dict[str, Any]) -> str:
    behind_s = worker.get("clock_behind_seconds") or 0.0
    return (
        f"{worker['worker_id']}  last seen {worker['last_seen_at']}{'  disk full' if worker.get('disk_full') else ''}"
        f"{f'  clock off by {abs(behind_s):.0f} s' if behind_s else ''}"
    )


def _queue_rows(seen: dict[str, Any], before: dict[str, Any] | None) -> list[tuple[str, ...]]:
    earlier = {one["queue"]: one["waiting"] for one in before["queues"]["queues"]} if before else {}
    rows: list[tuple[str, ...]] = []
    for one in seen["queues"]["queues"]:
        rate = _rate(one["waiting"], earlier.get(one["queue"]), seen, before)
        rows.append((one["queue"], str(one["waiting"]), _signed(rate), str(one["delayed"]), str(one["dead"])))
    return rows


def _model_rows(seen: dict[str, Any], before: dict[str, Any] | None) -> list[tuple[str, ...]]:
    earlier = {_name(one): one for one in before["dispatch"]["models"]} if before else {}
    rows: list[tuple[str, ...]] = []
    for one in seen["dispatch"]["models"]:
        last = earlier.get(_name(one), {})
        ok = _rate(one["calls_ok"], last.get("calls_ok"), seen, before)
        failed = _rate(one["calls_failed"], last.get("calls_failed"), seen, before)
        rows.append(
            (
                _name(one),
                one["state"] + (f" {one['opens_in_seconds']:.0f}s" if one["state"] == "open" else ""),
                f"{one['in_flight']}/{one['in_flight_allowed']}",
                _used(one["requests_used"], one["requests_per_minute"]),
                _used(one["tokens_used"], one["tokens_per_minute"]),
                "-" if ok is None else f"{60 * ok:.0f}",
                "-" if failed is None else f"{60 * failed:.0f}",
                one["last_error"] or "-",
            )
        )
    return rows


def _name(model: dict[str, Any]) -> str:
    return f"{model['provider']}:{model['model']}"


def _rate(
    now: float, earlier: float | None, seen: dict[str, Any], before: dict[str, Any] | None
) -> float | None:
    if earlier is None or before is None:
        return None
    return float((now - earlier) / max(0.001, seen["at"] - before["at"]))


def _signed(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:+.1f}"


def _used(used: float, limit: int | None) -> str:
    return f"{used:.0f}/{limit}" if limit else f"{used:.0f}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]


def _duration(seconds: float) -> str:
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{hours}h{minutes % 60:02d}m" if hours else f"{minutes}m{int(seconds % 60):02d}s"


def _width() -> int:
    return shutil.get_terminal_size((160, 40)).columns
