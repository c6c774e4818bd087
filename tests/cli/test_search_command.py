"""`quire search` and `quire doctor` as people run them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.cli.doctor_checks import check_catalog
from quire.clock import SystemClock
from quire.settings import load
from tests.support.environment import clean_environment
from tests.support.quire_processes import run_quire
from tests.support.serving import Server
from tests.support.vault_client import VaultClient

NOTE = b"# Manual of the espresso machine\n\nFill the water tank before you switch the espresso machine on.\n"


def _quire(*args: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return run_quire(*args, env=clean_environment(**settings))


async def test_search_shows_what_was_found(alpha: VaultClient, local_vault: Server) -> None:
    document = await alpha.kept("espresso.md", NOTE)
    access = {"QUIRE_URL": local_vault.url, "QUIRE_API_KEY": "key-of-alpha"}

    plain = _quire("search", "espreso", "machine", **access)
    as_json = _quire("search", "espresso", "--json", "--type", "md", **access)
    nothing = _quire("search", "espresso", "--type", "pdf", **access)

    assert plain.returncode == 0, plain.stderr
    assert "Manual of the espresso machine" in plain.stdout
    assert document["document_id"] in plain.stdout
    assert "\x1b" not in plain.stdout
    assert json.loads(as_json.stdout)["hits"][0]["document"]["document_id"] == document["document_id"]
    assert (nothing.returncode, nothing.stdout) == (1, "")


async def test_doctor_looks_at_the_catalog(tmp_path: Path) -> None:
    settings = load({"DATA_DIR": str(tmp_path)})
    fresh = await check_catalog(settings)
    await (await Catalog.open(CatalogOptions(file=tmp_path / "catalog.db"), SystemClock())).close()
    there = await check_catalog(settings)
    (tmp_path / "catalog.db").write_bytes(b"this is no database, whatever its name says" * 100)
    damaged = await check_catalog(settings)
    away = await check_catalog(load({"DATABASE_URL": "postgresql://u:hush@127.0.0.1:1/quire"}))

    refused = await check_catalog(load({"DATABASE_URL": "postgresql://u:hush@a,b/quire?magic=1"}))

    assert [one[0].level for one in (fresh, there, damaged, away)] == ["ok", "ok", "fail", "fail"]
    assert refused[0].level == "fail"
    assert "DATABASE_URL has options that are not understood: magic." in refused[0].text
    assert "hush" not in str((away, refused))
