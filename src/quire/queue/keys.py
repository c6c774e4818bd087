"""Every key in Redis. Keys of one job share a hash tag, so one script can change them on a cluster too."""

from __future__ import annotations

from dataclasses import dataclass

from quire.domain.jobs import UnitKind

ACTIVE = "jobs:active"
"""zset: running main jobs by the time (ms) somebody should look after them next."""

EXPIRY = "jobs:expiry"
"""zset: object prefixes of main jobs by the time (ms) their objects are to be deleted."""

WORKERS = "workers"
"""zset: worker ids by their last heartbeat (ms), trimmed by whoever keeps house."""

HOUSEKEEPER = "lock:housekeeper"
"""string with TTL: the one process that moves delayed entries, sweeps and expires."""


def worker(worker_id: str) -> str:
    """string with TTL: alive while it exists."""
    return f"worker:{worker_id}"


def index(team: str) -> str:
    """zset: a team's main jobs by creation (ms), trimmed by age."""
    return f"jobs:index:{team}"


def dedup(team: str, fingerprint: str) -> str:
    """string with TTL: the job that already answers for this content and these options."""
    return f"dedup:{team}:{fingerprint}"


@dataclass(frozen=True, slots=True)
class JobKeys:
    """The five keys of a job, in the order in which its scripts take them."""

    job: str
    pages: str
    work: str
    slow: str
    events: str

    @classmethod
    def of(cls, job_id: str) -> JobKeys:
        record = f"job:{{{job_id}}}"
        return cls(record, f"{record}:pages", f"{record}:work", f"{record}:slow", f"{record}:events")

    def all(self) -> tuple[str, str, str, str, str]:
        return self.job, self.pages, self.work, self.slow, self.events


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """A queue: its stream, its consumer group, its delayed entries and its dead letters."""

    stream: str
    group: str

    @property
    def delayed(self) -> str:
        return f"{self.stream}:delayed"

    @property
    def dlq(self) -> str:
        return f"{self.stream}:dlq"


QUEUES: dict[UnitKind, QueueKeys] = {
    UnitKind.DOWNLOAD: QueueKeys("jobs:download", "workers:download"),
    UnitKind.SPLIT: QueueKeys("jobs:split", "workers:split"),
    UnitKind.READ: QueueKeys("jobs:pages", "workers:pages"),
    UnitKind.PAGE: QueueKeys("jobs:ai:pages", "workers:images"),
    UnitKind.MERGE: QueueKeys("jobs:merge", "workers:merge"),
    UnitKind.CALLBACK: QueueKeys("jobs:callback", "workers:callback"),
}
