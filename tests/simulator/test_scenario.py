from __future__ import annotations

import random
import statistics

import pytest

from quire.errors import RequestError
from quire.simulator.scenario import Fault, FaultRule, Latency, ModelProfile, parse


def test_scenario_is_read_when_it_says_everything() -> None:
    scenario = parse(
        {
            "api_keys": ["k"],
            "models": [
                {
                    "model": "gpt-*",
                    "rpm": 60,
                    "tpm": 1000,
                    "latency": {"uniform": [0.1, 0.5]},
                    "window": "sliding",
                },
                {"latency": 0.02, "burst_s": 1, "tolerance_s": 0},
            ],
            "rules": [
                {"fault": "hang", "model": "gpt-4o", "from_s": 10, "until_s": 20},
                {"fault": "rate_limit", "first": 3, "last": 5, "retry_after_s": 2.5, "probability": 0.5},
            ],
        }
    )
    assert scenario.api_keys == ("k",)
    assert scenario.models[0] == ModelProfile("gpt-*", Latency("uniform", 0.1, 0.5), 60, 1000, "sliding")
    assert scenario.profile("gpt-9") is scenario.models[0]
    assert scenario.profile("claude") is scenario.models[1]
    assert scenario.rules[0] == FaultRule(Fault.HANG, "gpt-4o", from_s=10, until_s=20)
    assert scenario.rules[0].is_window
    assert not scenario.rules[1].is_window


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "A scenario must be a table"),
        ({"model": []}, "doesn't know model"),
        ({"rules": {}}, "rules must be a list"),
        ({"rules": [{}]}, "rules[0].fault must be one of"),
        ({"rules": [{"fault": "explode"}]}, "rules[0].fault must be one of"),
        ({"rules": [{"fault": "cut", "nth": 3}]}, "rules[0] doesn't know nth"),
        ({"rules": [{"fault": "cut", "first": 1.5}]}, "rules[0].first must be a whole number"),
        ({"rules": [{"fault": "cut", "probability": 2}]}, "rules[0].probability"),
        ({"rules": [{"fault": "server_error", "status": 200}]}, "rules[0].status"),
        ({"models": [{"rpm": -1}]}, "models[0].rpm"),
        ({"models": [{"rpm": True}]}, "models[0].rpm"),
        ({"models": [{"window": "fixed"}]}, "models[0].window"),
        ({"models": [{"latency": {"uniform": [1]}}]}, "models[0].latency"),
        ({"models": [{"latency": "fast"}]}, "models[0].latency"),
        ({"api_keys": [1]}, "api_keys"),
    ],
)
def test_scenario_is_refused_with_its_place_when_malformed(data: object, said: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(data)
    assert said in caught.value.public


def test_rule_covers_only_its_calls_when_it_has_conditions() -> None:
    rule = FaultRule(Fault.CUT, "gpt-*", first=2, last=3, from_s=5, until_s=6)
    assert rule.covers("gpt-4", 2, 5.0)
    assert not rule.covers("claude", 2, 5.0)
    assert not rule.covers("gpt-4", 1, 5.0)
    assert not rule.covers("gpt-4", 4, 5.0)
    assert not rule.covers("gpt-4", 2, 4.9)
    assert not rule.covers("gpt-4", 2, 6.0)


def test_latency_has_its_distribution_when_drawn() -> None:
    chance = random.Random(1)
    uniform = [Latency("uniform", 1, 3).draw(chance) for _ in range(2000)]
    assert min(uniform) >= 1
    assert max(uniform) <= 3
    assert statistics.mean(uniform) == pytest.approx(2, abs=0.1)
    lognormal = [Latency("lognormal", 2, 0.5).draw(chance) for _ in range(2000)]
    assert statistics.median(lognormal) == pytest.approx(2, rel=0.1)
    assert max(lognormal) > 5
    assert Latency("fixed", 0.25).draw(chance) == 0.25
