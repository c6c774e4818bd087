"""DATABASE_URL: what it may be, and that its password is never shown."""

from __future__ import annotations

import pytest

from quire.errors import SettingsError
from quire.settings import load


def test_password_is_masked_when_the_address_is_shown() -> None:
    settings = load({"DATABASE_URL": "postgresql://quire:hush@db.example/quire?sslmode=require"})
    views = {view.name: view.value_shown for view in settings.describe()}
    assert views["DATABASE_URL"] == "postgresql://quire:***@db.example/quire?sslmode=***"
    assert "hush" not in repr(settings)
    assert settings.catalog.database_url.endswith("sslmode=require")


def test_password_is_masked_when_the_address_names_several_servers() -> None:
    settings = load({"DATABASE_URL": "postgresql://quire:hush@a:5432,b:5433,[::1]/quire?sslkey=/k"})
    views = {view.name: view.value_shown for view in settings.describe()}
    assert views["DATABASE_URL"] == "postgresql://quire:***@a:5432,b:5433,[::1]/quire?sslkey=***"
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    "value", ["mysql://h/db", "db.example", "postgresql://h:port/db", "postgresql://a:1,b:x/db"]
)
def test_start_stops_when_the_address_is_no_postgresql_server(value: str) -> None:
    with pytest.raises(SettingsError, match="DATABASE_URL"):
        load({"DATABASE_URL": value})
