"""The simulated model's answers: the page's text where the request has it, otherwise a text made from the picture.

Requests with a JSON schema get an object with the properties of that schema.
"""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quire.simulator.scenario import Fault
from quire.simulator.simulated_values import values_answer

_NUMBERED = re.compile(r"numbered ((?:\d+ ?)+)")


def filled_form(schema: Mapping[str, Any], text: str) -> str | None:
    """Returns the answer for a known schema, made from the request's text; None for other schemas."""
    properties = schema.get("properties")
    for name, fill in _FORMS.items():
        if isinstance(properties, Mapping) and name in properties:
            return json.dumps(fill(text))
    return None


_DEEPEST = 32


def empty_form(schema: Any, depth: int = 0) -> Any:
    """An answer in the shape of a schema that says nothing: null for each value, and lists without items."""
    options = schema.get("anyOf") if isinstance(schema, Mapping) else None
    if isinstance(options, list):
        schema = next((one for one in options if isinstance(one, Mapping) and "properties" in one), {})
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        return {name: empty_form(one, depth + 1) for name, one in properties.items()}
    return [] if schema.get("type") == "array" else None


def _pictures(text: str) -> dict[str, Any]:
    """A description for every number on the sheet."""
    found = _NUMBERED.search(text)
    numbers = found[1].split() if found else ["1"]
    return {
        "pictures": [
            {"number": int(number), "description": f"A simulated description of picture {number}."}
            for number in numbers
        ]
    }


def _document(text: str) -> dict[str, Any]:
    """A classification from the document's first lines, with the existing tags that its text contains."""
    shown = _TAGS_SHOWN.search(text)
    known = json.loads(shown[1]) if shown else []
    marked = _MARKED.search(text)
    said = (marked[2] if marked else text).strip()
    lines = [line.strip(" #*\t") for line in said.splitlines() if any(map(str.isalnum, line))]
    date = _ISO_DATE.search(said)
    words = [word for word in _LONG_WORD.findall(said.lower()) if word not in known]
    tags = [tag for tag in known if tag.lower() in said.lower()]
    return {
        "title": lines[0][:120] if lines else "A picture",
        "summary": " ".join(lines)[:300] or "A picture without words.",
        "date": date[0] if date else None,
        "language": "de" if " und " in said else "en",
        "tags": [*tags, *dict.fromkeys(words)][:3],
    }


_TAGS_SHOWN = re.compile(r"^Existing tags: (\[.*\])$", re.MULTILINE)
_MARKED = re.compile(r"^--- (\w+) ---\n(.*)\n--- \1 ---$", re.MULTILINE | re.DOTALL)
_ISO_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_LONG_WORD = re.compile(r"[a-zäöüß]{7,}")

_FORMS: Mapping[str, Callable[[str], dict[str, Any]]] = {"pictures": _pictures, "tags": _document}


_CHARACTERS_PER_TOKEN = 4
_LOOP_SENTENCE = "and so on and so forth, "
INVENTED_SENTENCE = "Nobody mentioned that 48731 zeppelins had quietly crossed the frozen lagoon."
_WORDS = ("river", "stone", "paper", "winter", "market", "engine", "garden", "letter", "signal", "copper")
# The page's own text is under a heading with this word, between those of its neighbours.
_CURRENT = re.compile(r"^=== Page \d+ \(current\) ===\n(.*?)(?=^=== Page \d+|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request as both protocols have it. `image` is the encoded picture, never decoded."""

    model: str
    instructions: str
    text: str
    image: str
    max_tokens: int
    schema: dict[str, Any] | None = field(default=None, kw_only=True)
    """The JSON schema of the answer, if any."""


@dataclass(frozen=True, slots=True)
class Written:
    """`cut`: the answer reached the token limit."""

    text: str
    tokens_in: int
    tokens_out: int
    cut: bool = False
    refused: bool = False
    filtered: bool = False


def _form(schema: Mapping[str, Any], text: str, truth: Mapping[str, Any]) -> str:
    return values_answer(truth, text) or filled_form(schema, text) or json.dumps(empty_form(schema))


def write(
    request: ModelRequest, fault: Fault | None, image_tokens: int, truth: Mapping[str, Any] | None = None
) -> Written:
    """Returns the answer; always the same for the same request."""
    text = _page(request) if request.schema is None else _form(request.schema, request.text, truth or {})
    tokens_in = _tokens(request.instructions) + _tokens(request.text) + (image_tokens if request.image else 0)
    if fault is Fault.EMPTY:
        return Written("", tokens_in, 1)
    if fault is Fault.REFUSAL:
        return Written("", tokens_in, 12, refused=True)
    if fault is Fault.CONTENT_FILTER:
        return Written(text[: len(text) // 2], tokens_in, _tokens(text) // 2, filtered=True)
    if fault is Fault.TRUNCATED:
        return Written(text[: len(text) // 2], tokens_in, request.max_tokens, cut=True)
    if fault is Fault.LOOP:
        text += "\n\n" + _LOOP_SENTENCE * 200
    if fault is Fault.INVENTED:
        text += "\n\n" + INVENTED_SENTENCE
    tokens_out = _tokens(text)
    if tokens_out > request.max_tokens:
        return Written(
            text[: request.max_tokens * _CHARACTERS_PER_TOKEN], tokens_in, request.max_tokens, cut=True
        )
    return Written(text, tokens_in, tokens_out)


def _page(request: ModelRequest) -> str:
    found = _CURRENT.search(request.text)
    text = (found[1] if found else request.text).strip()
    return text or _from_picture(request.image)


def _from_picture(image: str) -> str:
    """A few sentences that depend on the picture, and a mark that identifies it in tests."""
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
