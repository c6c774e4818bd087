"""Teams are walls: whatever another team's key asks for with our ids, it learns and changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.serving import Answer
from tests.support.vault_client import VaultClient
from tests.support.vault_fixtures import on_both

MARKER = "archaeopteryx"
SECRET = f"# The {MARKER} papers\n\nOn 2026-01-09 the {MARKER} was sold for a large sum of money to nobody.\n".encode()
METHODS = ("get", "post", "put", "delete", "patch")
FINE = frozenset({400, 404, 405, 409, 413, 415})
"""The statuses that a caller of another team may get; never 2xx for an address with our id."""


@on_both
async def test_every_endpoint_is_a_wall_for_another_team(alpha: VaultClient, beta: VaultClient) -> None:
    """Every path of the API, every method, with every id of ours in every place that takes one."""
    document = await alpha.kept("papers.md", SECRET)
    ids = [
        document["document_id"],
        *document["jobs"].values(),
        f"process-doc_alpha_{document['document_id']}",
    ]
    ids += [f"{document['jobs']['process']}-p1", f"{document['jobs']['process']}-merge"]
    before = await alpha.document(document["document_id"])
    paths = (await alpha.get("/openapi.json")).json["paths"]
    assert {"/documents/{document_id}", "/search", "/tags", "/documents/export"} <= set(paths)

    tried = 0
    for path, methods in paths.items():
        for method in (one for one in methods if one in METHODS):
            names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
            if not any(name.endswith("id") for name in names):
                continue
            for one in ids:
                address = path.replace("{number}", "1").replace("{queue}", "page")
                for name in names:
                    address = address.replace(f"{{{name}}}", one if name.endswith("id") else "1")
                answer = await beta.ask(method.upper(), address, **({"json": {}} if method == "post" else {}))
                tried += 1
                assert answer.status in FINE, f"{method} {address}: {answer.status} {answer.body[:300]!r}"
                _tells_nothing(answer)
    assert tried > 60

    for path in (
        "/documents",
        "/documents/counts",
        "/documents/export",
        "/search?q=papers",
        "/tags",
        "/jobs",
    ):
        answer = await beta.get(path)
        assert answer.status == 200, f"{path}: {answer.body!r}"
        _tells_nothing(answer)
        assert document["document_id"].encode() not in answer.body
    bulk = await beta.post("/documents/reprocess", json={"document_ids": [document["document_id"]]})
    assert bulk.json["results"][0]["outcome"] == "missing"
    assert await alpha.document(document["document_id"]) == before


WORDS = st.sampled_from(
    [MARKER, "papers", "archaeop", "archaeopterix", "money", "sold", "2026-01-09", "", "*", '"']
)
QUERY = st.fixed_dictionaries(
    {},
    optional={
        "q": st.lists(WORDS, max_size=4).map(" ".join),
        "tag": st.sampled_from([MARKER, "papers", "%", "'; --"]),
        "type": st.sampled_from(["md", "pdf"]),
        "language": st.sampled_from(["en", "de"]),
        "status": st.sampled_from(["completed", "pending", "failed", "stale", "needs_classification"]),
        "date_from": st.just("2026-01-01"),
        "date_to": st.just("2026-12-31"),
        "limit": st.integers(1, 100),
        "prefix": st.sampled_from(["a", "arch", "p", ""]),
    },
)
PLACES = st.sampled_from(["/documents", "/search", "/tags", "/documents/counts", "/documents/export"])


@pytest.fixture
async def papers(alpha: VaultClient) -> dict[str, Any]:
    return await alpha.kept("papers.md", SECRET)


@on_both
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=PLACES, query=QUERY)
async def test_no_question_of_another_team_finds_our_documents(
    beta: VaultClient, papers: dict[str, Any], place: str, query: dict[str, Any]
) -> None:
    answer = await beta.get(place, params=query)

    assert answer.status == 200, answer.body
    _tells_nothing(answer, query)
    assert papers["document_id"].encode() not in answer.body


@on_both
async def test_cursor_of_one_team_shows_nothing_to_another(alpha: VaultClient, beta: VaultClient) -> None:
    for number in range(2):
        await alpha.kept(f"p{number}.md", SECRET + str(number).encode())
    cursors = [
        (await alpha.get("/documents?limit=1")).json["next_cursor"],
        (await alpha.get(f"/search?q={MARKER}&limit=1")).json["next_cursor"],
    ]
    assert all(cursors)

    for place in ("/documents?limit=5", f"/search?q={MARKER}&limit=5"):
        for cursor in cursors:
            answer = await beta.get(f"{place}&cursor={cursor}")
            assert answer.status in (200, 400)
            _tells_nothing(answer, {"q": MARKER})


@on_both
async def test_same_bytes_in_another_team_are_another_document(alpha: VaultClient, beta: VaultClient) -> None:
    ours = await alpha.kept("papers.md", SECRET + b"shared")
    theirs = (await beta.put(("papers.md", SECRET + b"shared"))).json["documents"][0]

    assert not theirs["deduplicated"]
    assert theirs["document_id"] != ours["document_id"]
    assert theirs["job_id"] != ours["jobs"]["process"]
    assert (await beta.ask("DELETE", f"/documents/{theirs['document_id']}")).status == 204
    assert (await alpha.get(f"/documents/{ours['document_id']}/content")).status == 200


async def test_nothing_is_answered_without_a_key(alpha: VaultClient) -> None:
    for path in (
        "/documents",
        "/documents/counts",
        "/search?q=x",
        "/tags",
        "/documents/export",
        "/documents/events",
    ):
        answer = await alpha.get(path, headers={"Authorization": "Bearer nobody"})
        assert answer.status == 401, path


def _tells_nothing(answer: Answer, asked: dict[str, Any] | None = None) -> None:
    """Our text is not in the answer; what was asked may be repeated."""
    body = answer.body.decode("utf-8", "ignore")
    if asked and answer.headers.get("Content-Type", "").startswith("application/json"):
        found = json.loads(body)
        if isinstance(found, dict):
            found.pop("query", None)
            found.pop("corrections", None)
        body = json.dumps(found)
    assert MARKER not in body
    assert "papers.md" not in body
