"""Compares a result of extraction with what the document says, and with the errors that were planted in the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.labelled_documents import Labelled, Leaf, Plant

_SLACK_PT = 3.0


@dataclass
class Grades:
    """Counts over documents. `faults` are sentences about what went wrong."""

    documents: int = 0
    pages: int = 0
    values: int = 0
    kept: int = 0
    cited: int = 0
    cited_right: int = 0
    tight: int = 0
    planted: Counter[str] = field(default_factory=Counter)
    flagged: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def grade(document: Labelled, result: dict[str, Any], grades: Grades) -> None:
    """Adds one document to the grades."""
    grades.documents += 1
    grades.pages += document.pages
    fields = {one["path"]: one for one in result["fields"]}
    spoiled = {one.path: one.kind for one in document.plants}
    for path, leaf in _leaves(document.truth):
        kind = spoiled.get(path)
        if kind in ("made_up", "made_up_value", "missing"):
            continue
        grades.values += 1
        found = fields.get("/" + "/".join(map(str, path)))
        if found is None or found["value"] != leaf.value:
            grades.faults.append(
                f"{document.name} {path}: {leaf.value!r} became {found and found['value']!r} {kind}"
            )
            continue
        grades.kept += 1
        _grade_citation(document, path, leaf, found, grades)
    for one in document.plants:
        grades.planted[one.kind] += 1
        if _is_flagged(document, one, result, fields):
            grades.flagged[one.kind] += 1
        else:
            shown = fields.get("/" + "/".join(map(str, one.path)))
            grades.faults.append(f"{document.name} {one}: not flagged: {shown}")
    extra = [path for path in fields if not _is_known(document, path)]
    grades.faults += [f"{document.name} {path}: a value too many" for path in extra]


def _grade_citation(
    document: Labelled, path: tuple[Any, ...], leaf: Leaf, found: dict[str, Any], grades: Grades
) -> None:
    grades.cited += 1
    x, y = (leaf.box[0] + leaf.box[2]) / 2, (leaf.box[1] + leaf.box[3]) / 2
    for one in found["citations"]:
        x0, y0, x1, y1 = one["box"] or (0, 0, 0, 0)
        inside = x0 - _SLACK_PT <= x <= x1 + _SLACK_PT and y0 - _SLACK_PT <= y <= y1 + _SLACK_PT
        if one["page"] == leaf.page and inside:
            grades.cited_right += 1
            grades.tight += y1 - y0 <= 2 * (leaf.box[3] - leaf.box[1])
            return
    grades.faults.append(f"{document.name} {path}: cited {found['citations']}, is {leaf.page} {leaf.box}")


def _is_flagged(
    document: Labelled, planted: Plant, result: dict[str, Any], fields: dict[str, dict[str, Any]]
) -> bool:
    if planted.kind == "double":
        return bool(result["doubles_dropped"] == 1)
    if planted.kind == "made_up_item":
        return [one["path"] for one in result["items_rejected"]] == [f"/{planted.path[0]}"]
    found = fields["/" + "/".join(map(str, planted.path))]
    flags = found["flags"]
    return {
        "made_up": found["value"] is None and ("ungrounded" in flags or "invalid" in flags),
        "made_up_value": found["value"] is None and "ungrounded" in flags,
        "wrong_page": "page" in flags,
        "paraphrase": "quote" in flags and found["match"] == "fuzzy",
        "missing": found["value"] is None and "missing" in flags,
        "invalid_first": result["usage"]["calls"] > 1 and not flags,
    }[planted.kind]


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Leaf]]:
    if isinstance(tree, Leaf):
        yield path, tree
        return
    for name, one in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from _leaves(one, (*path, name))


def _is_known(document: Labelled, path: str) -> bool:
    found: Any = document.truth
    for step in path.strip("/").split("/"):
        if isinstance(found, list):
            if int(step) >= len(found):
                return False
            found = found[int(step)]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            return False
    return isinstance(found, Leaf)
