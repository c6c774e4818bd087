"""Owns which element holds which: a page is a tree, and every reader's elements get their places in it here.

An item of a list is held by the item that it is indented below; a caption, a paragraph of an item or of a quotation by
what its reader says. A heading holds nothing: its level is settled over the whole document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import RUNNING_KINDS, Element, element_id


def with_item_parents(elements: Sequence[Element]) -> tuple[Element, ...]:
    """The elements, each indented item without a parent held by the nearest item before it that is less indented.

    A list ends with the first element that is not held by one of its items. Running lines end none.
    """
    if not any(one.depth and one.parent is None for one in elements):
        return tuple(elements)
    placed: list[Element] = []
    around: list[Element] = []  # the items that the next one may be in, each deeper than the one before
    held: set[str] = set()
    for one in elements:
        if one.is_item:
            while around and around[-1].depth >= one.depth:
                around.pop()
            item = replace(one, parent=around[-1].id) if around and one.parent is None else one
            around.append(item)
            held.add(item.id)
            placed.append(item)
            continue
        if one.parent in held:
            held.add(one.id)
        elif one.kind not in RUNNING_KINDS:
            around.clear()
            held.clear()
        placed.append(one)
    return tuple(placed)


def renumbered(elements: Sequence[Element], number: int) -> tuple[Element, ...]:
    """The elements with ids in the order given, as those of page `number`; parents follow their elements."""
    ids = {one.id: element_id(number, at) for at, one in enumerate(elements)}
    return tuple(
        replace(one, id=element_id(number, at), parent=ids.get(one.parent) if one.parent else None)
        for at, one in enumerate(elements)
    )
