"""JSON that doors write while they read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quire.api.doors.door_answers import LongText, LongValue, json_list, json_stream


async def given(*values: Any) -> AsyncIterator[Any]:
    for value in values:
        yield value


@pytest.mark.parametrize("values", [[], [1], [{"a": "é\ud800"}, [], None]])
async def test_a_list_is_json_with_any_number_of_values(values: list[Any]) -> None:
    raw = b"".join([piece async for piece in json_list(given(*values))])
    assert json.loads(raw) == json.loads(json.dumps(values).replace("\\ud800", "?"))


async def test_long_parts_are_written_in_their_places() -> None:
    value = {"text": LongText(given('a"', "b\n")), "list": LongValue(json_list(given())), "none": None}
    answer = await json_stream(value)
    raw = b"".join([bytes(piece) async for piece in answer.body_iterator])  # type: ignore[attr-defined]
    assert json.loads(raw) == {"text": 'a"b\n', "list": [], "none": None}
