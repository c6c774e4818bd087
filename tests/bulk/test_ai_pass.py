"""`quire bulk --ai now`: pages that local readers see badly are read by AI, within --max-cost, and paid once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quire.cli import main
from quire.simulator.simulator_thread import RunningSimulator
from tests.bulk.rows import check_chunks, rows_of
from tests.support.environment import clean_environment
from tests.support.waiting import DEADLINE_S, wait_until

_PAGES = 6
_PRICE = {"input": 100, "output": 100}


def _settings(sim: RunningSimulator, folder: Path) -> dict[str, str]:
    return {
        "DATA_DIR": str(folder / "data"),
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": sim.openai_url,
        "AI_PRICES": json.dumps(dict.fromkeys(("openai:gpt-6.1-terra", "openai:gpt-6-sol"), _PRICE)),
        "AI_GROUND_WITH_OCR": "false",
    }


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, sim: RunningSimulator, tmp_path: Path) -> None:
    for name, value in _settings(sim, tmp_path).items():
        monkeypatch.setenv(name, value)


def _arguments(scans: Path, *more: str) -> list[str]:
    target = str(scans.parent / "out")
    return ["bulk", str(scans), target, "--quiet", "--ocr", "off", "--workers", "1", "--ai", "now", *more]


def _by_source(target: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows_of(target):
        found[row["source"]] = found.get(row["source"], 0) + 1
    return found


@pytest.mark.usefixtures("environment")
def test_scans_are_read_by_ai_once_and_other_rows_stay(
    scans: Path, sim: RunningSimulator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_arguments(scans, "--formats", "text,elements,chunks", "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ai"]["read"], report["ai"]["stopped"]) == (_PAGES, "")
    assert report["all_parts"]["ai_pages"] == 0
    assert report["all_parts"]["errors"] == 0
    assert report["all_parts"]["cost_usd"] == pytest.approx(report["ai"]["cost_usd"], rel=1e-3)
    rows = rows_of(scans.parent / "out")
    read = [row for row in rows if row["source"] == "ai"]
    assert {(row["key"], row["page"]) for row in read} == {
        (k, n) for k, pages in (("a.pdf", (1, 2, 3)), ("b.pdf", (2, 3, 4))) for n in pages
    }
    assert all(row["kind"] == "page" and row["markdown"].strip() and row["cost_usd"] > 0 for row in read)
    assert all(json.loads(row["elements"])["elements"] and row["text"] for row in read)
    assert {row["source"] for row in rows if row["key"] == "text.pdf"} == {"local"}
    check_chunks(rows)
    assert main(_arguments(scans, "--formats", "text,elements,chunks")) == 0
    assert sim.stats()["total"]["calls"] == _PAGES


@pytest.mark.usefixtures("environment")
def test_the_ceiling_is_checked_before_the_call_and_a_higher_one_goes_on(
    scans: Path, sim: RunningSimulator, capsys: pytest.CaptureFixture[str]
) -> None:
    # A call is reserved at about 0.2 USD and costs about 0.1.
    assert main(_arguments(scans, "--max-cost", "0.4")) == 1
    assert "could exceed --max-cost" in capsys.readouterr().err
    made = sim.stats()["total"]["calls"]
    spent = sum(row["cost_usd"] for row in rows_of(scans.parent / "out"))
    assert 0 < made < _PAGES
    assert 0 < spent <= 0.4
    assert _by_source(scans.parent / "out")["ai"] == made
    assert main(_arguments(scans, "--max-cost", "50")) == 0
    assert sim.stats()["total"]["calls"] == _PAGES


def test_a_killed_pass_does_not_pay_twice(scans: Path, sim: RunningSimulator, tmp_path: Path) -> None:
    # Later calls hang: the part can't be written before the kill. The simulator counts the calls of each model.
    sim.play({"rules": [{"fault": "hang", "first": 4}]})
    command = [sys.executable, "-m", "quire", *_arguments(scans)]
    one_model = {"OPENAI_SECONDARY_MODEL": "gpt-6.1-terra", "SECONDARY_ENGINE": "none"}
    environment = clean_environment(**_settings(sim, tmp_path), **one_model)
    driver = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        wait_until(lambda: _answers(tmp_path) >= 3, "three answers that are stored")
    finally:
        driver.kill()
        driver.wait(DEADLINE_S)
    answered = _answered(sim)
    assert _by_source(tmp_path / "out").get("ai", 0) == 0
    sim.play({})
    subprocess.run(command, env=environment, check=True, timeout=DEADLINE_S)
    found = _by_source(tmp_path / "out")
    assert found["ai"] + found["cache"] == _PAGES
    assert _answered(sim) == answered + found["ai"]
    assert found["cache"] >= 3


def _answered(sim: RunningSimulator) -> int:
    return sum(one["outcomes"].get("ok", 0) for one in sim.stats()["models"].values())


def _answers(folder: Path) -> int:
    return len(list((folder / "data").glob("**/jobs/answer-*/answer-*")))


def test_what_would_stop_a_pass_is_said_before_anything_is_read(
    scans: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert main(_arguments(scans)) == 2
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_PRIMARY_MODEL", "unheard-of")
    assert main(_arguments(scans, "--max-cost", "1")) == 2
    assert main(["bulk", str(scans), str(scans.parent / "out"), "--max-cost", "1"]) == 2
    said = capsys.readouterr().err
    assert "No AI provider is configured" in said
    assert "openai:unheard-of is unknown" in said
    assert "--max-cost needs --ai" in said
    assert not (scans.parent / "out").exists()
