"""What differs between two documents, over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

from tests.support.environment import clean_environment
from tests.support.serving import Client, Server
from tests.support.submitted_documents import converted, fresh

Pdf = Callable[..., bytes]


async def test_the_page_that_changed_is_named_when_two_versions_are_compared(
    client: Client, beta: Client, server: Server, make_pdf: Pdf
) -> None:
    pages = [fresh("first"), fresh("second"), fresh("third")]
    a = await converted(client, make_pdf(*pages))
    b = await converted(client, make_pdf(pages[0], "inserted", pages[1], "another third"))
    found = (await client.get(f"/jobs/{a}/diff/{b}")).json
    counts = [found[f"pages_{name}"] for name in ("equal", "changed", "added", "removed")]
    assert (found["equal"], counts) == (False, [2, 1, 1, 0])
    assert [(one["change"], one["a"], one["b"]) for one in found["pages"]] == [
        ("added", None, 2),
        ("changed", 3, 4),
    ]
    texts = [(one["a"]["text"], one["b"]["text"]) for one in found["pages"][1]["elements"]]
    assert texts == [(pages[2], "another third")]
    short = (await client.get(f"/jobs/{a}/diff/{b}?limit=0")).json
    assert [one["elements"] for one in short["pages"]] == [None, None]
    assert (await client.get(f"/jobs/{a}/diff/{a}")).json["equal"] is True
    assert (await beta.get(f"/jobs/{a}/diff/{b}")).status == 404
    assert (await client.get(f"/jobs/{a}/diff/0")).status == 404

    for one, code in ((b, 1), (a, 0)):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "quire", "diff", a, one, "--json"),
            env=clean_environment(QUIRE_URL=server.url, QUIRE_API_KEY="key-of-alpha"),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == code
        assert json.loads(out)["equal"] is (code == 0)
