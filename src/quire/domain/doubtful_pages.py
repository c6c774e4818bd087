"""Counts the pages of a result that are to be compared with the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DOUBTS = ("low_confidence_pages", "words_missing_pages", "ungrounded_pages", "altered_pages")


def doubtful_pages(metadata: Mapping[str, Any]) -> int:
    """How many pages of a result are to be compared with the original, by its metadata.

    Pages by AI that nothing could be compared with are not among them: nothing speaks against them.
    """
    return len({number for name in _DOUBTS for number in metadata.get(name, ())})
