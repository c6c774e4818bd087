"""What tests of the HTTP interfaces send: texts that are not duplicates, multipart forms, converted documents."""

from __future__ import annotations

import uuid

import aiohttp

from tests.support.serving import Client


def fresh(text: str) -> str:
    """A text that no other test has, so that deduplication leaves it alone."""
    return f"{text} {uuid.uuid4().hex}"


def form(
    *files: tuple[str, bytes],
    file_field: str = "file",
    file_type: str | None = None,
    **fields: str | list[str],
) -> aiohttp.FormData:
    """A multipart form with these files (name, content) and fields; a list gives a field several times."""
    found = aiohttp.FormData(default_to_multipart=True)
    for name, value in fields.items():
        for one in [value] if isinstance(value, str) else value:
            found.add_field(name, one)
    for name, data in files:
        found.add_field(file_field, data, filename=name, content_type=file_type)
    return found


async def converted(client: Client, document: bytes, **fields: str) -> str:
    """Converts the document and returns the id of its job."""
    answer = await client.upload(document, fields, wait=240)
    assert answer.status == 200, answer.body
    return str(answer.json["job_id"])
