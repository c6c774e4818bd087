"""A pytest plugin (`-p tests.conformance.conformance_report`): prints the table of requirements and writes the page."""

from __future__ import annotations

import pytest

from tests.conformance.requirement_list import FAILS, HOLDS, find_requirements, write_page

_results = pytest.StashKey[dict[str, set[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_results] = {}
    config.pluginmanager.register(_Outcomes(config.stash[_results]), "conformance-outcomes")


class _Outcomes:
    """What each requirement's tests came to, in this run."""

    def __init__(self, results: dict[str, set[str]]) -> None:
        self._results = results

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            for name, value in report.user_properties:
                if name == "requirement":
                    self._results.setdefault(str(value), set()).add(report.outcome)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = {}
    for name, results in config.stash[_results].items():
        if "failed" in results:
            outcomes[name] = FAILS
        elif results == {"passed"}:
            outcomes[name] = HOLDS
    write_page(outcomes)
    for one in find_requirements():
        if one.id in outcomes or not one.test:
            state = outcomes.get(one.id, one.elsewhere or "declined").strip("*")
            terminalreporter.write_line(f"{one.id:8} {state:10} {one.text}")
    failed = sorted(name for name, outcome in outcomes.items() if outcome == FAILS)
    held = len(outcomes) - len(failed)
    terminalreporter.write_line(f"{held} requirements hold, {len(failed)} fail {' '.join(failed)}".strip())
