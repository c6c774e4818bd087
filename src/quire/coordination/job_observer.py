"""What the job store reports of its jobs: accepted, ended, and pages recorded, each by the process that did it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quire.coordination.job_records import NewJob
from quire.domain.job import PageRecord


class JobObserver(Protocol):
    """Gets each change once. Must not raise: the change is written already."""

    def trace_of_new_job(self) -> str:
        """Returns what the record of a new job says of its trace; nothing where traces are off."""
        ...

    def accepted(self, new: NewJob) -> None: ...

    async def ended(self, job_id: str) -> None: ...

    def pages_recorded(self, records: Sequence[PageRecord]) -> None:
        """Pages that a worker has recorded. A record that is still queued is to be read by a slower reader."""
        ...


class UnobservedJobs:
    """Ignores every change."""

    def trace_of_new_job(self) -> str:
        return ""

    def accepted(self, new: NewJob) -> None:
        pass

    async def ended(self, job_id: str) -> None:
        pass

    def pages_recorded(self, records: Sequence[PageRecord]) -> None:
        pass
