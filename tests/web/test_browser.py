"""What people do in the dashboard, in a real browser against the real service."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from quire.client import Quire
from tests.support.environment import ROOT, clean_environment
from tests.support.office_files import mail
from tests.support.quire_processes import start_quire
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S
from tests.web.browsing import PASSWORD, Window, browser, drop, needs_browser

pytestmark = needs_browser

Pdf = Callable[..., bytes]
KEY = "key-of-the-tests"
FOCUSED = """(() => {
    const found = document.activeElement;
    return found.getAttribute("aria-label") || found.labels?.[0]?.textContent || found.textContent.trim();
})()"""
HOSTILE = """# Hello <script>window.pwned = 1</script>

<img src=x onerror="window.pwned = 2"> <iframe srcdoc="<script>parent.pwned = 3</script>"></iframe>

[press](javascript:window.pwned=4) [data](data:text/html,<script>alert(5)</script>) ![p](https://evil.example/p.png)

| <b onclick="pwned=6">x</b> | y |
|---|---|
| <svg onload="window.pwned = 7"> | `<script>window.pwned = 8</script>` |
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(
        tmp_path_factory.mktemp("service"),
        WEB_PASSWORD=PASSWORD,
        API_KEYS=f"press:{KEY}",
        READER_PROCESSES="1",
        ALLOW_PRIVATE_URLS="true",
        CALLBACK_MAX_ATTEMPTS="1",
    )
    try:
        yield server.wait_ready()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def quire(service: Server) -> Iterator[Quire]:
    with Quire(service.url, KEY) as one:
        yield one


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, service: Server) -> dict[str, object]:
    """The cookie of a signed-in user, for tests that are not about signing in."""
    context = chromium.new_context()
    window = Window(context.new_page(), service.url)
    window.go()
    window.sign_in()
    expect(window.page.get_by_role("button", name="Sign out")).to_be_visible()
    state: dict[str, object] = context.storage_state()  # type: ignore[assignment]
    context.close()
    return state


@pytest.fixture
def window(chromium: Browser, service: Server, signed_in: dict[str, object]) -> Iterator[Window]:
    context = chromium.new_context(storage_state=signed_in, viewport={"width": 1280, "height": 800})  # type: ignore[arg-type]
    one = Window(context.new_page(), service.url)
    yield one
    one.check()
    context.close()


@pytest.fixture(scope="module")
def kept(quire: Quire, make_pdf: Pdf) -> str:
    """A document of three pages in the vault, done."""
    pdf = make_pdf(
        "Charter agreement for the boat Albatross\nSigned in Zadar on 14 March 2026.",
        "Mooring fees are due in the harbour.",
        "The deposit is returned after the inspection.",
    )
    added = quire.documents.upload(pdf, name="charter.pdf")
    assert quire.documents.wait(added.document_id, wait_s=60).status == "completed"
    return added.document_id


def test_vault_opens_only_when_the_password_is_right(chromium: Browser, service: Server) -> None:
    context = chromium.new_context()
    window = Window(context.new_page(), service.url)
    page = window.go()
    dialog = page.locator("dialog#login")
    expect(dialog).to_be_visible()
    window.sign_in("wrong")
    expect(page.get_by_role("alert").filter(has_text="not right")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    window.sign_in()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("heading", name="Vault")).to_be_visible()
    assert page.evaluate("document.cookie") == ""  # out of reach of scripts
    assert page.evaluate("JSON.stringify(sessionStorage)").count(PASSWORD) == 0
    page.reload()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(dialog).to_be_visible()
    page.get_by_role("button", name="Use an API key instead").click()
    page.get_by_label("API key").fill("unknown-key")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").filter(has_text="The API key is not known.")).to_be_visible()
    page.get_by_role("button", name="Use an API key instead").click()
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Forget key")).to_be_visible()
    expect(dialog).to_be_hidden()
    window.check()
    context.close()


def test_dropped_files_become_cards_that_fill_in_without_a_reload(window: Window, make_pdf: Pdf) -> None:
    page = window.go()
    expect(page.get_by_role("searchbox", name="Search the vault")).to_be_visible()
    drop(
        page,
        [
            ("minutes.pdf", "application/pdf", make_pdf("Minutes of the meeting of the harbour board")),
            ("broken.pdf", "application/pdf", b"%PDF-1.7 nothing more"),
        ],
    )
    good = page.locator("li.card", has_text="minutes.pdf")
    expect(good).to_be_visible()
    expect(good.locator(".badge")).to_contain_text(re.compile("Ready|Not classified"))
    expect(good.locator("img")).to_be_visible()
    bad = page.locator("li.card.bad", has_text="broken.pdf")
    expect(bad.get_by_role("button", name="Retry processing")).to_be_visible()
    expect(bad.locator(".error")).not_to_be_empty()


