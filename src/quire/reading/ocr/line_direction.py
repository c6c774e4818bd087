"""Decides which of its four ways up a page is, from pictures of pieces of its lines.

A small network says of each piece whether it is upright, upside down, or no line of text. The pieces are cut twice:
from the page as it comes, and from the page turned by a quarter. A page on its side gives pieces of the first kind
that are no lines and pieces of the second kind that are. Lines of all scripts are scored alike, so the script need not
be known.

The network (`line_direction.onnx`, 121 kB) is made by `bench/train_line_direction.py` from drawn pages in twelve
scripts.
Weakness: figures alone say little, and neither do pages of one or two words.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from quire.errors import PageError
from quire.reading.ocr.line_pictures import line_pictures

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_LEAST_CHANCE = 0.05
_ENOUGH_LINES = 16
"""More pieces of lines make the answer no surer: those of one page have the same type, and err alike."""


def ways_up(picture: Image.Image, small: Image.Image, ink: Pixels, skew: float) -> tuple[float, float, float]:
    """How likely the lines across the page are upright, upside down, and no lines of text: three logarithms.

    `ink` is the mask of `small`, a copy of `picture`, whose lines are level but for `skew` degrees. All are 0 where
    there are no lines. Raises PageError where the network can't be run.
    """
    found = piece_chances(line_pictures(picture, small, ink, skew))
    if not len(found):
        return 0.0, 0.0, 0.0
    import numpy as np

    upright, upside_down, none = np.log(np.maximum(found, _LEAST_CHANCE)).mean(axis=0) * min(
        len(found), _ENOUGH_LINES
    )
    return float(upright), float(upside_down), float(none)


def piece_chances(pieces: Pixels) -> Pixels:
    """For each picture of a piece of a line, how likely it is upright, upside down, and no line."""
    import numpy as np

    if not len(pieces):
        return np.zeros((0, 3), np.float32)
    try:
        scores = _session().run(None, {"pieces": pieces[:, None].astype(np.float32) / np.float32(255)})[0]
    except Exception as error:  # onnxruntime's own classes, or MemoryError at the child's limit
        _session.cache_clear()
        raise PageError(f"The network of line directions failed ({type(error).__name__}).") from error
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@functools.cache
def _session() -> Any:
    """The one network of this process."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # there is a reader process for each core
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False  # it would keep the memory of the largest page
    network = files(__package__).joinpath("line_direction.onnx").read_bytes()
    return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
