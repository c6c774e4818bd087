"""Every key in Redis. Keys of one job share a hash tag, so one script can change them on a cluster too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from quire.domain.job import JobPriority, UnitKind

ACTIVE = "jobs:active"
"""zset: running main jobs by the time (ms) of their next sweep."""

EXPIRY = "jobs:expiry"
"""zset: object prefixes of main jobs by the time (ms) their objects are to be deleted."""

RETAINED = "jobs:retained"
"""zset: main jobs by the time (ms) of their next retention check."""

ORDER = "jobs:order"
"""zset: main jobs that have not ended by the time (ms) they were queued; the rank is the position of a document."""

WORKERS = "workers"
"""zset: worker ids by their last heartbeat (ms), trimmed by the housekeeper."""

WORKERS_DISK_FULL = "workers:disk_full"
"""zset with TTL: workers that take no units because their disk is full, by their last heartbeat (ms)."""

WORKERS_CLOCK_OFF = "workers:clock_off"
"""zset with TTL: `<worker> <seconds that its clock is behind>` by the last heartbeat (ms)."""

PROTOCOLS = "quire:protocols"
"""zset with TTL: `<protocol> <oldest protocol it works with> <process>` by the last announcement (ms)."""

FORMAT = "quire:format"
"""string with TTL: the format number of what is stored, renewed at each start of a process."""

MIGRATION = "quire:migration"
"""string with TTL: the id of the migration that is writing this server; deleted when the migration has ended."""


RECONCILED = "quire:reconciled"
"""string with TTL: the run of the server whose jobs were compared with the journal of the object plane."""

CATALOG_RUN = "quire:catalog_run"
"""string with TTL: the run of the catalog's database whose rows were compared with the conversions."""

HOUSEKEEPER = "lock:housekeeper"
"""string with TTL: the one process that moves delayed entries, sweeps and expires."""


def worker(worker_id: str) -> str:
    """string with TTL: alive while it exists. A worker's has the time (ms) and the units that it held then, as JSON."""
    return f"worker:{worker_id}"


def removed_job(job_id: str) -> str:
    """string with TTL: the job was deleted on purpose; what is left of its journal does not bring it back."""
    return f"removed:{job_id}"


def index(team: str) -> str:
    """zset: a team's main jobs by creation (ms), trimmed by age."""
    return f"jobs:index:{team}"


def dedup(team: str, fingerprint: str) -> str:
    """string with TTL: the job that is registered for this content and these options."""
    return f"dedup:{team}:{fingerprint}"


def vault_revivals(team: str, document_id: str) -> str:
    """hash with TTL: attempt -> how often the vault sweeper revived the document."""
    return f"vault:revivals:{team}:{document_id}"


def vault_revived(team: str, document_id: str, attempt: int) -> str:
    """string with TTL: a vault sweeper has revived this attempt, and no other does so until the key expires."""
    return f"vault:revived:{team}:{document_id}:{attempt}"


def vault_deleted(job_id: str) -> str:
    """string with TTL: the document of this conversion was deleted; its remaining objects may be deleted."""
    return f"vault:deleted:{job_id}"


VAULT_UNTIDY = "vault:untidy"
"""string with TTL: since this deletion the catalog's full text has words of deleted documents in it."""

VAULT_EMBEDDER = "lock:vault-embedder"
"""string with TTL: the one process that embeds what has no vector yet."""

SERVED = "jobs:served"
"""list with TTL: how long the latest GhostServer documents waited and took, for estimates."""


def ghost_file(team: str, digest: str) -> str:
    """string with TTL: the newest job of a file id, which is hashed because callers choose it."""
    return f"ghost:file:{team}:{digest}"


BATCH_CALLBACKS = "batches:callbacks"
"""zset: document batches that wait to call back by the time (ms) of the next look; trimmed as they end."""


def batch_claim(batch_id: str) -> str:
    """string with TTL: a process looks at this batch now."""
    return f"batch:claim:{batch_id}"


def batch_attempts(batch_id: str) -> str:
    """string with TTL: how often the callback of this batch failed."""
    return f"batch:attempts:{batch_id}"


def batch_misses(batch_id: str) -> str:
    """string with TTL: how often this batch, or some of its jobs, were missing when the batch was due."""
    return f"batch:misses:{batch_id}"


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


