"""What the stages depend on, assembled in bootstrap.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quire.clock import Clock
from quire.coordination.job_store import JobStore
from quire.coordination.liveness import Workers
from quire.coordination.streams import Queues
from quire.domain.routing import Readers
from quire.objects.disk_guard import DiskGuard
from quire.objects.object_store import ObjectStore
from quire.pipeline.intake.sealing import Sealer
from quire.pipeline.job_reports import JobReports
from quire.reading.pool.child_pool import ChildPool
from quire.settings import Settings

if TYPE_CHECKING:
    from quire.pipeline.stages.ai_pages import AiReading
    from quire.telemetry.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    clock: Clock
    process_id: str
    """Of this process, also if it has no worker (`WorkerId`)."""
    jobs: JobStore
    reports: JobReports
    queues: Queues
    workers: Workers
    objects: ObjectStore
    disk: DiskGuard
    pool: ChildPool
    sealer: Sealer
    readers: Readers
    reader_processes: int
    ai: AiReading | None = None
    tracer: Tracer | None = None
