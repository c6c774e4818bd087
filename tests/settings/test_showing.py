from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import SettingsError
from quire.settings import load, render_markdown
from quire.settings.sections import declarations
from quire.settings.setting_kinds import read_duration, read_size, write_duration, write_size
from tests.support.environment import ROOT

SECRETS = {
    "API_KEYS": "team:hunter2",
    "WEB_PASSWORD": "hunter2",
    "SECRET_KEY": "hunter2",
    "CALLBACK_SECRET": "hunter2",
    "QUIRE_API_KEY": "hunter2",
    "REDIS_URL": "rediss://user:hunter2@cache.example:6380/1?password=hunter2",
    "QUIRE_URL": "https://user:hunter2@quire.example",
}


def test_secrets_are_hidden_when_settings_are_shown() -> None:
    settings = load(SECRETS)
    views = {view.name: view for view in settings.describe()}
    assert "hunter2" not in repr(views)
    assert "hunter2" not in repr(settings)
    assert views["API_KEYS"].value_shown == "set"
    assert views["REDIS_URL"].value_shown == "rediss://user:***@cache.example:6380/1?password=***"
    assert load({}).describe()[list(views).index("WEB_PASSWORD")].value_shown == "not set"


def test_shown_values_mean_the_same_when_read_back() -> None:
    settings = load({})
    for view in settings.describe():
        declared = declarations()[view.name]
        if not declared.kind.secret:
            value = getattr(getattr(settings, declared.section), declared.attribute)
            assert declared.kind.read(view.value_shown) == value


def test_settings_are_the_same_when_sent_to_another_process() -> None:
    settings = load(SECRETS)
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_page_is_current_when_compared_with_the_declarations() -> None:
    page = ROOT / "docs" / "settings.md"
    assert page.read_text("utf-8") == render_markdown()


def test_every_setting_has_a_sentence_when_declared() -> None:
    for declared in declarations().values():
        assert declared.name == declared.name.upper()
        assert declared.description.endswith(".")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_nothing_is_demanded_when_only_this_machine_can_connect(host: str) -> None:
    load({"HOST": host}).check_exposure()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "quire.example"])
def test_keys_and_password_are_demanded_when_others_can_connect(host: str) -> None:
    with pytest.raises(SettingsError, match="set API_KEYS and WEB_PASSWORD first"):
        load({"HOST": host}).check_exposure()
    with pytest.raises(SettingsError, match="set WEB_PASSWORD first"):
        load({"HOST": host, "API_KEYS": "k"}).check_exposure()
    load({"HOST": host, "API_KEYS": "k", "WEB_PASSWORD": "p"}).check_exposure()


@given(st.integers(min_value=0, max_value=10**12))
def test_duration_survives_when_written_and_read(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert read_duration(write_duration(seconds)) == pytest.approx(seconds, abs=1e-6)


@given(st.integers(min_value=0, max_value=2**50))
def test_size_survives_when_written_and_read(size_bytes: int) -> None:
    assert read_size(write_size(size_bytes)) == size_bytes


def test_no_heavy_library_is_loaded_when_settings_are_imported() -> None:
    script = (
        "import sys, quire.settings; print(*{'yaml', 'tomllib', 'structlog', 'aiohttp'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
