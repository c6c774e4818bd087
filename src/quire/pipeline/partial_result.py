"""The partial result of a running job: what has been read so far, with local text for pages that wait for AI.

It makes a document usable as soon as its own text is read, also while AI calls hang. It is assembled for each request
and never stored; the merge writes the final result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from quire.domain.job import JobStatus, PageRecord
from quire.errors import NotReadyError
from quire.objects.object_store import ObjectStore
from quire.pipeline.stages.merge_stage import SEPARATOR, failure_note


@dataclass(frozen=True, slots=True)
class PartialResult:
    """`records` are all pages of the job in order. Raises NotReadyError where no page has any text yet."""

    job_id: str
    records: Sequence[PageRecord]

    def __post_init__(self) -> None:
        if not any(has_text(one) for one in self.records):
            raise NotReadyError(f"No page of job {self.job_id} has been read yet.", retry_after_s=1.0)

    def metadata(self) -> dict[str, Any]:
        pending = [one.number for one in self.records if not one.status.terminal]
        return {
            "partial": True,
            "pages": len(self.records),
            "pages_completed": sum(one.status is JobStatus.COMPLETED for one in self.records),
            "pages_pending": pending[:1000],
            "total_words": sum(one.words for one in self.records),
        }

    async def stream(self, objects: ObjectStore) -> AsyncIterator[bytes]:
        """The Markdown so far. Raises MissingError if the merge has just replaced the pages by the final result."""
        for place, record in enumerate(self.records):
            if place:
                yield SEPARATOR
            async for piece in page_text(objects, record):
                yield piece


def has_text(record: PageRecord) -> bool:
    """Whether the page has a text that may be shown: its final one, or its local text while AI is awaited."""
    return record.ref is not None and (record.status is JobStatus.COMPLETED or record.words > 0)


async def page_text(objects: ObjectStore, record: PageRecord) -> AsyncIterator[bytes]:
    """The text of one page, or a line that says why there is none."""
    if record.ref is not None and has_text(record):
        end = record.offset + record.length
        async for piece in objects.stream(record.ref, start=record.offset, end=end):
            yield piece
    elif record.status.terminal:
        yield failure_note(record)
    else:
        yield f"*Page {record.number} has not been read yet.*".encode()
