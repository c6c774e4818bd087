"""A real browser in front of a real service. Where there is no browser, the tests that need one say how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.waiting import DEADLINE_S

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
USER, PASSWORD = "admin", "correct horse battery staple"
PATIENCE_MS = DEADLINE_S * 1000

NO_BROWSER = "there is no browser, install it with `apt-get install chromium`"

needs_browser = pytest.mark.skipif(not CHROMIUM.exists(), reason=NO_BROWSER)


@contextmanager
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


class Window:
    """A page that remembers everything that went wrong in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        page.add_init_script(
            "window.violations = [];"
            "addEventListener('securitypolicyviolation', (e) => violations.push(e.violatedDirective));"
        )

    def go(self, place: str = "") -> Page:
        self.page.goto(f"{self.url}/{place}")
        return self.page

    def sign_in(self, password: str = PASSWORD) -> None:
        form = self.page.locator("#login-form")
        form.get_by_label("User").fill(USER)
        form.get_by_label("Password").fill(password)
        form.get_by_role("button", name="Sign in").click()

    def check(self) -> None:
        """Nothing was thrown, and nothing was tried that the policy forbids."""
        assert self.errors == []
        assert self.page.evaluate("window.violations || []") == []

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        found: int = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return found


def drop(page: Page, files: list[tuple[str, str, bytes]]) -> None:
    """Drops files on the page as a hand would; `set_input_files` would go past the drop."""
    import base64

    given: list[dict[str, Any]] = [
        {"name": name, "type": kind, "data": base64.b64encode(data).decode()} for name, kind, data in files
    ]
    page.evaluate(
        """(files) => {
            const moved = new DataTransfer();
            for (const { name, type, data } of files) {
                const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
                moved.items.add(new File([bytes], name, { type }));
            }
            for (const type of ["dragover", "drop"]) {
                const event = new DragEvent(type, { dataTransfer: moved, bubbles: true, cancelable: true });
                document.querySelector("main").dispatchEvent(event);
            }
        }""",
        given,
    )
