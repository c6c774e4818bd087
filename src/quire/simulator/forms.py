"""Answers in a form that was asked for: JSON objects, by the properties that their schema names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_NUMBERED = re.compile(r"numbered ((?:\d+ ?)+)")


def filled_form(schema: Mapping[str, Any], text: str) -> str | None:
    """The answer to a question of a known form, made from the text that came with it; None for other forms."""
    properties = schema.get("properties")
    for name, fill in _FORMS.items():
        if isinstance(properties, Mapping) and name in properties:
            return json.dumps(fill(text))
    return None


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
    """A classification from the document's own first lines, with those of the tags it was shown that it names."""
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
