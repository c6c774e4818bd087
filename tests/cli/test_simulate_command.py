"""`quire simulate` as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.waiting import DEADLINE_S


def run(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "quire", "simulate", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_scenario_is_played_when_a_file_is_given(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"scenario.{ending}"
    scenario = {"models": [{"model": "gpt-4.1", "rpm": 7}]}
    file.write_text(json.dumps(scenario) if ending == "json" else "models:\n- {model: gpt-4.1, rpm: 7}\n")
    process = run("--port", "0", "--scenario", str(file), "--seed", "3")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{url}/v1/models", timeout=DEADLINE_S) as response:
            assert json.load(response)["data"][0]["id"] == "gpt-4.1"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, err) == (0, "")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"rules": [{"fault": "boom"}]}', "rules[0].fault must be one of"), ("{", "is not JSON")],
)
def test_command_stops_with_a_sentence_when_the_scenario_is_wrong(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(text)
    process = run("--port", "0", "--scenario", str(file))
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (2, "")
    assert said in err
