from __future__ import annotations

from collections.abc import Sequence

import pytest

from quire.reading.pdf.mupdf import StoreBound

_MB = 1 << 20


class _Process:
    """A process whose memory is known, or is not."""

    def __init__(self) -> None:
        self.own_mb: int | None = None
        self.after_emptying_mb: int | None = None
        self.was_emptied = False

    def own_bytes(self) -> int | None:
        return None if self.own_mb is None else self.own_mb * _MB

    def empty(self) -> None:
        self.own_mb, self.was_emptied = self.after_emptying_mb, True


@pytest.mark.parametrize(
    ("chunks", "emptied"),
    [
        pytest.param([(100, 100)], [True], id="the first chunk"),
        pytest.param([(100, 100), (116, 0), (110, 0)], [True, False, False], id="fonts of a plain document"),
        pytest.param([(100, 100), (117, 105), (120, 0)], [True, True, False], id="much was decoded"),
        pytest.param([(200, 200), (90, 0), (107, 90)], [True, False, True], id="after a large document"),
        pytest.param([(None, None), (None, None)], [True, True], id="a system that does not tell"),
    ],
)
def test_the_store_is_emptied_when_the_process_has_grown(
    chunks: Sequence[tuple[int | None, int | None]], emptied: Sequence[bool]
) -> None:
    process = _Process()
    bound = StoreBound(process.own_bytes, process.empty)
    found = []
    for own_mb, after_emptying_mb in chunks:
        process.own_mb, process.after_emptying_mb, process.was_emptied = own_mb, after_emptying_mb, False
        bound.check()
        found.append(process.was_emptied)
    assert found == emptied