@dataclass(frozen=True)
class QueueKeys:
    """A queue: its streams, their consumer group, its delayed entries and its dead letters.

    The hash tag puts the streams of other priorities into the slot of the normal one, whose name is part of the
    protocol: one command or script can read all three on a cluster too.
    """

    stream: str
    group: str
    prioritised: bool = False

    def stream_of(self, priority: JobPriority) -> str:
        normal = priority is JobPriority.NORMAL or not self.prioritised
        return self.stream if normal else f"{{{self.stream}}}:{priority.value}"

    @cached_property
    def priorities(self) -> tuple[JobPriority, ...]:
        """Those with a stream of their own, the highest first."""
        return tuple(JobPriority) if self.prioritised else (JobPriority.NORMAL,)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """In the order of `priorities`."""
        return tuple(map(self.stream_of, self.priorities))

    @property
    def delayed(self) -> str:
        return f"{self.stream}:delayed"

    @property
    def dlq(self) -> str:
        return f"{self.stream}:dlq"


QUEUES: dict[UnitKind, QueueKeys] = {
    UnitKind.DOWNLOAD: QueueKeys("jobs:download", "workers:download", prioritised=True),
    UnitKind.SPLIT: QueueKeys("jobs:split", "workers:split", prioritised=True),
    UnitKind.READ: QueueKeys("jobs:pages", "workers:pages", prioritised=True),
    UnitKind.PAGE: QueueKeys("jobs:ai:pages", "workers:images", prioritised=True),
    UnitKind.EARLY: QueueKeys("jobs:early", "workers:early"),
    UnitKind.MERGE: QueueKeys("jobs:merge", "workers:merge", prioritised=True),
    UnitKind.EXPORT: QueueKeys("jobs:export", "workers:export"),
    UnitKind.CALLBACK: QueueKeys("jobs:callback", "workers:callback"),
    UnitKind.VAULT: QueueKeys("jobs:vault", "workers:vault"),
    UnitKind.CLASSIFY: QueueKeys("jobs:ai:classify", "workers:classify"),
    UnitKind.CLASSIFY_IMAGE: QueueKeys("jobs:ai:classify:images", "workers:classify-images"),
    UnitKind.EMBED: QueueKeys("jobs:embed", "workers:embed"),
}


_WORK = "{quire:work}:"


def work_signal(kind: UnitKind) -> str:
    """zset of at most eight members: wake-ups for workers that wait for entries of a queue."""
    return f"{_WORK}{kind.value}"


def work_interrupt(worker_id: str) -> str:
    """zset with TTL: wakes one worker, so that it waits for other queues."""
    return f"{_WORK}worker:{worker_id}"


def vault_rate(second: int) -> str:
    """string with TTL: vault jobs started in this second, over all workers."""
    return f"vault:rate:{second}"


def login_attempts(client: str) -> str:
    """hash with TTL: a client's remaining sign-in attempts, and when they were counted."""
    return f"login:{client}"


def ended_session(session_id: str) -> str:
    """string with TTL: a dashboard session that was signed out before its expiry."""
    return f"session:ended:{session_id}"


# --- Batching. One hash tag for all of it, so that each change is one script on a cluster too. ---

_PARSE = "parse:{parse}:"

PARSE_QUEUE = f"{_PARSE}queue"
"""zset: waiting requests; the score orders by priority, then by arrival."""

PARSE_SEQUENCE = f"{_PARSE}seq"
"""string: the arrival number given last."""

PARSE_BATCHES = f"{_PARSE}batches"
"""hash: claimed batches, by the replica that claimed them."""

PARSE_SLOTS = f"{_PARSE}slots"
"""hash: batches that are at the backend, by the replica that sent them."""

PARSE_SEGMENTS = f"{_PARSE}segments"
"""hash: objects with bodies, by how many of their requests are still unanswered."""

PARSE_EXPIRY = f"{_PARSE}expiry"
"""zset: objects of the batcher by the time (ms) they are to be deleted."""

PARSE_BREAKER = f"{_PARSE}breaker"
"""hash: failures in a row, when to try again, the kind of failure, the lease of the probe."""

PARSE_CALLS = f"{_PARSE}calls"
"""zset: batches with a call at the backend, by the time (ms) when the lease of the call ends."""

