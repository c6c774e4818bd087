"""What an office file says beside its text, page by page, as the JSON has it: changes, comments, hidden text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.domain.included_details import DocumentDetail
from quire.reading.office.office_source import OfficeSource
from quire.reading.office.review_marks import MOST_MARKS, ReviewKind


def office_details(source: OfficeSource, wanted: Sequence[str], pages: Sequence[int]) -> dict[str, Any]:
    """A list for each name in `wanted`, of `pages` (from 1); `truncated` names those that are not complete."""
    found: dict[str, Any] = {name: [] for name in wanted}
    numbers = [number for number in pages if 1 <= number <= source.page_count]
    marks = [(number, mark) for number in numbers for mark in source.page(number).marks]
    for number, mark in marks[:MOST_MARKS]:
        if mark.kind is ReviewKind.HIDDEN:
            entry: dict[str, Any] = {"page": number, "reason": mark.kind.value, "text": mark.text}
            found.get(DocumentDetail.HIDDEN_TEXT, []).append(entry)
        else:
            entry = {"page": number, "kind": mark.kind.value, "text": mark.text}
            entry |= {"author": mark.author or None, "date": mark.date or None}
            found.get(DocumentDetail.CHANGES, []).append(entry)
    cut = [name for name in (DocumentDetail.CHANGES, DocumentDetail.HIDDEN_TEXT) if name in found]
    kept = sum(len(source.page(number).marks) for number in range(1, source.page_count + 1))
    return {**found, **({"truncated": [name.value for name in cut]} if kept > MOST_MARKS and cut else {})}
