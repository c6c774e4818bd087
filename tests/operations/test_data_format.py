"""A Quire that meets data of a newer version refuses it with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.coordination import keys
from quire.coordination.data_format import FORMAT
from quire.errors import CoordinationError
from tests.support.running import quire


async def test_start_is_refused_when_the_data_is_of_a_newer_format(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        assert await one.connection.command("GET", keys.FORMAT) == str(FORMAT)
        await one.connection.command("SET", keys.FORMAT, FORMAT + 1)
    with pytest.raises(CoordinationError, match="written by a newer version of Quire"):
        async with quire(tmp_path, kinds=None):
            pass


async def test_data_is_opened_and_marked_when_an_older_version_wrote_no_format(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        await one.connection.command("DEL", keys.FORMAT)
    async with quire(tmp_path, kinds=None) as one:
        assert await one.connection.command("GET", keys.FORMAT) == str(FORMAT)
        assert await one.connection.command("TTL", keys.FORMAT) > 0