PARSE_MODEL = f"{_PARSE}model"
"""hash: weighted sums over batch sizes and service times, from which the line is fitted."""

PARSE_STATS = f"{_PARSE}stats"
"""hash: counters, and when the last batch was sent."""

PARSE_WAKE = f"{_PARSE}wake"
"""channel: ids of requests that have ended, for replicas other than the one that ended them; or `work`."""


def parse_request(request_id: str) -> str:
    """hash with TTL: one request, from its acceptance until its result expires."""
    return f"{_PARSE}r:{request_id}"


def parse_batch(batch_id: str) -> str:
    """set with TTL: the requests of a batch that have not ended."""
    return f"{_PARSE}b:{batch_id}"


def parse_key(fingerprint: str) -> str:
    """string with TTL: the request that was made with this Idempotency-Key."""
    return f"{_PARSE}k:{fingerprint}"


def parse_rate(client: str) -> str:
    """hash with TTL: what is left in a client's token bucket, and when that was."""
    return f"{_PARSE}rate:{client}"


# --- AI. One hash tag for all models, so that one script can look at every candidate on a cluster too. ---

_AI = "{ai}"

AI_CLOCK = f"clock:{_AI}"
"""string with TTL: the latest time known to the admission scripts and what is added to the clock since it jumped."""

AI_ERRORS = f"errors:{_AI}"
"""list with TTL: the newest failures of providers (key of the breaker, code, time), trimmed."""

AI_RECOVERY_WANTED = f"recovery:{_AI}"
"""string with TTL: a page or document found no model lately, so broken models are probed."""


AI_MODELS = f"models:{_AI}"
"""zset with TTL: models that have leases (`provider:model`) by the time (ms) until which their set is kept; trimmed."""


def ai_lease(lease_id: str) -> str:
    """string with TTL: what was granted to this lease, for a call that is repeated."""
    return f"lease:{_AI}:{lease_id}"


def ai_provider_breaker(provider: str) -> str:
    """hash with TTL: the breaker that a wrong key opens for all models of a provider."""
    return f"cb:{_AI}:{provider}"


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """The keys of one model of one provider, in the order in which the scripts take them."""

    wide: str
    breaker: str
    inflight: str
    rpm: str
    tpm: str

    @classmethod
    def named(cls, name: str) -> ModelKeys:
        """By its name in AI_MODELS."""
        provider, _, model = name.partition(":")
        return cls.of(provider, model)

    @classmethod
    def of(cls, provider: str, model: str) -> ModelKeys:
        name = f"{_AI}:{provider}:{model}"
        return cls(
            ai_provider_breaker(provider),
            f"cb:{name}",
            f"inflight:{name}",
            f"rl:{name}:rpm",
            f"rl:{name}:tpm",
        )

    def all(self) -> tuple[str, str, str, str, str]:
        return self.wide, self.breaker, self.inflight, self.rpm, self.tpm


def ai_answered(provider: str, model: str) -> str:
    """string with TTL: a call of this model succeeded; the time to live that is left says when."""
    return f"answered:{_AI}:{provider}:{model}"


AI_WAITING = "jobs:ai:pages:waiting"
"""zset: those of the delayed AI pages that wait for a free candidate, by when they came; woken as calls end."""

AI_RECOVERING = "jobs:ai:recovering"
"""zset: delayed units that wait for a broken model, by when they came; they join AI_WAITING when a breaker closes."""


def ai_pages(job_id: str) -> str:
    """hash with TTL, gone with its job: page number -> what its AI calls have cost so far; `cost` of them all."""
    return f"job:{{{job_id}}}:ai"


def ai_answer(fingerprint: str) -> str:
    """string with TTL: the object that holds the answer to this request."""
    return f"answer:{fingerprint}"


def ai_answers_of(job_id: str) -> str:
    """set with TTL: the fingerprints of kept answers that a vault document's job got or was served."""
    return f"job:{{{job_id}}}:answers"


def ai_team_usage(team: str, month: str) -> str:
    """hash with TTL: calls, tokens and micro-dollars of a team in a month."""
    return f"usage:{team}:{month}"


def ai_key_usage(key_id: str, month: str) -> str:
    """hash with TTL: the same of an API key. A team's name has no colon, so this is no team's account."""
    return f"usage:key:{key_id}:{month}"
