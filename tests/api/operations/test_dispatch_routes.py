"""What people see of the dispatcher: GET /dispatch, and the doctor's word about each provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.cli.doctor_ai import check_ai
from quire.cli.doctor_checks import examine
from quire.settings import load
from quire.simulator.simulator_thread import RunningSimulator
from tests.support.environment import ROOT
from tests.support.serving import Server, client_of

SAMPLES = ROOT / "samples"


async def test_models_and_errors_are_shown_when_the_service_is_asked(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "a1"}], "models": [{"model": "a2", "rpm": 90}]})
    server = Server(
        tmp_path,
        OPENAI_BASE_URL=sim.openai_url,
        OPENAI_API_KEY="sk-test",
        OPENAI_PRIMARY_MODEL="a1",
        OPENAI_SECONDARY_MODEL="a2",
        READER_PROCESSES="1",
    )
    try:
        server.wait_ready()
        async with client_of(server) as client:
            accepted = await client.upload((SAMPLES / "scan.pdf").read_bytes(), {"pages": "1"})
            await client.over(accepted.json["job_id"])
            shown = (await client.get("/dispatch")).json
    finally:
        server.stop()
    models = {one["model"]: one for one in shown["models"]}
    assert shown["order"] == ["openai:a1", "openai:a2"]
    assert (models["a1"]["state"], models["a1"]["last_error"]) == ("open", "server")
    assert 0 < models["a1"]["opens_in_seconds"] <= 30
    assert (models["a2"]["state"], models["a2"]["requests_per_minute"]) == ("closed", 90)
    assert models["a2"]["calls_ok"] == 1
    assert [(one["model"], one["code"]) for one in shown["recent_errors"]] == [("openai:a1", "server")]
    assert shown["usage_this_month"]["calls"] == 2
    assert "sk-test" not in str(shown)


@pytest.mark.parametrize(
    ("fault", "level", "word"),
    [
        (None, "ok", "answers"),
        ("auth", "fail", "key"),
        ("quota", "fail", "quota"),
        ("rejected", "fail", "400"),
    ],
)
async def test_the_doctor_says_what_is_wrong_with_a_provider(
    tmp_path: Path, sim: RunningSimulator, fault: str | None, level: str, word: str
) -> None:
    sim.play({"rules": [{"fault": fault, "model": "a1"}]} if fault else {})
    settings = load(
        {
            "DATA_DIR": str(tmp_path),
            "OPENAI_BASE_URL": sim.openai_url,
            "OPENAI_API_KEY": "sk-planted-key",
            "OPENAI_PRIMARY_MODEL": "a1",
            "READER_PROCESSES": "1",
        }
    )
    # The whole examination once; the other checks have nothing to do with the provider.
    examined = await check_ai(settings) if fault else [one async for one in examine(settings)]
    found = [one for one in examined if one.check == "ai openai"]
    assert [one.level.value for one in found] == [level]
    assert word in found[0].text
    assert bool(found[0].advice) == (level == "fail")
    assert "sk-planted-key" not in str(found)
