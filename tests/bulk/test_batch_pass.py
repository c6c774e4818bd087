"""`quire bulk --ai batch`: pages handed in to the providers' batch interfaces once, and collected whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quire.cli import main
from quire.simulator.simulator_thread import RunningSimulator
from tests.bulk.rows import check_chunks, rows_of
from tests.support.environment import clean_environment
from tests.support.waiting import DEADLINE_S, wait_until

_PAGES = 6
_PROVIDERS = ("openai", "anthropic")
_MODELS = ("openai:model", "anthropic:model")
_LONG_S = 86_400
_PRICE = {"input": 100, "output": 100}


def _settings(sim: RunningSimulator, provider: str) -> dict[str, str]:
    name = provider.upper()
    return {
        "PRIMARY_ENGINE": provider,
        f"{name}_API_KEY": "key",
        f"{name}_BASE_URL": sim.openai_url if provider == "openai" else sim.anthropic_url,
        f"{name}_PRIMARY_MODEL": "model",
        "AI_PRICES": json.dumps(dict.fromkeys(_MODELS, _PRICE)),
    }


@pytest.fixture(params=_PROVIDERS)
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, sim: RunningSimulator) -> str:
    name = str(request.param)
    for variable, value in _settings(sim, name).items():
        monkeypatch.setenv(variable, value)
    return name


def _run(scans: Path, *more: str) -> int:
    return main(_arguments(scans, *more))


def _arguments(scans: Path, *more: str) -> list[str]:
    target = str(scans.parent / "out")
    return ["bulk", str(scans), target, "--quiet", "--ocr", "off", "--workers", "1", "--ai", "batch", *more]


def _ai_rows(scans: Path) -> list[dict[str, Any]]:
    return [row for row in rows_of(scans.parent / "out") if row["source"] == "ai"]


def test_pages_are_read_in_one_batch_at_half_the_price(
    scans: Path, sim: RunningSimulator, provider: str
) -> None:
    assert _run(scans, "--formats", "elements,chunks") == 0
    check_chunks(rows_of(scans.parent / "out"))
    rows = _ai_rows(scans)
    assert len(rows) == _PAGES
    assert {row["reader"] for row in rows} == {f"{provider}:model"}
    for row in rows:
        assert row["cost_usd"] == pytest.approx((row["tokens_in"] + row["tokens_out"]) * 100e-6 / 2)
        assert json.loads(row["elements"])["elements"]
    assert _run(scans, "--formats", "elements,chunks") == 0
    assert sim.stats()["batches"] == {"submitted": 1, "requests": _PAGES}
    assert not (scans.parent / "out" / "_quire" / "ai" / "driver.json").exists()


def test_a_hand_in_without_an_answer_is_not_repeated(
    scans: Path, sim: RunningSimulator, provider: str
) -> None:
    # Anthropic's list says only at the end whose batch it is.
    sim.play({"batch_s": 3, "rules": [{"fault": "reset", "model": "batches", "last": 1}]})
    assert _run(scans) == 0
    assert len(_ai_rows(scans)) == _PAGES
    assert sim.stats()["batches"]["submitted"] == 1


def test_a_refused_hand_in_is_made_by_the_next_run(
    scans: Path, sim: RunningSimulator, provider: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sim.play({"rules": [{"fault": "rejected", "model": "batches"}]})
    assert _run(scans) == 1
    assert "rejected the request" in capsys.readouterr().err
    sim.play({})
    assert _run(scans) == 0
    assert len(_ai_rows(scans)) == _PAGES
    assert sim.stats()["batches"] == {"submitted": 1, "requests": _PAGES}


def test_a_killed_driver_s_batch_is_collected_by_the_next(
    scans: Path, sim: RunningSimulator, provider: str
) -> None:
    sim.play({"batch_s": _LONG_S})
    command = [sys.executable, "-m", "quire", *_arguments(scans)]
    driver = subprocess.Popen(
        command, env=clean_environment(**_settings(sim, provider)), start_new_session=True
    )
    try:
        wait_until(lambda: sim.stats()["batches"]["submitted"] == 1, "a batch that is handed in")
        assert main(_arguments(scans, "--no-plan")) == 1  # one driver at a time
    finally:
        driver.kill()
        driver.wait(DEADLINE_S)
    assert _run(scans, "--no-wait") == 1
    assert _ai_rows(scans) == []
    sim.play({})
    assert _run(scans) == 0
    assert len(_ai_rows(scans)) == _PAGES
    assert sim.stats()["batches"]["submitted"] == 1


def test_pages_that_failed_in_a_batch_are_handed_in_again_by_the_next_run(
    scans: Path, sim: RunningSimulator, provider: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "model", "last": 2}]})
    _run(scans, "--json")
    report = json.loads(capsys.readouterr().out)
    assert (report["ai"]["read"], report["ai"]["failed"]) == (_PAGES - 2, 2)
    assert _run(scans) == 0
    assert len(_ai_rows(scans)) == _PAGES
    assert sim.stats()["batches"] == {"submitted": 2, "requests": _PAGES + 2}


def test_the_ceiling_counts_what_open_batches_may_cost(
    scans: Path, sim: RunningSimulator, provider: str
) -> None:
    sim.play({"batch_s": _LONG_S})
    # A page is reserved at about 0.1 USD.
    assert _run(scans, "--max-cost", "0.3", "--no-wait") == 1
    handed_in = sim.stats()["batches"]["requests"]
    assert 0 < handed_in < _PAGES
    assert _run(scans, "--max-cost", "0.3", "--no-wait") == 1
    assert sim.stats()["batches"]["requests"] == handed_in
    sim.play({})
    assert _run(scans, "--max-cost", "50") == 0
    assert len(_ai_rows(scans)) == _PAGES
    assert sim.stats()["batches"]["requests"] == _PAGES


def test_batches_need_a_provider_that_has_them(
    scans: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {"base_url": "http://127.0.0.1:9/v1", "primary_model": "m"}
    monkeypatch.setenv("AI_SERVERS", json.dumps({"vllm": server}))
    monkeypatch.setenv("PRIMARY_ENGINE", "vllm")
    assert _run(scans) == 2
    monkeypatch.setenv("SECONDARY_ENGINE", "openai")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert _run(scans, "--shard-count", "2") == 2
    said = capsys.readouterr().err
    assert "needs OpenAI or Anthropic" in said
    assert "runs on one machine" in said
