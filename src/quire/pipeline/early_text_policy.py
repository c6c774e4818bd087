"""When pages without a text are read by OCR while they wait for AI.

OCR takes seconds of CPU for a page that AI may still read, so it starts only when no model that may read the page has
answered for a while. A page that only waits for its turn, while models answer other pages, is not read early.
"""

from __future__ import annotations

import math

from quire.domain.job import MainJob
from quire.pipeline.parts import Parts
from quire.settings import Settings

_STRICT_S = 1.5
_PROVEN_S = 60.0
"""If a model answered in this time, the strict policy waits as long as the default one."""


def early_text_delay_s(settings: Settings, since_answer_s: float = math.inf) -> float | None:
    """Returns how long no model may answer before OCR starts; None if it never starts (AI_EARLY_TEXT=0)."""
    allowed_s = settings.ai.early_text_after_s
    if not allowed_s:
        return None
    is_strict = settings.jobs.max_attempts == 1
    return min(allowed_s, _STRICT_S) if is_strict and since_answer_s > _PROVEN_S else allowed_s


async def seconds_until_early_text(parts: Parts, job: MainJob) -> float | None:
    """Returns the time until OCR of the job's waiting pages is due: 0 if it is, None if it never is."""
    if parts.ai is None or not parts.readers.ocr:
        return None
    dispatcher, options = parts.ai.dispatcher, job.options
    candidates = dispatcher.candidates.of(options.engine, options.model_tier)
    since_s = await dispatcher.admission.since_answer_s([one.target for one in candidates])
    delay_s = early_text_delay_s(parts.settings, since_s)
    return None if delay_s is None else max(0.0, delay_s - since_s)
