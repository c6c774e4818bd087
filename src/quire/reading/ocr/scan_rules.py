"""Finds the rules that are drawn on a page in its picture: the lines of tables and frames.

Weakness: broken, dotted and leaning rules are not found; a very heavy one is taken for a picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.reading.ocr.ink_lines import ink_runs
from quire.reading.pdf.drawn_rules import DrawnRule, Rules

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_LONG_SIDE_PX = 1400
_DARK = 150
_LEAST_ACROSS, _LEAST_DOWN = 0.06, 0.018
"""The shortest rule that counts, in page widths and heights; a word's strokes never join to that."""
_THICKEST_PX = 5
_MOST = 400


def rules_in(picture: Image.Image) -> Rules:
    """The rules of an upright grey picture, in its pixels. A page of nothing but rules has none worth having."""
    import numpy as np

    ratio = max(1, round(max(picture.size) / _LONG_SIDE_PX))
    ink = np.asarray(picture.reduce(ratio) if ratio > 1 else picture) < _DARK
    # A rule that leans by a pixel in its length is in two rows: together they have all of it.
    across = _runs(ink[:-1] | ink[1:], round(_LEAST_ACROSS * ink.shape[1]))
    down = _runs((ink[:, :-1] | ink[:, 1:]).T, round(_LEAST_DOWN * ink.shape[0]))
    flat, tall = _rules(across, ratio), _rules(down, ratio)
    return Rules() if max(len(flat), len(tall)) > _MOST else Rules(flat, tall)


def _runs(ink: Pixels, least: int) -> list[tuple[int, int, int]]:
    """Row, start and end of every run of ink that is long enough."""
    rows, starts, ends = ink_runs(ink)
    long = ends - starts >= max(8, least)
    return list(zip(rows[long].tolist(), starts[long].tolist(), ends[long].tolist(), strict=True))


def _rules(runs: list[tuple[int, int, int]], ratio: int) -> tuple[DrawnRule, ...]:
    """Runs in rows that follow one another are one rule; what is thicker than a rule is none."""
    groups: list[list[tuple[int, int, int]]] = []
    open_groups: list[list[tuple[int, int, int]]] = []
    for run in runs:
        open_groups = [group for group in open_groups if run[0] - group[-1][0] <= 1]
        near = next((one for one in open_groups if run[1] < one[-1][2] and one[-1][1] < run[2]), None)
        if near is None:
            near = []
            groups.append(near)
            open_groups.append(near)
        near.append(run)
    return tuple(
        DrawnRule(
            (group[0][0] + group[-1][0] + 2) / 2 * ratio,
            min(start for _, start, _ in group) * ratio,
            max(end for _, _, end in group) * ratio,
        )
        for group in groups
        if group[-1][0] - group[0][0] < _THICKEST_PX
    )
