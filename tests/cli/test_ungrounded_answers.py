"""An invented sentence and number of a model, from the provider to the places where a user can see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quire.client import Quire
from quire.client.records import PageDone
from quire.simulator.simulated_answers import INVENTED_SENTENCE
from quire.simulator.simulator_thread import RunningSimulator, simulator
from tests.cli.conftest import Cli, make_pdf
from tests.cli.test_service_commands import KEY, Service

TEXT = "The committee met in the large hall\nand heard the report of the secretary\nabout the harbour."
WARNING = "AI added to page {} what the page does not show (1 element, 1 number); compare with the original"


INVENTED = {"rules": [{"fault": "invented", "last": 1}]}
"""The first answer has the invented sentence, the others are right."""
BUSY = {"rules": [{"fault": "rate_limit", "retry_after_s": 0.1}]}


@pytest.fixture(scope="module")
def sim() -> Iterator[RunningSimulator]:
    with simulator() as one:
        yield one


@pytest.fixture
def ai(sim: RunningSimulator) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": sim.openai_url,
        "OPENAI_PRIMARY_MODEL": "m",
        "OPENAI_SECONDARY_MODEL": "m",
        "SECONDARY_ENGINE": "none",
        "BREAKER_BASE_BACKOFF": "50ms",
        "BREAKER_MAX_BACKOFF": "50ms",
    }


def test_service_and_client_count_what_is_invented_when_an_answer_has_it(
    cli: Cli, sim: RunningSimulator, ai: dict[str, str]
) -> None:
    service = Service(cli, FILES_BASE=str(cli.folder), **ai)
    document = make_pdf(cli.folder / "report.pdf", TEXT, TEXT).read_bytes()
    told: list[PageDone] = []
    with Quire(service.url, KEY) as quire:
        sim.play(BUSY)  # no page is read before the events are listened to
        job_id = quire.convert(document, name="report.pdf", mode="ai", wait=False).job_id
        seen: dict[int, dict[str, Any]] = {}
        for event in quire.events(job_id):
            if event.type == "snapshot":
                sim.play(INVENTED)
            seen |= {page["number"]: page for page in event.data.get("pages") or ()}
        quire.wait(job_id, on_page=told.append)
        pages = {page.page_number: page for page in quire.pages(job_id)}
        elements = {page.page_number: page.elements for page in quire.elements(job_id)}
        metadata = quire.job(job_id).metadata or {}

    (bad,) = [number for number, page in pages.items() if page.ungrounded]
    good = 3 - bad
    assert (pages[bad].ungrounded, pages[bad].ungrounded_numbers) == (1, 1)
    assert pages[bad].grade != "good"
    assert {"not_supported_by_page", "ungrounded_numbers"} <= set(pages[bad].reason)
    assert (pages[good].ungrounded, pages[good].ungrounded_numbers, pages[good].grade) == (0, 0, "good")
    assert (seen[bad]["ungrounded"], seen[bad]["ungrounded_numbers"]) == (1, 1)
    assert "ungrounded" not in seen[good]
    for page in told:
        known = pages[page.number]
        assert (page.grade, page.confidence) == (known.grade, known.confidence)
        assert (page.ungrounded, page.ungrounded_numbers) == (known.ungrounded, known.ungrounded_numbers)
    assert [page.number for page in told] == [1, 2]
    assert [one["text"] for one in elements[bad] if one["grounded"] is False] == [INVENTED_SENTENCE]
    assert all(one["grounded"] for one in elements[good])
    assert metadata["ungrounded_pages"] == [bad]
    assert (metadata["ungrounded"], metadata["ungrounded_numbers"]) == (1, 1)

    watched = service.run("jobs", "watch", job_id)
    assert watched.said.splitlines()[-1] == f"report.pdf: {WARNING.format(bad)}"
    shown = service.run("jobs", "show", job_id).out
    assert "1 elements without support on the page, 1 numbers that the page does not have" in shown


def test_convert_names_the_page_at_the_end_when_an_answer_has_invented_text(
    cli: Cli, sim: RunningSimulator, ai: dict[str, str]
) -> None:
    sim.play(INVENTED)
    make_pdf(cli.folder / "one.pdf", TEXT)
    first = cli.run("convert", "--mode", "ai", "one.pdf", **ai)
    assert first.code == 0
    assert INVENTED_SENTENCE in first.out
    assert first.said.splitlines()[-1] == f"one.pdf: {WARNING.format(1)}"
    second = cli.run("convert", "--mode", "ai", "one.pdf", **ai)
    assert INVENTED_SENTENCE not in second.out
    assert len(second.said.splitlines()) == 1
