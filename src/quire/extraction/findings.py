"""Claims with their ground, item by item and window by window, put together as one result.

Items of a list are told apart by their places on the pages, not by their values: two equal rows of a table are two
items, one row that two windows have seen is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.extraction.citation_check import FieldDoubt, QuoteMatch, ValueClaim, ValueGround, check_claim
from quire.extraction.field_schema import SchemaLeaf, SchemaList, SchemaNode, SchemaRecord
from quire.extraction.model_answer import ClaimTree
from quire.extraction.page_words import PageWords, TextSpan

_RANK = {QuoteMatch.EXACT: 3, QuoteMatch.NORMALISED: 2, QuoteMatch.FUZZY: 1, QuoteMatch.NONE: 0}
Path = tuple[str | int, ...]


@dataclass(slots=True)
class FieldFinding:
    """One leaf: its value, where it was found, and what speaks against it. `at` is the chosen one of the places."""

    value: Any
    ground: ValueGround
    at: int = 0
    alternatives: list[FieldFinding] = field(default_factory=list)
    doubts: set[FieldDoubt] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.doubts |= set(self.ground.doubts)

    @property
    def match(self) -> QuoteMatch:
        return self.ground.match

    @property
    def quoted(self) -> TextSpan | None:
        return self.ground.spans[self.at] if self.ground.spans else None

    @property
    def place(self) -> TextSpan | None:
        return self.ground.values[self.at] if self.ground.values else None


FindingTree = FieldFinding | list[Any] | dict[str, Any]
"""Findings in the shape of the schema."""


def ground_claims(
    node: SchemaNode, claims: ClaimTree, pages: Mapping[int, PageWords]
) -> tuple[FindingTree, int]:
    """The findings of one answer about these pages, and how many items it had twice, which are left out."""
    if isinstance(node, SchemaLeaf):
        claim = claims if isinstance(claims, ValueClaim) else ValueClaim(None)
        return FieldFinding(claim.value, check_claim(node, claim, pages)), 0
    if isinstance(node, SchemaRecord):
        fields = claims if isinstance(claims, dict) else {}
        found = {name: ground_claims(one, fields[name], pages) for name, one in node.fields.items()}
        return {name: tree for name, (tree, _) in found.items()}, sum(count for _, count in found.values())
    listed = [ground_claims(node.items, one, pages) for one in (claims if isinstance(claims, list) else [])]
    items = [tree for tree, _ in listed if any(one.value is not None for _, one in leaves(tree))]
    kept = _told_apart(items)
    return kept, len(items) - len(kept) + sum(count for _, count in listed)


def leaves(tree: FindingTree, path: Path = ()) -> Iterator[tuple[Path, FieldFinding]]:
    """Every leaf of a tree with its path."""
    if isinstance(tree, FieldFinding):
        yield path, tree
    elif isinstance(tree, dict):
        for name, one in tree.items():
            yield from leaves(one, (*path, name))
    else:
        for place, one in enumerate(tree):
            yield from leaves(one, (*path, place))


def _told_apart(items: Sequence[FindingTree]) -> list[FindingTree]:
    """Gives each item a place of its own; an item for whose values no place is left is a double and left out."""
    taken: dict[str, set[tuple[int, int]]] = {}
    kept: list[FindingTree] = []
    for item in items:
        values = [(path, one) for path, one in leaves(item) if one.value is not None]
        used = taken.setdefault(json.dumps([[list(path), one.value] for path, one in values]), set())
        placed = [one for _, one in values if one.ground.values]
        if not placed:
            if not used:
                used.add((0, 0))
                kept.append(item)
            continue
        anchor = min(placed, key=lambda one: (len(one.ground.values), -_length(one.ground.values[0])))
        free = [n for n, span in enumerate(anchor.ground.values) if (span.page, span.start) not in used]
        if not free:
            continue
        anchor.at = free[0]
        chosen = anchor.ground.values[anchor.at]
        used.add((chosen.page, chosen.start))
        for one in placed:
            if one is not anchor:
                one.at = _nearest(one.ground, anchor.ground.spans[anchor.at], chosen)
        kept.append(item)
    return kept


def _length(span: TextSpan) -> int:
    return span.end - span.start


def _nearest(ground: ValueGround, quoted: TextSpan, chosen: TextSpan) -> int:
    """The place of a value that belongs to the anchor: in the same words, else the one that is nearest to it."""

    def distance(n: int) -> tuple[bool, bool, int]:
        span, value = ground.spans[n], ground.values[n]
        apart = span.page != quoted.page or span.start >= quoted.end or quoted.start >= span.end
        return apart, value.page != chosen.page, abs(value.start - chosen.start)

    return min(range(len(ground.values)), key=distance)


def merge(node: SchemaNode, trees: Sequence[FindingTree]) -> FindingTree:
    """The findings of several windows as one tree."""
    if isinstance(node, SchemaLeaf):
        return _best([one for one in trees if isinstance(one, FieldFinding)])
    if isinstance(node, SchemaRecord):
        return {
            name: merge(one, [tree[name] for tree in trees if isinstance(tree, dict)])
            for name, one in node.fields.items()
        }
    return _joined(node, [tree for tree in trees if isinstance(tree, list)])


def _best(found: Sequence[FieldFinding]) -> FieldFinding:
    """The value with the best ground; others that pages say as well are kept as alternatives, and as a doubt."""
    groups: dict[str, list[FieldFinding]] = {}
    for one in found:
        if one.value is not None and one.match is not QuoteMatch.NONE:
            groups.setdefault(json.dumps(one.value), []).append(one)
    if not groups:
        given = [one for one in found if one.value is not None]
        return (given or list(found))[0]
    ranked = sorted(groups.values(), key=_worth, reverse=True)
    best = max(ranked[0], key=lambda one: _RANK[one.match])
    if len(ranked) > 1:
        best.doubts.add(FieldDoubt.CONFLICT)
        best.alternatives = [group[0] for group in ranked[1:]]
    return best


def _worth(group: Sequence[FieldFinding]) -> tuple[int, int, int]:
    first = min((one.place.page for one in group if one.place), default=0)
    return max(_RANK[one.match] for one in group), len(group), -first


def _joined(node: SchemaList, lists: Sequence[list[FindingTree]]) -> list[FindingTree]:
    """The items of all lists in the order of their places; those of different lists at the same places are one."""
    kept: list[FindingTree] = []
    known: dict[tuple[Path, int, int], int] = {}
    for items in lists:
        earlier = dict(known)
        for item in items:
            places = _places(item)
            same = [earlier[place] for place in places if place in earlier]
            twin = max(set(same), key=same.count) if same else None
            if twin is not None and 2 * same.count(twin) > min(len(places), len(_places(kept[twin]))):
                kept[twin] = merge(node.items, [kept[twin], item])
            else:
                twin = len(kept)
                kept.append(item)
            known.update(dict.fromkeys(places, twin))
    return sorted(kept, key=_first_place)


def _places(item: FindingTree) -> list[tuple[Path, int, int]]:
    """Where the values of an item are; positions in lists inside the item don't count."""
    return [
        (tuple(step for step in path if isinstance(step, str)), one.place.page, one.place.start)
        for path, one in leaves(item)
        if one.place is not None
    ]


