"""Puts paragraphs of columns of text into reading order: column after column, between what spans several of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quire.reading.pdf.layout_blocks import LayoutBlock

_LEAST_GUTTER = 4.0
_DEEPEST = 12
_APART = 0.6


def column_order(
    blocks: Sequence[LayoutBlock], depth: int = 0, *, may_be_labels: bool = False
) -> list[LayoutBlock]:
    """The blocks in reading order.

    They are divided at gutters that no block crosses, else at gaps below which all go on, and each part alike. Blocks
    that nothing divides come from top to bottom. With `may_be_labels` texts on the left stay with those beside them.
    """
    if len(blocks) < 2 or depth == _DEEPEST:
        return list(blocks)
    for axis in (0, 1):
        parts = _parts(blocks, axis)
        if len(parts) > 1 and not (may_be_labels and axis == 0 and _are_labels(parts[0], parts[1])):
            return [
                block
                for part in parts
                for block in column_order(part, depth + 1, may_be_labels=may_be_labels)
            ]
    return sorted(blocks, key=lambda block: (block.box[1], block.box[0]))


def _are_labels(left: Sequence[LayoutBlock], right: Sequence[LayoutBlock]) -> bool:
    """Whether the texts on the left are apart, and each begins at the height of one on the right: it is its label."""
    tops = [block.box[1] for block in right]
    boxes = sorted((block.box for block in left), key=lambda box: box[1])
    are_apart = all(below[1] - above[3] > _APART * (above[3] - above[1]) for above, below in pairwise(boxes))
    return (
        len(left) > 1
        and are_apart
        and all(any(abs(block.box[1] - top) < _LEAST_GUTTER for top in tops) for block in left)
    )


def _parts(blocks: Sequence[LayoutBlock], axis: int) -> list[list[LayoutBlock]]:
    """Runs of blocks with space between them, along the page (axis 1) or across it (axis 0)."""
    parts: list[list[LayoutBlock]] = []
    reached = 0.0
    for block in sorted(blocks, key=lambda block: block.box[axis]):
        least = 0.0 if axis else _LEAST_GUTTER
        if parts and block.box[axis] < reached + least:
            parts[-1].append(block)
            reached = max(reached, block.box[axis + 2])
        else:
            parts.append([block])
            reached = block.box[axis + 2]
    return parts
