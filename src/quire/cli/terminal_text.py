"""Text for terminals: tables aligned with blanks, and the summary line of a converted document."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quire.cli.exit_codes import printable
from quire.domain.job import JobStatus, MainJob, PageRecord

_GAP = "  "


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The rows below their header; an empty cell is shown as a dash."""
    shown = [[printable(cell) or "-" for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(header, *shown, strict=True)]
    for row in ([name.upper() for name in header], *shown):
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        print(_GAP.join(cells).rstrip())


def _width(text: str) -> int:
    """Columns a terminal needs: most East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


_MOST_REASONS = 3
_MOST_NUMBERS = 10


def summary_lines(name: str, job: MainJob, records: Sequence[PageRecord]) -> list[str]:
    """`report.pdf: 15 pages (12 local, 3 ocr), 1.2 s`, and what could not be read; then the pages to look at."""
    read = (one for one in records if one.status is JobStatus.COMPLETED)
    sources = Counter(one.source.value for one in read if one.source)
    how = ", ".join(f"{count} {source}" for source, count in sources.most_common())
    said = [f"{name}: {_pages(job.total_pages)}{f' ({how})' if how else ''}"]
    if job.completed_at is not None:
        said.append(f"{job.completed_at - (job.started_at or job.created_at):.1f} s")
    line = ", ".join(said)
    if job.timed_out:
        line += "; the time it may take was up, so the rest has only its plain text"
    unread = unread_pages(records)
    if unread:
        line += f"; could not read {unread}"
    return [line, *warning_lines(name, (job.result or {}).get("metadata") or {})]


def warning_lines(name: str, metadata: Mapping[str, Any]) -> list[str]:
    """`report.pdf: pages 3, 7 may be read wrongly …`: the pages to look at, by a result's metadata."""
    warnings: list[str] = []
    if low := metadata.get("low_confidence_pages"):
        warnings.append(f"{_numbers(low)} may be read wrongly (low confidence)")
    if pages := metadata.get("words_missing_pages"):
        warnings.append(f"words of {_numbers(pages)} are missing")
    if pages := metadata.get("ungrounded_pages"):
        counts = (("element", metadata["ungrounded"]), ("number", metadata["ungrounded_numbers"]))
        what = ", ".join(f"{count} {noun}{'s' if count > 1 else ''}" for noun, count in counts if count)
        warnings.append(f"AI added to {_numbers(pages)} what the page does not show ({what})")
    if pages := metadata.get("altered_pages"):
        warnings.append(f"AI wrote words on {_numbers(pages)} that the page does not have at that place")
    if pages := metadata.get("unchecked_pages"):
        warnings.append(f"{_numbers(pages)} by AI could not be checked: no text of the page to compare with")
    return [f"{name}: {warning}; compare with the original" for warning in warnings]


def unread_pages(records: Iterable[PageRecord]) -> str:
    """`page 3 (why); pages 7, 9 (why)`, or nothing if there is no such page."""
    by_reason: dict[str, list[int]] = {}
    for record in records:
        if record.status is JobStatus.FAILED:
            reason = (record.error or {}).get("error", "no reason is known").rstrip(".")
            by_reason.setdefault(reason, []).append(record.number)
    groups = [
        f"{_numbers(numbers)} ({reason})" for reason, numbers in list(by_reason.items())[:_MOST_REASONS]
    ]
    if len(by_reason) > _MOST_REASONS:
        groups.append(f"and others for {len(by_reason) - _MOST_REASONS} more reasons")
    return "; ".join(groups)


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_NUMBERS]))
    more = f" and {len(numbers) - _MOST_NUMBERS} more" if len(numbers) > _MOST_NUMBERS else ""
    return f"{'page' if len(numbers) == 1 else 'pages'} {shown}{more}"


def _pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"
