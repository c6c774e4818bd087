"""The pool's own tests start its fork servers as they are started outside of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.quire_processes import use_real_readers, use_warm_readers


@pytest.fixture(autouse=True, scope="package")
def real_readers() -> Iterator[None]:
    use_real_readers()
    yield
    use_warm_readers()
