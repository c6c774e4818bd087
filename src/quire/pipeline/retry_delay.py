"""How long a unit of work waits before it is tried again."""

from __future__ import annotations

import random

from quire.settings import JobsSettings


def retry_delay_s(failures: int, jobs: JobsSettings, *, at_least_s: float = 0.0) -> float:
    """Longer after each of the failures, and a little by chance, so that units that failed together part."""
    jitter_s = jobs.retry_jitter_s * random.random()  # noqa: S311 - spreads retries, guards nothing
    return max(jobs.retry_base_delay_s * jobs.retry_backoff_factor ** (failures - 1) + jitter_s, at_least_s)
