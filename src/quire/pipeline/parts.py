"""What the stages depend on, assembled in bootstrap.py."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quire.clock import Clock
from quire.coordination.job_store import JobStore
from quire.coordination.liveness import Workers
from quire.coordination.streams import Queues
from quire.domain.routing import Readers
from quire.objects.object_store import ObjectStore
from quire.pipeline.intake.sealing import Sealer
from quire.reading.pool.child_pool import ChildPool
from quire.settings import Settings

if TYPE_CHECKING:
    from quire.pipeline.stages.ai_pages import AiReading


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    clock: Clock
    jobs: JobStore
    queues: Queues
    workers: Workers
    objects: ObjectStore
    pool: ChildPool
    sealer: Sealer
    readers: Readers
    reader_processes: int
    ocr_turns: asyncio.Semaphore
    """OCR takes seconds a page: no more of it waits for a reader process than there are, so that quick
    pages never queue behind slow ones."""
    ai: AiReading | None = None
