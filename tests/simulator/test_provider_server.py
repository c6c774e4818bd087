"""The server as a stranger sees it: plain HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from quire.errors import RequestError
from quire.simulator.simulator_thread import RunningSimulator, simulator
from tests.support.waiting import DEADLINE_S

KEY = {"Authorization": "Bearer k"}


@pytest.fixture
def sim() -> Iterator[RunningSimulator]:
    with simulator() as one:
        yield one


@pytest.fixture
async def http(sim: RunningSimulator) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(sim.url) as session:
        yield session


def chat(text: str = "hello", model: str = "m", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


async def status(http: aiohttp.ClientSession, body: Any = None, path: str = "/v1/chat/completions") -> int:
    async with http.post(path, json=chat() if body is None else body, headers=KEY) as response:
        await response.read()
        return response.status


async def in_flight(sim: RunningSimulator, count: int) -> None:
    """Polls another thread's server, which has no event to wait for."""
    while sim.stats()["total"]["in_flight"] != count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_answers_are_the_same_when_the_questions_are(http: aiohttp.ClientSession) -> None:
    answers = []
    for _ in range(2):
        async with http.post("/v1/chat/completions", json=chat("# Title\n\ntext"), headers=KEY) as response:
            answers.append((await response.json())["choices"])
    assert answers[0] == answers[1]
    assert answers[0][0]["message"]["content"] == "# Title\n\ntext"


async def test_answer_has_the_shape_of_the_schema_when_nothing_is_known(http: aiohttp.ClientSession) -> None:
    lines = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    buyer = {"anyOf": [{"type": "object", "properties": {"city": {"type": "string"}}}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"total": {"type": "number"}, "lines": lines, "buyer": buyer}}
    asked = {"type": "json_schema", "json_schema": {"name": "values", "schema": schema}}
    async with http.post(
        "/v1/chat/completions", json=chat("Total: 7", response_format=asked), headers=KEY
    ) as response:
        data = await response.json()
    assert json.loads(data["choices"][0]["message"]["content"]) == {
        "total": None,
        "lines": [],
        "buyer": {"city": None},
    }


async def test_answer_is_cut_when_it_is_longer_than_allowed(http: aiohttp.ClientSession) -> None:
    async with http.post(
        "/v1/chat/completions", json=chat("x" * 100, max_tokens=10), headers=KEY
    ) as response:
        data = await response.json()
    assert data["choices"][0]["finish_reason"] == "length"
    assert data["choices"][0]["message"]["content"] == "x" * 40
    assert data["usage"]["completion_tokens"] == 10


async def test_limit_is_enforced_when_calls_exceed_it(
    sim: RunningSimulator, http: aiohttp.ClientSession
) -> None:
    sim.play({"models": [{"model": "m", "rpm": 5, "tolerance_s": 0}]})
    assert [await status(http) for _ in range(7)] == [200] * 5 + [429] * 2
    async with http.post("/v1/chat/completions", json=chat(), headers=KEY) as response:
        assert 1 <= int(response.headers["retry-after"]) <= 12
        assert response.headers["x-ratelimit-remaining-requests"] == "0"
        assert (await response.json())["error"]["code"] == "rate_limit_exceeded"
    assert await status(http, chat(model="other")) == 200
    seen = sim.stats()["models"]["m"]
    assert (seen["calls"], seen["limited"], seen["outcomes"]) == (8, 3, {"ok": 5, "limited": 3})


async def test_tokens_are_limited_when_pages_are_long(
    sim: RunningSimulator, http: aiohttp.ClientSession
) -> None:
    sim.play({"models": [{"model": "m", "tpm": 1000, "window": "sliding"}]})
    long = chat("x" * 1600)  # 400 tokens in and 400 out
    assert [await status(http, long) for _ in range(2)] == [200, 429]
    assert await status(http) == 200


async def test_rules_befall_the_calls_they_name_when_counted(
    sim: RunningSimulator, http: aiohttp.ClientSession
) -> None:
    sim.play(
        {
            "rules": [
                {"fault": "server_error", "model": "m", "first": 2, "last": 3, "status": 503},
                {"fault": "quota", "model": "n"},
            ]
        }
    )
    assert [await status(http) for _ in range(4)] == [200, 503, 503, 200]
    assert await status(http, chat(model="n")) == 429
    sim.play({})
    assert await status(http) == 200
    assert sim.stats()["models"]["m"]["calls"] == 5


