"""What any test may need: documents made on the spot, and a PostgreSQL server that is started once."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support import reaper
from tests.support.environment import RUN_VARIABLE
from tests.support.quire_processes import use_warm_readers

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer  # SQLAlchemy takes a while to import

pytest_plugins = (
    "tests.support.shared_services",
    "tests.support.client_fixtures",
    "tests.support.parse_fixtures",
    "tests.support.s3_fixtures",
    "tests.support.vault_fixtures",
)

_LONG = (
    "tests/deploy", "tests/conformance/test_source_001.py", "tests/chaos", "tests/reading/ocr", "tests/conformance",
    "tests/web", "tests/hostile", "tests/api/parse", "tests/api", "tests/pipeline/vault", "tests/pipeline",
    "tests/cli", "tests/catalog/test_search.py", "tests/batching", "tests/dispatch", "tests/docs", "tests/support",
    "tests/coordination/test_ai_admission.py", "tests/coordination/test_job_states.py", "tests/catalog", "tests/client",
)  # fmt: skip
"""What takes long begins first, so that no long one is waited for alone; what shares services runs together."""


# No property fails because the machine is busy: how long an example takes says nothing about it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_configure() -> None:
    gc.disable()  # modules and tests stay: the collector would only walk over them, again and again
    reaper.begin(RUN_VARIABLE)
    use_warm_readers()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((n for n, start in enumerate(_LONG) if item.nodeid.startswith(start)), len(_LONG))

    items.sort(key=place)


@pytest.fixture(scope="session")
def make_pdf() -> Callable[..., bytes]:
    """Builds a PDF with one page for each text; with a password it is encrypted."""

    def make(*texts: str, password: str | None = None, size: float = 12) -> bytes:
        from reportlab.lib.pdfencrypt import StandardEncryption
        from reportlab.pdfgen.canvas import Canvas

        out = BytesIO()
        lock = StandardEncryption(password, ownerPassword="owner", strength=128) if password else None
        canvas = Canvas(out, encrypt=lock, invariant=1)
        for text in texts:
            canvas.setFont("Helvetica", size)
            for row, line in enumerate(text.splitlines() or [""]):
                canvas.drawString(72, 720 - 16 * row, line)
            canvas.showPage()
        canvas.save()
        return out.getvalue()

    return make


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    """One PostgreSQL server for all processes of the run; the reaper ends it with the run."""
    from tests.support.postgres import shared_server

    return shared_server(os.environ[RUN_VARIABLE])


@pytest.fixture(scope="session")
def template(postgres: PostgresServer) -> str:
    """The name of a database with all tables, to be copied: that is quicker than making them for each test."""
    return postgres.template()
