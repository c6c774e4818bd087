"""The report of a bulk run, as JSON and as a page of HTML beside the parts."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from typing import Any

from quire.bulk.bulk_run import RunOutcome, ShardShare
from quire.bulk.shard_plan import PLAN_FOLDER
from quire.objects.bulk_locations import BulkLocation


def report_of(outcome: RunOutcome, source: str, target: str) -> dict[str, Any]:
    """Returns the report: what this run did (`this_run`), and what all parts of the target hold (`all_parts`)."""
    seconds = outcome.seconds
    return {
        "report_version": 1,
        "source": source,
        "target": target,
        "complete": outcome.is_complete,
        "seconds": round(seconds, 1),
        "pages_per_second": round(outcome.now.pages / seconds, 1) if seconds > 0 else None,
        "shards": {
            "read_now": outcome.shards - len(outcome.failed),
            "read_before": outcome.finished_before,
            "failed": [{"shard": one.number, "error": one.error} for one in outcome.failed],
            "damaged_parts": outcome.damaged_parts,
        },
        "this_run": asdict(outcome.now),
        "all_parts": asdict(outcome.total),
    }


async def write_report(target: BulkLocation, report: dict[str, Any], share: ShardShare) -> str:
    """Stores both forms and returns the name of the HTML page; a report of an earlier run is replaced."""
    place = f"-{share.index}-of-{share.count}" if share.count > 1 else ""
    name = f"{PLAN_FOLDER}/report{place}"
    await target.put(f"{name}.json", json.dumps(report, indent=2).encode())
    await target.put(f"{name}.html", html_report(report).encode())
    return f"{name}.html"


def html_report(report: dict[str, Any]) -> str:
    total, shards = report["all_parts"], report["shards"]
    run = {
        "complete": "yes" if report["complete"] else "no: run the same command again to go on",
        "time": f"{report['seconds']:,.1f} s",
        "pages per second": report["pages_per_second"],
        "shards read now": shards["read_now"],
        "shards read before": shards["read_before"],
        "shards that failed": len(shards["failed"]),
        "damaged parts": ", ".join(shards["damaged_parts"]) or 0,
    }
    counts = {
        "documents": total["documents"],
        "pages": total["pages"],
        "rows with errors": total["errors"],
        "duplicates": total["duplicates"],
        "deleted": total["deleted"],
        "size": f"{total['bytes'] / 1e6:,.1f} MB",
        "words": total["words"],
        "pages that AI would read better": total["ai_pages"],
        "cost of AI": f"{total['cost_usd']:,.2f} USD",
    }
    by_ai = report.get("ai", {})
    slowest = {key: f"{milliseconds / 1000:.1f} s" for milliseconds, key in total["slowest"]}
    tables = (
        _table("This run", run),
        _table("All parts", counts),
        _table("Pages by reader", total["readers"]),
        _table("Errors by code", total["error_codes"]),
        _errors_query(report) if total["error_codes"] else "",
        _table("This run's pages by AI", {name.replace("_", " "): one for name, one in by_ai.items()}),
        _table("Slowest documents (time of reader processes)", slowest),
        _table("Failed shards", {one["shard"]: one["error"] for one in shards["failed"]}),
    )
    title = f"Bulk run of {report['source']}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{font:16px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem}"
        "table{border-collapse:collapse;margin-bottom:2rem}td{border-bottom:1px solid #ccc;padding:.2rem 1rem .2rem 0}"
        "td:first-child{overflow-wrap:anywhere}td+td{font-variant-numeric:tabular-nums;text-align:right}"
        "code{overflow-wrap:anywhere}</style>"
        f"<h1>{html.escape(title)}</h1>{''.join(tables)}</html>\n"
    )


def _errors_query(report: dict[str, Any]) -> str:
    parts = f"{report['target']}/part-*.parquet"
    query = f"FROM '{parts}' SELECT key, page, error WHERE error_code IS NOT NULL"
    return f"<p>Which documents these are, in DuckDB: <code>{html.escape(query)}</code></p>"


def _table(title: str, values: dict[Any, Any]) -> str:
    if not values:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(str(name))}</td><td>{html.escape(_shown(value))}</td></tr>"
        for name, value in values.items()
    )
    return f"<h2>{html.escape(title)}</h2><table>{rows}</table>"


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