async def test_chance_is_the_same_when_the_seed_is() -> None:
    scenario = {"rules": [{"fault": "server_error", "probability": 0.5}]}
    runs = []
    for seed in (1, 1, 2):
        with simulator(scenario, seed=seed) as one:
            async with aiohttp.ClientSession(one.url) as http:
                runs.append([await status(http) for _ in range(30)])
    assert runs[0] == runs[1] != runs[2]
    assert {200, 500} == set(runs[0])


async def test_calls_in_an_outage_are_counted_when_its_window_is_on(
    sim: RunningSimulator, http: aiohttp.ClientSession
) -> None:
    sim.play({"rules": [{"fault": "overloaded", "model": "m", "until_s": 3600, "probability": 0}]})
    assert await status(http) == 200
    assert await status(http, chat(model="n")) == 200
    sim.play({"rules": [{"fault": "overloaded", "model": "m", "from_s": 3600}]})
    assert await status(http) == 200
    stats = sim.stats(with_calls=True)["models"]
    assert (stats["m"]["calls_in_window"], stats["n"]["calls_in_window"]) == (1, 0)
    assert [call["in_window"] for call in stats["m"]["log"]] == [True, False]
    assert all(call["ended_at"] >= call["at"] for call in stats["m"]["log"])


async def test_call_is_no_longer_in_flight_when_its_caller_left(
    sim: RunningSimulator, http: aiohttp.ClientSession
) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    async with asyncio.timeout(DEADLINE_S):
        calls = [asyncio.create_task(status(http)) for _ in range(3)]
        await in_flight(sim, 3)
        for call in calls:
            call.cancel()
        await in_flight(sim, 0)
    seen = sim.stats()["models"]["m"]
    assert (seen["in_flight_max"], seen["outcomes"]) == (3, {"left": 3})


async def test_records_are_empty_when_reset(sim: RunningSimulator, http: aiohttp.ClientSession) -> None:
    sim.play({"rules": [{"fault": "auth", "first": 1, "last": 1}]})
    assert [await status(http), await status(http)] == [401, 200]
    sim.reset()
    assert sim.stats()["models"] == {}
    assert [await status(http), await status(http)] == [401, 200]


async def test_caller_is_told_when_the_request_is_wrong(http: aiohttp.ClientSession) -> None:
    assert await status(http, {"model": "m"}) == 400
    assert await status(http, [1]) == 400
    assert await status(http, {"model": "m", "messages": [{"content": "x"}]}, "/v1/messages") == 400
    assert await status(http, {}, "/v1/nothing") == 404
    assert await status(http, {"rules": [{"fault": "no"}]}, "/_sim/scenario") == 400
    async with http.post("/v1/chat/completions", json=chat()) as response:
        assert response.status == 401
        assert (await response.json())["error"]["code"] == "invalid_api_key"


async def test_embeddings_have_length_one_when_asked_for(
    sim: RunningSimulator, http: aiohttp.ClientSession
) -> None:
    body = {"model": "text-embedding-3-small", "input": ["a", "b", "a"], "dimensions": 8}
    async with http.post("/v1/embeddings", json=body, headers=KEY) as response:
        rows = [row["embedding"] for row in (await response.json())["data"]]
    assert rows[0] == rows[2] != rows[1]
    assert sum(x * x for x in rows[0]) == pytest.approx(1, abs=1e-3)
    assert await status(http, {"model": "e", "input": 7}, "/v1/embeddings") == 400
    sim.play({"rules": [{"fault": "overloaded", "model": "text-*"}]})
    assert await status(http, body, "/v1/embeddings") == 503
    assert sim.stats()["models"]["text-embedding-3-small"]["calls"] == 2


async def test_models_are_listed_when_asked_for(sim: RunningSimulator, http: aiohttp.ClientSession) -> None:
    sim.play({"models": [{"model": "gpt-4.1"}]})
    async with http.get("/v1/models") as response:
        assert [one["id"] for one in (await response.json())["data"]] == ["gpt-4.1"]
    async with http.get("/v1/models", headers={"anthropic-version": "2023-06-01"}) as response:
        assert (await response.json())["data"][0]["type"] == "model"


def test_simulator_does_not_start_when_its_scenario_is_wrong() -> None:
    with pytest.raises(RequestError), simulator({"rules": 1}):
        pass