def test_cards_and_pages_fill_in_live_when_a_worker_comes(
    chromium: Browser, tmp_path: Path, make_pdf: Pdf
) -> None:
    """The service has no workers, so nothing moves before we say so."""
    server = Server(
        tmp_path,
        RUN_DISPATCHER="0",
        READER_PROCESSES="1",
        OPENAI_API_KEY="k",
        OPENAI_BASE_URL="http://127.0.0.1:9",
        VAULT_STALE_AFTER="5s",
        VAULT_SWEEP_INTERVAL="1d",
    )
    context = chromium.new_context()
    worker = None
    try:
        server.wait_ready()
        with Quire(server.url) as quire:
            pdf = make_pdf(*(f"Text of page {number}" for number in range(1, 41)))
            job = quire.convert(pdf, name="forty.pdf", mode="local", wait=False)
        window = Window(context.new_page(), server.url)
        page = window.go()
        expect(page.get_by_text("Nothing here yet")).to_be_visible()
        with Quire(server.url) as quire:
            quire.documents.upload(make_pdf("Nobody names this"), name="unnamed.pdf")
        item = page.locator("li.card", has_text="unnamed.pdf")
        expect(item.locator(".text .bone").first).to_be_attached()
        # No worker runs, so it becomes stale soon; then the retry is offered and no skeleton is shown.
        expect(item.locator(".badge")).to_contain_text("Stuck")
        expect(item.get_by_role("button", name="Retry")).to_be_visible()
        expect(item.locator(".text .bone")).to_have_count(0)
        window.go(f"#/jobs/{job.job_id}")
        expect(page.locator("main h1")).to_have_text("forty.pdf")
        expect(page.locator(".badge").first).to_contain_text("Queued")
        expect(page.locator(".cell")).to_have_count(0)
        worker = start_quire(
            "worker",
            env=clean_environment(DATA_DIR=str(server.data_dir), READER_PROCESSES="1", LOCAL_CLASSIFIER="0"),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        expect(page.locator(".cell.good")).to_have_count(40)
        expect(page.locator(".badge").first).to_contain_text("Completed")
        expect(page.get_by_label("Text of the page")).to_contain_text("Text of page 1")
        window.go("#/vault")
        amber = page.locator("li.card.warn", has_text="unnamed.pdf")
        expect(amber.locator(".badge")).to_contain_text("Not classified")
        expect(amber.get_by_role("button", name="Retry classification")).to_be_visible()
        window.go("#/operations")
        model = page.locator("li.model").first
        expect(model).to_contain_text("In use")
        expect(model.get_by_role("progressbar", name="In flight")).to_be_visible()
        window.check()
    finally:
        if worker is not None:
            worker.terminate()
            worker.wait(DEADLINE_S)
        context.close()
        server.stop()


def test_page_is_shown_beside_its_text_when_chosen_by_mouse_key_or_address(window: Window, kept: str) -> None:
    page = window.go(f"#/vault/{kept}")
    text, picture = page.get_by_label("Text of the page"), page.get_by_label("Picture of the page")
    expect(text).to_contain_text("Albatross")
    expect(picture.locator("img")).to_be_visible()
    page.get_by_role("option", name=re.compile("Page 2")).click()
    expect(text).to_contain_text("Mooring fees")
    assert page.url.endswith(f"/vault/{kept}/page/2")
    page.keyboard.press("ArrowRight")
    expect(text).to_contain_text("deposit")
    page.get_by_role("button", name="Previous page").click()
    expect(text).to_contain_text("Mooring fees")
    page.get_by_role("button", name="Show source").click()
    expect(text.locator("pre")).to_contain_text("Mooring fees")
    expect(page.locator(".page .facts")).to_contain_text("text layer")
    window.go(f"#/vault/{kept}/page/3")
    expect(text).to_contain_text("deposit")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Vault")).to_be_visible()


def test_page_is_read_again_when_asked_for(window: Window, kept: str) -> None:
    page = window.go(f"#/vault/{kept}/page/2")
    expect(page.get_by_label("Text of the page")).to_contain_text("Mooring")
    page.get_by_role("button", name="Retry page").click()
    expect(page.locator("#live")).to_have_text(re.compile(r"being read again|Completed"))
    expect(page.get_by_label("Text of the page")).to_contain_text("Mooring")


def test_protected_document_is_read_when_its_password_is_given_to_the_retry(
    window: Window, quire: Quire, make_pdf: Pdf
) -> None:
    locked = make_pdf("Opened at last", password="sesame")
    added = quire.documents.upload(locked, name="locked.pdf")
    assert quire.documents.wait(added.document_id, wait_s=60).status == "failed"
    page = window.go("#/vault?status=failed")
    item = page.locator("li.card.bad", has_text="locked.pdf")
    item.get_by_role("button", name="Retry processing").click()
    page.locator("#question-answer").fill("sesame")
    page.get_by_role("button", name="Try again").click()
    page.goto(f"{window.url}/#/vault/{added.document_id}")
    expect(page.get_by_label("Text of the page")).to_contain_text("Opened at last")
    expect(page.locator(".head .badge")).to_contain_text(re.compile("Ready|Not classified"))


def test_documents_are_found_with_marks_when_words_are_typed(window: Window, kept: str) -> None:
    page = window.go()
    expect(page.locator("li.card").first).to_be_visible()
    page.keyboard.press("/")
    box = page.get_by_role("searchbox", name="Search the vault")
    expect(box).to_be_focused()
    page.keyboard.type("mooring fees")
    first = page.locator("li.card").first
    expect(first.locator("mark").first).to_be_visible()
    expect(first.get_by_role("link").first).to_have_attribute("href", f"#/vault/{kept}")
    assert "q=mooring" in page.url
    page.get_by_role("button", name="As table").click()
    expect(page.locator("table.vault mark").first).to_be_visible()
    page.get_by_role("button", name="As cards").click()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(box).to_have_value("")
    assert "q=" not in page.url
    page.goto(f"{window.url}/#/vault?tag=no-such-tag")
    expect(page.get_by_text("Nothing found")).to_be_visible()


def test_mail_and_its_attachments_lead_to_each_other(window: Window, quire: Quire) -> None:
    letter = mail("The plan is attached.", files={"plan <b>.md": b"# Plan of the quay\n\nStone by stone.\n"})
    added = quire.documents.upload(letter.as_bytes(), name="letter.eml")
    document = quire.documents.wait(added.document_id, wait_s=60)
    [attached] = document.attachments
    quire.documents.wait(attached.document_id, wait_s=60)

    window.go(f"#/vault/{document.document_id}")
    window.page.get_by_role("link", name=attached.filename).click()
    expect(window.page.get_by_role("heading", level=1)).to_have_text("Plan of the quay")
    window.page.get_by_role("link", name="a mail").click()
    expect(window.page.get_by_role("link", name=attached.filename)).to_be_visible()


def test_nothing_runs_when_a_document_is_hostile(window: Window, quire: Quire) -> None:
    name = "<img src=x onerror=window.pwned=9>.md"
    added = quire.documents.upload(HOSTILE.encode(), name=name)
    quire.documents.wait(added.document_id, wait_s=60)
    page = window.go()
    expect(page.locator("li.card", has_text="onerror").first).to_be_visible()
    window.go("#/vault?q=hello")
    expect(page.locator("li.card").first).to_be_visible()
    window.go(f"#/vault/{added.document_id}")
    text = page.get_by_label("Text of the page")
    expect(text).to_contain_text("window.pwned")
    for forbidden in (
        "script",
        "iframe",
        "svg",
        "img",
        "[onclick]",
        "a[href^='javascript']",
        "a[href^='data']",
    ):
        expect(text.locator(forbidden)).to_have_count(0)
    assert page.evaluate("window.pwned") is None
    page.get_by_role("button", name="Delete").click()
    page.locator("#question-yes").click()
    expect(page.get_by_role("heading", name="Vault")).to_be_visible()
    assert not quire.documents.exists(added.document_id)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_when_the_screen_is_a_phone(
    chromium: Browser, service: Server, signed_in: dict[str, object], kept: str, scheme: str, tmp_path: Path
) -> None:
    context = chromium.new_context(
        storage_state=signed_in,  # type: ignore[arg-type]
        viewport={"width": 390, "height": 844},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    window = Window(context.new_page(), service.url)
    for place, ready in (
        ("#/vault", "li.card .badge"),
        (f"#/vault/{kept}", ".markdown p"),
        ("#/jobs", ".drop"),
        ("#/operations", ".panel table"),
    ):
        page = window.go(place)
        expect(page.locator(ready).first).to_be_visible()
        assert window.overflow() <= 0, place
        picture = page.screenshot(path=tmp_path / f"{scheme}.png")
        assert len(picture) > 5_000
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in re.findall(r"\d+", back)[:3])
    assert (brightness > 600) == (scheme == "light")
    window.go("#/vault")
    page.get_by_role("button", name="As table").click()
    expect(page.locator("table.vault tbody tr").first).to_be_visible()
    assert window.overflow() <= 0
    window.check()
    context.close()


def test_everything_is_reached_when_only_the_keyboard_is_used(window: Window, kept: str) -> None:
    page = window.go()
    expect(page.locator("li.card").first).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    reached: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
        if page.evaluate("document.activeElement.matches('.card .name')"):
            break
    said = "\n".join(reached)
    wanted = ("Skip to", "Quire", "Conversions", "Operations", "Sign out", "Choose", "Search", "As table")
    assert [name for name in wanted if name not in said] == [], said
    assert page.evaluate("document.activeElement.matches('.card .name')"), said
    # What has the focus shows it.
    assert page.evaluate("getComputedStyle(document.activeElement.closest('.card')).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("a.back")).to_be_visible()
    expect(page.locator("main h1")).to_be_focused()


def test_given_up_work_is_listed_and_replayed_in_operations(
    window: Window, quire: Quire, make_pdf: Pdf
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # the port is not accepting, and then it is closed
        port = taken.getsockname()[1]
    quire.convert(make_pdf("Nobody listens"), callback_url=f"http://127.0.0.1:{port}/hook")
    page = window.go("#/operations")
    replay = page.get_by_role("button", name="Replay").first
    expect(replay).to_be_visible()
    with page.expect_response(re.compile(r"/dlq/callback/.*/replay")) as answer:
        replay.click()
    assert answer.value.status == 202
    expect(page.get_by_role("heading", name="Workers (1)")).to_be_visible()
    expect(page.get_by_text("None is configured")).to_be_visible()
    expect(page.locator(".panel", has_text="Queues").get_by_role("cell", name="callback")).to_be_visible()


TURN = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_page_catches_up_when_it_is_seen_again(window: Window, quire: Quire, make_pdf: Pdf) -> None:
    page = window.go()
    expect(page.get_by_role("searchbox", name="Search the vault")).to_be_visible()
    page.evaluate(TURN, True)
    added = quire.documents.upload(make_pdf("Came while nobody looked"), name="meanwhile.pdf")
    quire.documents.wait(added.document_id, wait_s=60)
    page.evaluate(TURN, False)
    expect(page.locator("li.card", has_text="meanwhile.pdf")).to_be_visible()


def test_page_catches_up_when_it_had_not_heard_anything_before_it_was_hidden(
    window: Window, quire: Quire, make_pdf: Pdf
) -> None:
    asked = []

    def first_is_not_answered(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    window.page.route("**/documents/events", first_is_not_answered)
    page = window.go()
    expect(page.get_by_role("searchbox", name="Search the vault")).to_be_visible()
    page.evaluate(TURN, True)
    added = quire.documents.upload(make_pdf("Came before anything was heard"), name="unheard.pdf")
    quire.documents.wait(added.document_id, wait_s=60)
    page.evaluate(TURN, False)
    expect(page.locator("li.card", has_text="unheard.pdf")).to_be_visible()
    assert len(asked) > 1


def test_user_is_told_when_the_service_is_out_of_reach(window: Window) -> None:
    page = window.go("#/operations")
    expect(page.locator(".panel table").first).to_be_visible()
    page.context.set_offline(True)
    expect(page.get_by_text("can't be reached")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_text("can't be reached")).to_be_hidden()


def test_pages_of_low_confidence_are_amber_when_their_text_is_garbage(
    window: Window, quire: Quire, make_pdf: Pdf
) -> None:
    garbage = "\n".join("xqzvk wjqxz kvbqx zzgkv qxjwv bvkqz xwqjk vzxqk" for _ in range(12))
    plain = "The harbour office paid for the repairs because the old bridge was no longer safe."
    # Too small for OCR: where that reads the same letters, the page really has them.
    done = quire.convert(make_pdf(plain, garbage, size=3), name="garbage.pdf", wait_s=DEADLINE_S)
    assert done.metadata["low_confidence_pages"] == [2]
    page = window.go(f"#/jobs/{done.job_id}/page/2")
    badge = page.locator("h1 + .badge")
    expect(badge).to_have_class(re.compile("warn"))
    expect(badge).to_contain_text("Completed, 1 to check")
    expect(page.locator("p.attention").first).to_contain_text("Low confidence on pages: 2")
    cells = page.locator(".grid .cells button")
    expect(cells.nth(1)).to_have_class(re.compile("warn"))
    expect(cells.nth(0)).not_to_have_class(re.compile("warn"))
    facts = page.locator("dl.facts").last
    expect(facts).to_contain_text("Grade")
    expect(facts).to_contain_text("low")
    window.go("#/jobs")
    row = page.locator("li.warn", has_text="garbage.pdf")
    expect(row.locator(".badge")).to_contain_text("1 to check")
    expect(row.get_by_role("button", name="Retry")).to_be_hidden()  # it would read the same


def test_document_of_the_vault_is_amber_when_a_page_of_it_is_of_low_confidence(
    window: Window, quire: Quire, make_pdf: Pdf
) -> None:
    garbage = "\n".join("xqzvk wjqxz kvbqx zzgkv qxjwv bvkqz xwqjk vzxqk" for _ in range(12))
    plain = "The harbour office paid for the repairs because the old bridge was no longer safe."
    added = quire.documents.upload(make_pdf(plain, garbage, size=3), name="doubtful.pdf")
    found = quire.documents.wait(added.document_id, wait_s=DEADLINE_S)
    assert (found.pages, found.doubtful_pages) == (2, 1)
    page = window.go("#/vault")
    card = page.locator("li.card.warn", has_text="doubtful.pdf")
    expect(card.locator(".badge")).to_contain_text("Ready, 1 to check")


def test_a_page_of_low_grade_is_amber_when_nothing_of_it_could_be_read(window: Window) -> None:
    page = window.go("#/jobs")
    looks = page.evaluate(
        """async () => {
            const { look } = await import("/static/pages.js");
            const page = { status: "completed", source: "ocr", words: 0 };
            return [look({ ...page, grade: "low" }), look({ ...page, grade: null })];
        }"""
    )
    assert [one[0] for one in looks] == ["warn", "idle"]


def test_a_page_is_amber_when_an_answer_of_ai_is_not_as_the_page(window: Window) -> None:
    page = window.go("#/jobs")
    looks = page.evaluate(
        """async () => {
            const { look } = await import("/static/pages.js");
            const page = { status: "completed", words: 9, grade: "fair", reason: [] };
            return [
                { source: "ai", ungrounded: 1 }, { source: "cache", ungrounded_numbers: 1 },
                { source: "ai", reason: ["words_not_on_page"] }, { source: "local", words_missing: 2 },
                { source: "ai", words_missing: 2, reason: ["text_left_out"] },
                { source: "ai", words_missing: 2 }, { source: "cache" },
            ].map((one) => look({ ...page, ...one })[0]);
        }"""
    )
    assert looks == ["warn"] * 5 + ["ai"] * 2


def test_extraction_says_that_ai_is_missing_and_shows_what_was_found_without(
    window: Window, quire: Quire, make_pdf: Pdf
) -> None:
    done = quire.convert(make_pdf("Berths of the harbour", "Number: 17"), name="berth.pdf", wait_s=DEADLINE_S)
    page = window.go(f"#/jobs/{done.job_id}")
    page.get_by_text("Extract values").click()
    page.get_by_label("JSON Schema").fill('{"type": "object", "properties": {"number": {"type": "string"}}}')
    page.get_by_role("button", name="Extract", exact=True).click()
    panel = page.get_by_role("region", name="Extract values")
    expect(panel.get_by_role("alert")).to_contain_text("needs an AI model, and none is configured")
    expect(panel.get_by_role("heading", name="Found without AI")).to_be_visible()
    panel.get_by_role("row", name="Number").get_by_role("button", name="Page 2").click()
    expect(page.get_by_label("Text of the page")).to_contain_text("Number: 17")
    expect(page.locator(".cited")).to_be_visible()


def test_keys_are_made_shown_once_and_revoked_in_the_dashboard(window: Window) -> None:
    page = window.go("#/operations")
    page.get_by_role("link", name="API keys").click()
    page.get_by_label("Name").fill("of the press office")
    page.get_by_label("Budget, US dollars a month").fill("12.5")
    page.get_by_role("button", name="Make key").click()
    shown = page.locator(".newkey")
    expect(shown).to_contain_text("qk_")
    with Quire(window.url, shown.inner_text()) as one:
        assert isinstance(list(one.jobs()), list)
    row = page.get_by_role("row", name="of the press office")
    expect(row).to_contain_text("$12.50")
    row.get_by_role("button", name="Revoke").click()
    page.locator("#question").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("Revoked")
    expect(page.get_by_role("row", name="key.revoked")).to_contain_text("dashboard")
