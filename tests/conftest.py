"""What any test may need: documents made on the spot, and a PostgreSQL server that is started once."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer  # SQLAlchemy takes a while to import

pytest_plugins = (
    "tests.support.client_fixtures",
    "tests.support.parse_fixtures",
    "tests.support.s3_fixtures",
    "tests.support.vault_fixtures",
)

_LONG = (
    "tests/chaos", "tests/reading/ocr/test_ocr.py", "tests/web", "tests/cli/test_service_commands.py",
    "tests/api/parse", "tests/batching", "tests/dispatch", "tests/pipeline/vault", "tests/catalog/test_relevance.py",
    "tests/docs", "tests/cli", "tests/api/test_server.py", "tests/api/jobs", "tests/links", "tests/hostile",
    "tests/client",
)  # fmt: skip
"""What takes long begins first: several run at a time, and a long one that begins last is waited for alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((n for n, start in enumerate(_LONG) if item.nodeid.startswith(start)), len(_LONG))

    items.sort(key=place)


@pytest.fixture(scope="session")
def make_pdf() -> Callable[..., bytes]:
    """Builds a PDF with one page for each text; with a password it is encrypted."""

    def make(*texts: str, password: str | None = None) -> bytes:
        from reportlab.lib.pdfencrypt import StandardEncryption
        from reportlab.pdfgen.canvas import Canvas

        out = BytesIO()
        lock = StandardEncryption(password, ownerPassword="owner", strength=128) if password else None
        canvas = Canvas(out, encrypt=lock, invariant=1)
        for text in texts:
            canvas.setFont("Helvetica", 12)
            for row, line in enumerate(text.splitlines() or [""]):
                canvas.drawString(72, 720 - 16 * row, line)
            canvas.showPage()
        canvas.save()
        return out.getvalue()

    return make


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole run."""
    from tests.support.postgres import PostgresServer

    # Not under pytest's own folder: as root the server runs as another user, who must be able to get there.
    folder = Path(tempfile.mkdtemp(prefix="quire-postgres-"))
    # Going round hundreds of databases all the time takes from the tests.
    server = PostgresServer(folder / "data", off=("autovacuum",))
    yield server
    server.stop(discard=True)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(postgres: PostgresServer) -> str:
    """The name of a database with all tables, to be copied: that is quicker than making them for each test."""
    from quire.catalog.catalog import Catalog, CatalogOptions
    from tests.support.clocks import MovableClock

    url = postgres.database("with_tables")

    async def make() -> None:
        await (await Catalog.open(CatalogOptions(file=Path(), url=url), MovableClock())).close()

    asyncio.run(make())
    return "with_tables"
