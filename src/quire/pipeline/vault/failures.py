"""Why a classification failed, in the categories of the source, and how long to wait before the next try."""

from __future__ import annotations

from collections.abc import Sequence

from quire.dispatch.checks import CUT_OFF, EMPTY, REFUSED, REPEATING
from quire.errors import QuireError
from quire.pipeline.vault.question import INVALID
from quire.settings.vault import VaultSettings

_TEXTS = {
    "ai_content_blocked": "The AI's content filter refused the document.",
    "ai_quota": "The AI's quota is used up, or its models are overloaded.",
    "rate_limit": "The AI takes no more requests at the moment.",
    "timeout": "The AI gave no answer in time.",
    "network": "The AI could not be reached.",
    "server": "The AI failed.",
    "model_not_found": "The AI has no such model; the operator has to look at the models' names.",
    "auth": "The AI doesn't accept the key; the operator has to look at it.",
    "validation": "The AI rejected the request.",
}
_BAD_ANSWERS = (INVALID, EMPTY, REFUSED, CUT_OFF, REPEATING)
_BAD_ANSWER = "The AI's answer could not be used."
_CAME_TOO_LATE = ("page_timeout", "ai_unavailable")
_FINAL = frozenset({"ai_content_blocked", "validation", "auth"})


class ClassificationError(QuireError):
    """A document has no classification. The code is that of what happened last."""

    def __init__(self, code: str, public: str, *, retryable: bool) -> None:
        super().__init__(public, retryable=retryable)
        self.code = code


def failure(reasons: Sequence[str]) -> ClassificationError:
    """The error that stands for all that went wrong, the last of it first."""
    for reason in reversed(reasons):
        if reason in _TEXTS:
            return ClassificationError(reason, _TEXTS[reason], retryable=reason not in _FINAL)
        if reason in _BAD_ANSWERS:
            return ClassificationError(reason, _BAD_ANSWER, retryable=True)
        if reason in _CAME_TOO_LATE:
            return out_of_time()
        if reason.endswith("cost_ceiling"):
            return ClassificationError(reason, "The budget for AI is used up.", retryable=False)
    return ClassificationError("ai_failed", "The AI failed.", retryable=True)


def out_of_time() -> ClassificationError:
    return ClassificationError("timeout", _TEXTS["timeout"], retryable=True)


def wait_s(reasons: Sequence[str], settings: VaultSettings) -> float:
    """How long to leave the AI alone: the longest wait of what went wrong."""
    waits = {
        "ai_quota": settings.classify_quota_delay_s,
        "rate_limit": settings.classify_rate_limit_delay_s,
    }
    return max((waits.get(reason, settings.classify_retry_delay_s) for reason in reasons), default=0.0)
