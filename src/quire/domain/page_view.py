"""The JSON shape of a page, shared by the service and the command line."""

from __future__ import annotations

from typing import Any

from quire.domain.job import PageRecord, page_job_id
from quire.domain.page import PageSource


def page_view(job_id: str, record: PageRecord) -> dict[str, Any]:
    is_provisional = not record.status.terminal and record.ref is not None and record.words > 0
    source = record.source or (PageSource.LOCAL if is_provisional else None)
    return {
        "page_number": record.number,
        "job_id": page_job_id(job_id, record.number),
        "status": record.status.value,
        "source": source.value if source else None,
        "provisional": is_provisional,
        "reason": list(record.reasons),
        "page_class": record.page_class.value if record.page_class else None,
        "reader": record.reader,
        "provider": record.provider,
        "model": record.model,
        "attempts": record.attempts,
        "tokens_in": record.tokens_in,
        "tokens_out": record.tokens_out,
        "cost_usd": record.cost_usd,
        "confidence": record.confidence,
        "grade": record.grade.value if record.grade else None,
        "words": record.words,
        "size_bytes": record.length,
        "words_missing": record.words_missing,
        "ungrounded": record.ungrounded,
        "ungrounded_numbers": record.ungrounded_numbers,
        "reused_from": record.reused_from,
        "error": record.error,
    }
