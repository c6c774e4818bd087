"""What the simulated model writes: the page's text where it was given, otherwise a text made from the picture."""

from __future__ import annotations

import random
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

from quire.simulator.forms import filled_form
from quire.simulator.scenario import Fault

_CHARACTERS_PER_TOKEN = 4
_LOOP_SENTENCE = "and so on and so forth, "
_WORDS = ("river", "stone", "paper", "winter", "market", "engine", "garden", "letter", "signal", "copper")
# The page's own text stands under a heading with this word, between those of its neighbours.
_CURRENT = re.compile(r"^=== Page \d+ \(current\) ===\n(.*?)(?=^=== Page \d+|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as both protocols have it. `image` is the encoded picture, never decoded."""

    model: str
    instructions: str
    text: str
    image: str
    max_tokens: int
    schema: dict[str, Any] | None = field(default=None, kw_only=True)
    """The form that the answer is held to, if any."""


@dataclass(frozen=True, slots=True)
class Written:
    """`cut` says that the answer ran into the limit of tokens."""

    text: str
    tokens_in: int
    tokens_out: int
    cut: bool = False
    refused: bool = False
    filtered: bool = False


def write(asked: Asked, fault: Fault | None, image_tokens: int) -> Written:
    """The same for the same request, always."""
    text = (filled_form(asked.schema, asked.text) if asked.schema else None) or _page(asked)
    tokens_in = _tokens(asked.instructions) + _tokens(asked.text) + (image_tokens if asked.image else 0)
    if fault is Fault.EMPTY:
        return Written("", tokens_in, 1)
    if fault is Fault.REFUSAL:
        return Written("", tokens_in, 12, refused=True)
    if fault is Fault.CONTENT_FILTER:
        return Written(text[: len(text) // 2], tokens_in, _tokens(text) // 2, filtered=True)
    if fault is Fault.TRUNCATED:
        return Written(text[: len(text) // 2], tokens_in, asked.max_tokens, cut=True)
    if fault is Fault.LOOP:
        text += "\n\n" + _LOOP_SENTENCE * 200
    tokens_out = _tokens(text)
    if tokens_out > asked.max_tokens:
        return Written(
            text[: asked.max_tokens * _CHARACTERS_PER_TOKEN], tokens_in, asked.max_tokens, cut=True
        )
    return Written(text, tokens_in, tokens_out)


def _page(asked: Asked) -> str:
    found = _CURRENT.search(asked.text)
    text = (found[1] if found else asked.text).strip()
    return text or _from_picture(asked.image)


def _from_picture(image: str) -> str:
    """A few sentences that depend on the picture, and a mark by which a test can recognise it."""
    mark = picture_mark(image)
    words = random.Random(int(mark, 16)).choices(_WORDS, k=24)  # noqa: S311 - repeatable on purpose
    lines = [" ".join(words[start : start + 8]).capitalize() + "." for start in (0, 8, 16)]
    return "# Page\n\n" + " ".join(lines) + f"\n\n[Picture {mark}]"


def picture_mark(image_base64: str) -> str:
    """Eight digits for a picture, from its length and both ends; the whole would cost too much."""
    ends = image_base64[:2000] + image_base64[-2000:]
    return f"{zlib.crc32(ends.encode('ascii', 'replace'), len(image_base64)):08x}"


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
