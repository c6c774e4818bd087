"""Answers made piece by piece are the same as if they had been made whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from quire.api.http.responses import disposition
from quire.api.jobs.result_routes import as_json, preferred
from quire.api.jobs.written_results import Format


async def _pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@given(text=st.text(), size=st.integers(1, 7))
def test_json_is_the_same_wherever_the_text_is_cut(text: str, size: int) -> None:
    async def whole() -> bytes:
        data = text.encode("utf-8", "replace")
        return b"".join([one async for one in as_json({"job_id": "x"}, _pieces(data, size), {"pages": 1})])

    found = json.loads(asyncio.run(whole()))
    markdown = text.encode("utf-8", "replace").decode()
    assert found == {"job_id": "x", "result": {"markdown": markdown, "metadata": {"pages": 1}}}


@given(name=st.text(st.characters(exclude_categories=("Cs",))))
def test_file_name_can_not_leave_its_header(name: str) -> None:
    header = disposition("attachment", name)
    assert header.isascii()
    assert header.isprintable()
    quoted = header.split('filename="', 1)[1].split('"', 1)[0]
    assert header == f"attachment; filename=\"{quoted}\"; filename*=UTF-8''{header.rsplit(chr(39), 1)[1]}"


def test_form_is_chosen_by_weight_when_several_are_asked_for() -> None:
    for accept, chosen in (
        ("", Format.JSON),
        ("*/*", Format.JSON),
        ("text/html", Format.JSON),
        ("text/markdown", Format.MARKDOWN),
        ("application/json;q=0.1, text/markdown;q=0.9", Format.MARKDOWN),
        ("text/markdown;q=0, */*", Format.JSON),
        ("text/plain;q=nonsense", Format.JSON),
        ("TEXT/PLAIN; charset=utf-8; q=0.5", Format.TEXT),
    ):
        assert preferred(accept) is chosen, accept
