"""The list of requirements: read from the tests' source text and the `declined_*.toml` files, without running anything.

`python -m tests.conformance.requirement_list` rewrites docs/conformance.md and keeps the outcomes that it has."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "conformance.md"
HOLDS, FAILS, NOT_RUN = "holds", "**fails**", "not run"
SOURCES = {
    "000": "AI dispatcher: timeouts, failover, rate limits and fallback of each page",
    "001": "Orchestrator for GhostServer and its queue of AI pages",
    "002": "Vault: documents are read, classified and searchable, whatever fails",
    "003": "Jobs: main, split, page and merge",
    "004": "Aggregation: many callers are answered from batches of one backend",
}
_ROW = re.compile(r"^\| (\d{3}-\d+[a-z]?) \| .* \| (.+) \|$")
_ID = re.compile(r"\d{3}-\d+[a-z]?")


@dataclass(frozen=True)
class Requirement:
    """One requirement of a source. It has a test, or a reason why it has none."""

    id: str
    text: str
    test: str = ""
    reason: str = ""
    elsewhere: str = ""

    @property
    def source(self) -> str:
        return self.id[:3]


def find_requirements(folder: Path = FOLDER) -> list[Requirement]:
    """All requirements in the order of their ids. Raises ValueError for a wrong or repeated id, or a missing text."""
    found: dict[str, Requirement] = {}
    for one in [*_tested(folder), *_declined(folder)]:
        if not _ID.fullmatch(one.id) or one.source not in SOURCES:
            raise ValueError(
                f"{one.id!r} is not the id of a requirement: write 'SSS-N', for example '004-17'"
            )
        if not one.text.strip() or "|" in one.text or "\n" in one.text:
            raise ValueError(f"{one.id} needs a text of one line without '|'")
        if one.id in found:
            raise ValueError(f"{one.id} is there twice: {found[one.id]} and {one}")
        found[one.id] = one
    return sorted(found.values(), key=_order)


def render_page(requirements: list[Requirement], outcomes: Mapping[str, str]) -> str:
    """The text of docs/conformance.md."""
    lines = [
        "# Conformance",
        "",
        "Each requirement of the five sources, in our words, and the test that holds it against a running service.",
        "`make conformance` runs the tests and writes this page; `make conformance-list` only updates the list.",
        "A requirement that Quire decides against is listed with the reason.",
        "",
        *_summary(requirements, outcomes),
    ]
    for source, title in SOURCES.items():
        rows = [one for one in requirements if one.source == source]
        if rows:
            lines += [
                "",
                f"## Source {source}",
                "",
                f"{title}.",
                "",
                "| | requirement | state |",
                "|---|---|---|",
            ]
            lines += [f"| {one.id} | {one.text} | {_state(one, outcomes)} |" for one in rows]
    return "\n".join(lines) + "\n"


def known_outcomes(page: str) -> dict[str, str]:
    """Outcomes by id as the page has them; lines that are not rows (conflict markers too) are ignored."""
    rows = (found for line in page.splitlines() if (found := _ROW.match(line)))
    return {row[1]: outcome for row in rows for outcome in (HOLDS, FAILS) if row[2].startswith(outcome)}


def write_page(new: Mapping[str, str]) -> str:
    """Writes docs/conformance.md with the new outcomes over the ones it has; returns its text."""
    known = known_outcomes(PAGE.read_text()) if PAGE.exists() else {}
    text = render_page(find_requirements(), {**known, **new})
    PAGE.write_text(text)
    return text


def _tested(folder: Path) -> Iterator[Requirement]:
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement":
                        name, text = (ast.literal_eval(argument) for argument in mark.args)
                        yield Requirement(name, text, test=f"{path.name}::{node.name}")


def _declined(folder: Path) -> Iterator[Requirement]:
    for path in sorted(folder.glob("declined_*.toml")):
        for entry in tomllib.loads(path.read_text()).get("declined", []):
            one = Requirement(**entry)
            if not one.reason.strip():
                raise ValueError(f"{one.id} in {path.name} needs a reason")
            yield one


def _order(one: Requirement) -> tuple[str, int, str]:
    number = re.sub(r"\D", "", one.id[4:])
    return one.source, int(number), one.id


def _state(one: Requirement, outcomes: Mapping[str, str]) -> str:
    if not one.test:
        return f"{one.elsewhere or 'declined'}: {one.reason}"
    return f"{outcomes.get(one.id, NOT_RUN)}: `{one.test.partition('::')[2]}`"


def _summary(requirements: list[Requirement], outcomes: Mapping[str, str]) -> list[str]:
    lines = [
        "| source | requirements | hold | fail | not run | elsewhere | declined |",
        "|---|---|---|---|---|---|---|",
    ]
    for source in SOURCES:
        own = [one for one in requirements if one.source == source]
        tested = [outcomes.get(one.id, NOT_RUN) for one in own if one.test]
        elsewhere = sum(bool(one.elsewhere) for one in own)
        figures = [len(own), *(tested.count(outcome) for outcome in (HOLDS, FAILS, NOT_RUN))]
        figures += [elsewhere, len(own) - len(tested) - elsewhere]
        lines.append(f"| {source} | {' | '.join(str(figure) for figure in figures)} |")
    return lines


if __name__ == "__main__":
    write_page({})
    sys.stdout.write(f"{PAGE} is written\n")
