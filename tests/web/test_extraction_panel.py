"""Values with proof in the dashboard: a real browser, the real service, and a model that answers from the truth."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from quire.client import Options, Quire
from quire.simulator.simulated_answers import INVENTED_SENTENCE
from quire.simulator.simulator_thread import RunningSimulator, simulator
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S
from tests.web.browsing import PASSWORD, Window, browser, needs_browser

pytestmark = needs_browser

Pdf = Callable[..., bytes]
KEY = "key-of-the-tests"
INVENTED = "<img src=x onerror=window.pwned=1>"
SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "buyer": {"type": "string"}, "date": {"type": "string"}},
}
TRUTH = {
    "total": {"value": 17.5, "quote": "Total due: 17.50", "page": 2},
    "buyer": {"value": INVENTED, "quote": "Sold to", "page": 1},
    "date": {"value": None, "quote": None, "page": 1},
}
SCENARIO = {"truth": {"invoice.pdf": TRUTH}}
COVERS = """() => {
    const box = document.querySelector(".cited").getBoundingClientRect();
    const sheet = document.querySelector("figure img").getBoundingClientRect();
    return [(box.left - sheet.left) / sheet.width, (box.top - sheet.top) / sheet.height,
        (box.right - sheet.left) / sheet.width, (box.bottom - sheet.top) / sheet.height];
}"""


@pytest.fixture(scope="module")
def sim() -> Iterator[RunningSimulator]:
    with simulator(SCENARIO) as one:
        yield one


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory, sim: RunningSimulator) -> Iterator[Window]:
    """A user who is signed in to a service with AI."""
    folder = tmp_path_factory.mktemp("service")
    with browser() as chromium:
        server = Server(
            folder,
            WEB_PASSWORD=PASSWORD,
            API_KEYS=f"press:{KEY}",
            READER_PROCESSES="1",
            OPENAI_API_KEY="key",
            OPENAI_BASE_URL=sim.openai_url,
            OPENAI_PRIMARY_MODEL="m",
            OPENAI_SECONDARY_MODEL="m",
            SECONDARY_ENGINE="none",
        )
        try:
            context = chromium.new_context(viewport={"width": 1280, "height": 800})
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            one = Window(context.new_page(), server.wait_ready().url)
            one.go()
            one.sign_in()
            expect(one.page.get_by_role("button", name="Sign out")).to_be_visible()
            yield one
            one.check()
        finally:
            server.stop()


@pytest.fixture(scope="module")
def job_id(window: Window, make_pdf: Pdf) -> str:
    with Quire(window.url, KEY) as quire:
        pdf = make_pdf("Invoice of the harbour office", "Mooring for a week\nTotal due: 17.50")
        quire.documents.save_schema("invoice", SCHEMA)
        return quire.convert(pdf, name="invoice.pdf", mode="local").job_id


def extracted(window: Window, job_id: str) -> Page:
    page = window.go(f"#/jobs/{job_id}")
    page.reload()
    expect(page.get_by_label("Text of the page")).to_contain_text("harbour office")
    page.get_by_text("Extract values").click()
    page.get_by_label("JSON Schema").fill(json.dumps(SCHEMA))
    page.get_by_role("button", name="Extract", exact=True).click()
    return page


def test_value_leads_to_its_proof_and_one_without_proof_is_not_shown_as_good(
    window: Window, job_id: str, tmp_path: Path
) -> None:
    page = extracted(window, job_id)
    expect(page.get_by_role("heading", name="1 value with proof, 1 without, 1 not found")).to_be_visible()
    total, buyer, date = (page.get_by_role("row", name=f"/{name}") for name in SCHEMA["properties"])
    expect(total).to_contain_text("17.5")
    expect(total.locator(".badge.good")).to_have_text("✓ normalised")
    expect(buyer.locator(".badge.bad")).to_have_text("✕ no proof on the page")
    expect(buyer).to_contain_text(f"null; the model said: {INVENTED}")
    expect(date.locator(".badge.idle")).to_have_text("· not found")
    assert page.evaluate("window.pwned") is None

    # By keyboard: Enter on the quotation opens its page at the words, and back again.
    quotation = total.get_by_role("button", name="Page 2")
    quotation.press("Enter")
    expect(page.get_by_label("Text of the page")).to_contain_text("Mooring for a week")
    assert page.url.endswith("/page/2")
    sheet = page.get_by_role("region", name="Page", exact=True)
    expect(sheet).to_be_focused()
    expect(sheet.locator("blockquote").first).to_have_text("Total due: 17.50")
    expect(page.locator(".cited")).to_be_visible()
    with Quire(window.url, KEY) as quire:
        result = quire.extract(job_id=job_id, schema=SCHEMA)
        [cited] = next(one for one in result.fields if one.path == "/total").citations
        _, shape = quire.elements(job_id)
    x0, y0, x1, y1 = cited["box"]
    wanted = [x0 / shape.width, y0 / shape.height, x1 / shape.width, y1 / shape.height]
    assert page.evaluate(COVERS) == pytest.approx(wanted, abs=0.01)
    page.get_by_role("button", name="Back to the value").click()
    expect(quotation).to_be_focused()
    page.get_by_role("button", name="Previous page").click()
    expect(page.get_by_label("Text of the page")).to_contain_text("harbour office")
    expect(page.locator(".cited")).to_have_count(0)

    with page.expect_download() as saved:
        page.get_by_role("button", name="JSON", exact=True).click()
    saved.value.save_as(tmp_path / "values.json")
    assert json.loads((tmp_path / "values.json").read_text())["values"]["total"] == 17.5
    page.get_by_role("button", name="Copy JSON").click()
    expect(page.locator("#live")).to_have_text("Copied.")
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["values"]["buyer"] is None


def test_saved_schema_is_chosen_on_a_phone_and_a_wrong_one_is_refused_in_words(
    window: Window, job_id: str
) -> None:
    window.page.set_viewport_size({"width": 390, "height": 844})
    page = extracted(window, job_id)
    expect(page.get_by_role("row", name="/total")).to_be_visible()
    assert window.overflow() <= 0
    page.get_by_role("row", name="/total").get_by_role("button", name="Page 2").click()
    expect(page.locator(".cited")).to_be_in_viewport()
    assert window.overflow() <= 0

    alert = page.get_by_role("region", name="Extract values").get_by_role("alert")
    for wrong, words in (("{", "not valid JSON"), ('{"not": {}}', "schema: "), ("", "choose a saved one")):
        page.get_by_label("JSON Schema").fill(wrong)
        page.get_by_role("button", name="Extract", exact=True).click()
        expect(alert).to_contain_text(words)
        expect(page.get_by_role("row", name="/total")).to_have_count(0)
    page.get_by_role("combobox", name="Schema").select_option("invoice")
    expect(page.get_by_label("JSON Schema")).to_be_hidden()
    page.get_by_role("button", name="Extract", exact=True).click()
    expect(page.get_by_role("row", name="/total")).to_contain_text("17.5")
    expect(page.locator(".extraction .error")).to_be_empty()


def test_values_of_a_vault_document_lead_to_their_proof(window: Window, job_id: str, make_pdf: Pdf) -> None:
    window.page.set_viewport_size({"width": 1280, "height": 800})
    with Quire(window.url, KEY) as quire:
        pdf = make_pdf("Invoice of the harbour office, kept", "Mooring for a week\nTotal due: 17.50")
        added = quire.documents.upload(pdf, name="invoice.pdf", options=Options(mode="local"))
    page = window.go(f"#/vault/{added.document_id}")
    page.reload()
    expect(page.get_by_label("Text of the page")).to_contain_text("harbour office, kept")
    page.get_by_text("Extract values").click()
    page.get_by_role("combobox", name="Schema").select_option("invoice")
    page.get_by_role("button", name="Extract", exact=True).click()
    total = page.get_by_role("row", name="/total")
    expect(total.locator(".badge.good")).to_have_text("✓ normalised")
    expect(page.get_by_role("row", name="/buyer").locator(".badge.bad")).to_have_text(
        "✕ no proof on the page"
    )
    total.get_by_role("button", name="Page 2").click()
    expect(page.get_by_label("Text of the page")).to_contain_text("Mooring for a week")
    expect(page.locator(".cited")).to_be_in_viewport()
    assert f"#/vault/{added.document_id}" in page.url


def test_page_quotes_what_ai_has_added_when_the_page_does_not_show_it(
    window: Window, sim: RunningSimulator, make_pdf: Pdf
) -> None:
    sim.play({**SCENARIO, "rules": [{"fault": "invented"}]})
    lines = (f"Paragraph {row} says that the committee met in the large hall." for row in range(12))
    text = "\n".join(lines)
    with Quire(window.url, KEY) as quire:
        done = quire.convert(make_pdf(text), name="added.pdf", mode="ai", wait_s=DEADLINE_S)
    sim.play(SCENARIO)
    assert done.metadata["ungrounded_pages"] == [1]
    page = window.go(f"#/jobs/{done.job_id}/page/1")
    expect(page.locator("h1 + .badge")).to_contain_text("Completed, 1 to check")
    expect(page.locator("section.page .badge")).to_contain_text("Not as the page")
    expect(page.locator("section.page p.attention q")).to_have_text(INVENTED_SENTENCE)
    expect(page.locator(".grid .cells button").first).to_have_class(re.compile("warn"))
