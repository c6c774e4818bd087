"""The settings of extraction: values by a schema, asked of a model and checked against the pages."""

from __future__ import annotations

from dataclasses import dataclass

from quire.settings import setting_kinds
from quire.settings.setting_kinds import setting


@dataclass(frozen=True)
class ExtractionSettings:
    """Extraction: values by a schema, with their proof."""

    timeout_s: float = setting(
        "EXTRACT_TIMEOUT",
        "5m",
        setting_kinds.duration("1s", "1h"),
        "The time of one extraction: reading the document where it is new, and all questions to models.",
    )
    tier: str = setting(
        "EXTRACT_TIER",
        "primary",
        setting_kinds.choice("primary", "secondary", "fast"),
        "The tier of models that extract values.",
    )
    window_tokens: int = setting(
        "EXTRACT_WINDOW_TOKENS",
        "6000",
        setting_kinds.integer(500, 1_000_000),
        "How much of a document, in estimated tokens, one question to a model has.",
    )
    max_tokens: int = setting(
        "EXTRACT_MAX_TOKENS",
        "400000",
        setting_kinds.integer(1_000, 100_000_000),
        "How much of a document, in estimated tokens, one extraction may read; a longer one is refused.",
    )
    concurrency: int = setting(
        "EXTRACT_CONCURRENCY",
        "4",
        setting_kinds.integer(1, 100),
        "How many questions of one extraction are asked at once.",
    )
    repairs: int = setting(
        "EXTRACT_REPAIRS",
        "2",
        setting_kinds.integer(0, 10),
        "How often an answer with invalid values is sent back to the model with its errors.",
    )
