"""The map in docs/architecture.md: every package is in its table, and every file that it names exists."""

from __future__ import annotations

import re

import pytest

from tests.support.environment import ROOT

SOURCE = ROOT / "src" / "quire"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
_PACKAGES = PAGE.split("\n## Packages\n")[1].split("\n## ")[0]
_FILE = re.compile(r"`((?:[a-z0-9_]+/)*[a-z0-9_]+\.(?:py|lua|js))`")


def _packages() -> list[str]:
    folders = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
    modules = [path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")]
    return sorted(folders + modules)


@pytest.mark.parametrize("package", _packages())
def test_package_is_in_the_table(package: str) -> None:
    rows = [row.split("|")[1] for row in _PACKAGES.splitlines() if row.startswith("| `")]
    assert any(f"`{package}`" in cell for cell in rows), f"docs/architecture.md has no row for {package}"


@pytest.mark.parametrize("package", [name for name in _packages() if (SOURCE / name).is_dir()])
def test_rooms_of_a_package_are_named_in_its_row(package: str) -> None:
    rooms = [path.parent.name for path in (SOURCE / package).glob("*/__init__.py")]
    row = next(line for line in _PACKAGES.splitlines() if f"| `{package}`" in line)
    assert [room for room in rooms if f"`{room}`" not in row] == []


def test_every_file_that_is_named_exists() -> None:
    named = [name for name in _FILE.findall(PAGE) if "/" in name or (SOURCE / name).suffix == ".py"]
    assert len(named) > 60
    assert [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("walk", ["Walk 1", "Walk 2", "Walk 3"])
def test_each_walk_has_a_drawing_and_names_its_files(walk: str) -> None:
    text = PAGE.split(f"\n## {walk}")[1].split("\n## ")[0]
    assert "```" in text
    assert len(set(_FILE.findall(text))) >= 8


def test_glossary_has_at_least_thirty_words() -> None:
    rows = [row for row in PAGE.split("\n## Glossary\n")[1].splitlines() if row.startswith("| ")]
    assert len(rows) - 1 >= 30


def test_no_two_modules_share_a_file_name() -> None:
    names: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if path.name != "__init__.py":
            names.setdefault(path.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in names.items() if len(paths) > 1} == {}


def test_no_public_class_name_is_used_twice_outside_the_client() -> None:
    places: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] == "client":
            continue
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.M):
            places.setdefault(name, set()).add(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_modules_stay_short() -> None:
    lengths = {
        str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")
    }
    assert {name: lines for name, lines in lengths.items() if lines >= 450} == {}


def test_every_module_says_what_it_owns() -> None:
    bare = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if not path.read_text().startswith(('"""', "#!")) and path.read_text().strip()
    ]
    assert bare == []
