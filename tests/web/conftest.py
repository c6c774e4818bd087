"""Says so where the dashboard was not tried in a browser: a skipped test alone is easily overlooked."""

from __future__ import annotations

import pytest

from tests.web.browsing import CHROMIUM, NO_BROWSER


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not CHROMIUM.exists():
        terminalreporter.write_line(f"The dashboard was not tested in a browser: {NO_BROWSER}.", yellow=True)