def _first_place(item: FindingTree) -> tuple[int, int]:
    return min(((page, start) for _, page, start in _places(item)), default=(1 << 30, 0))


def without_ungrounded_items(
    tree: FindingTree, path: Path = ()
) -> tuple[FindingTree, list[tuple[Path, Any]]]:
    """The tree without items of lists that no page says anything of, and those items with the path of their list."""
    rejected: list[tuple[Path, Any]] = []
    if isinstance(tree, FieldFinding):
        return tree, rejected
    if isinstance(tree, dict):
        kept: dict[str, Any] = {}
        for name, one in tree.items():
            kept[name], inner = without_ungrounded_items(one, (*path, name))
            rejected += inner
        return kept, rejected
    items: list[Any] = []
    for one in tree:
        if all(leaf.match is QuoteMatch.NONE for _, leaf in leaves(one)):
            rejected.append((path, values_of(one, keep_ungrounded=True)))
            continue
        item, inner = without_ungrounded_items(one, (*path, len(items)))
        items.append(item)
        rejected += inner
    return items, rejected


def values_of(tree: FindingTree, *, keep_ungrounded: bool) -> Any:
    """The values alone. What no page says is null, unless it is to be kept; what is invalid is always null."""
    if isinstance(tree, dict):
        return {name: values_of(one, keep_ungrounded=keep_ungrounded) for name, one in tree.items()}
    if isinstance(tree, list):
        return [values_of(one, keep_ungrounded=keep_ungrounded) for one in tree]
    refused = FieldDoubt.INVALID in tree.doubts or (tree.match is QuoteMatch.NONE and not keep_ungrounded)
    return None if refused else tree.value
