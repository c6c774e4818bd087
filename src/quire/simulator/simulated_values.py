"""The simulated model's answers to questions about values, from a table of what the documents say.

The table has for each file name a tree in the shape of the question's schema, whose leaves are
`{"value", "quote", "page"}`. A leaf is answered if its page is among those of the question; `on` names another page
for that, so that a test can plant a wrong page. `invalid` is a value that the first answer has, until it is repaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_QUESTION = re.compile(r'^File name: "(.*)"$', re.MULTILINE)
_PAGE = re.compile(r"^\[page (\d+)\]$", re.MULTILINE)
_REPAIR = "\nYour last answer:\n"
_LEAF = frozenset({"value", "quote", "page"})
_NOTHING: dict[str, Any] = {"value": None, "quote": None, "page": None}


def values_answer(truth: Mapping[str, Any], text: str) -> str | None:
    """Returns the answer to a question about values; None for another question, or another document."""
    asked, _, repairing = text.partition(_REPAIR)
    named = _QUESTION.search(asked) if asked.startswith("Schema: ") else None
    tree = truth.get(json.loads(f'"{named[1]}"')) if named else None
    if tree is None:
        return None
    pages = {int(number) for number in _PAGE.findall(asked)}
    return json.dumps(_answered(tree, pages, repaired=bool(repairing)))


def _answered(tree: Any, pages: set[int], *, repaired: bool) -> Any:
    if isinstance(tree, list):
        items = [one for one in tree if _is_on(one, pages)]
        return [_answered(one, pages, repaired=repaired) for one in items]
    if not _LEAF.issubset(tree):
        return {name: _answered(one, pages, repaired=repaired) for name, one in tree.items()}
    if not _is_on(tree, pages):
        return _NOTHING
    value = tree["value"] if repaired else tree.get("invalid", tree["value"])
    return {"value": value, "quote": tree["quote"], "page": tree["page"]}


def _is_on(tree: Any, pages: set[int]) -> bool:
    """Whether any leaf of the tree is on one of the pages."""
    if isinstance(tree, list):
        return any(_is_on(one, pages) for one in tree)
    if not _LEAF.issubset(tree):
        return any(_is_on(one, pages) for one in tree.values())
    return tree.get("on", tree["page"]) in pages
