"""Pictures of the dashboard with documents in several states: `python bench/screenshots.py [FOLDER]`.

Without a folder, those of the documentation (`document.png`, `vault.png`) are renewed in docs/images.
"""

from __future__ import annotations

import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import pymupdf  # noqa: E402
from playwright.sync_api import Page  # noqa: E402
from tests.web.browsing import Window, browser  # noqa: E402

from measuring import Service, scratch, service  # noqa: E402

SAMPLES = ROOT / "samples"


def put(one: Service, path: Path) -> str:
    return str(one.upload(path, "", "/documents")["documents"][0]["document_id"])


def ended(one: Service, document_id: str) -> dict:
    while (found := one.get(f"/documents/{document_id}"))["status"] == "pending":
        time.sleep(0.1)
    return found


def fill(one: Service, folder: Path) -> str:
    """Puts documents of several states into the vault; returns the id of the one whose pages are shown."""
    shown = put(one, SAMPLES / "mixed.pdf")
    for name in ("tables.pdf", "notes.md", "two-columns.pdf"):
        ended(one, put(one, SAMPLES / name))
    archive = folder / "backup.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("disk.img", bytes(4096))
    damaged = folder / "torn.pdf"
    damaged.write_bytes(b"%PDF-1.7 and nothing more")
    photo = folder / "harbour.png"
    with pymupdf.open(SAMPLES / "pictures.pdf") as pictures:
        pictures[0].get_pixmap(dpi=40, clip=pymupdf.Rect(200, 200, 260, 260)).save(photo)
    for path in (archive, damaged, photo):
        ended(one, put(one, path))
    ended(one, shown)
    time.sleep(3)  # titles follow the texts
    put(one, SAMPLES / "long.pdf")
    return shown


def shoot(page: Page, folder: Path, name: str) -> None:
    page.wait_for_timeout(700)
    page.screenshot(path=folder / f"{name}.png")


def take(url: str, document_id: str, folder: Path, shots: Path) -> None:
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 860})
        window = Window(page, url)
        window.go("#/vault")
        page.locator("li.card").nth(7).wait_for()
        shoot(page, folder, "vault")
        page.get_by_role("button", name="Table").click()
        shoot(page, shots, "table")
        page.get_by_role("button", name="Cards").click()
        window.go(f"#/vault/{document_id}")
        page.locator(".cell").nth(4).wait_for()
        page.locator(".cell").nth(1).click()
        page.get_by_label("Text of the page").wait_for()
        page.locator("figure img, .original img").first.wait_for()
        page.set_viewport_size({"width": 1280, "height": 1100})  # the whole page beside its text
        shoot(page, folder, "document")
        for name, place in (("conversions", "#/jobs"), ("operations", "#/operations")):
            window.go(place)
            shoot(page, shots, name)
        window.go("#/vault")
        page.get_by_text("Options").first.click()
        shoot(page, shots, "upload")
        dark = chromium.new_context(viewport={"width": 1280, "height": 860}, color_scheme="dark")
        phone = chromium.new_context(viewport={"width": 390, "height": 844})
        for name, context in (("dark", dark), ("phone", phone)):
            other = Window(context.new_page(), url)
            other.go("#/vault")
            other.page.locator("li.card").nth(3).wait_for()
            shoot(other.page, shots, f"vault-{name}")
            other.go(f"#/vault/{document_id}")
            other.page.locator(".cell").nth(4).wait_for()
            shoot(other.page, shots, f"document-{name}")
        print(f"errors in the page: {window.errors}")


def main() -> int:
    with scratch() as folder:
        documented = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
        documented.mkdir(parents=True, exist_ok=True)
        others = documented if len(sys.argv) > 1 else folder
        with service(folder) as one:
            take(one.url, fill(one, folder), documented, others)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
