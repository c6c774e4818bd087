"""Links of the pages: every relative link and anchor leads somewhere, and every file that a page names exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.environment import ROOT

PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
    ]
)
_LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`((?:[\w-]+/)*[a-z0-9_]+\.(?:py|lua))`")
_IN_CODE = re.compile(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?")


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them of its headings."""
    found: Counter[str] = Counter()
    every: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE):
        slug = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        every.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return every


def broken(page: Path, links: list[tuple[str, str]], folder: Path) -> list[str]:
    wrong = []
    for target, anchor in links:
        linked = folder / target if target else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            wrong.append(f"{target}#{anchor}" if anchor else target)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken(page, _LINK.findall(_FENCE.sub("", page.read_text())), page.parent) == []


def test_links_are_found_at_all() -> None:
    assert sum(len(_LINK.findall(page.read_text())) for page in PAGES) > 200


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "deploy"])
def test_pages_that_files_name_exist(folder: str) -> None:
    wrong = {}
    for path in (ROOT / folder).rglob("*"):
        if path.suffix in {".py", ".lua", ".js", ".yaml", ".yml", ".toml", ".html"}:
            missing = broken(path, _IN_CODE.findall(path.read_text()), ROOT)
            if missing:
                wrong[str(path.relative_to(ROOT))] = missing
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    names = {
        path.name for folder in ("src", "tests", "bench", "deploy") for path in (ROOT / folder).rglob("*.*")
    }
    wrong = [
        name
        for name in _NAMED.findall(page.read_text())
        if name.rsplit("/", 1)[-1] not in names and not (ROOT / name).exists()
    ]
    assert wrong == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    assert [path.name for path in ROOT.glob("docs/decisions/0*.md") if f"({path.name})" not in index] == []
