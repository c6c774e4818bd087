"""Nothing planted comes back: no key, no prompt, no text, no picture in any error or log line."""

from __future__ import annotations

import asyncio
import base64
import logging
import pickle
import traceback
from collections.abc import Callable

import pytest

from quire.clock import SystemClock
from quire.providers.configured_providers import build
from quire.providers.provider_protocol import Provider, ProviderError
from quire.settings import load
from quire.simulator.scenario import Fault
from quire.simulator.simulator_thread import RunningSimulator
from tests.providers.conftest import IMAGE, KEY, PROMPT, TEXT, page

PLANTED = (
    KEY,
    PROMPT,
    TEXT,
    "violet umbrella",
    "tired owl",
    "planted-KEY",
    base64.b64encode(IMAGE).decode()[:24],
)


def leaks(text: str) -> list[str]:
    return [one for one in PLANTED if one in text]


def everything_about(error: BaseException) -> str:
    """All that hangs on an error: texts, arguments, attributes, causes and contexts."""
    told, seen = [], set()
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        told.append(f"{one!r} {one.args!r} {one.__dict__!r}")
        told.extend(getattr(one, "__notes__", ()))
        rest += [one.__cause__, one.__context__]
    told.extend(traceback.format_exception(error))
    return "\n".join(told)


@pytest.mark.parametrize("fault", [*Fault, "nobody listens", "key refused"])
async def test_nothing_planted_is_told_when_a_call_fails(
    make: Callable[..., Provider],
    kind: str,
    sim: RunningSimulator,
    fault: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    url = "http://127.0.0.1:1" if fault == "nobody listens" else None
    rules = [{"fault": fault}] if fault in set(Fault) else []
    sim.play({"rules": rules, "api_keys": ["another"] if fault == "key refused" else []})
    provider = make(kind, url)
    await provider.open()
    asyncio.get_running_loop().set_debug(True)
    told = ""
    failure: ProviderError | None = None
    try:
        told = repr(await provider.read(page(timeout_s=0.4)))
    except ProviderError as error:
        failure = error
    if failure is not None:
        told = everything_about(failure) + repr(pickle.loads(pickle.dumps(failure)))
        assert failure.__context__ is None
        assert failure.__cause__ is None
    assert leaks(told) == []
    assert leaks(caplog.text) == []
    assert leaks(repr(provider) + repr(vars(provider)) + repr(page())) == []


async def test_good_calls_write_no_log_lines_when_made(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    await provider.open()
    caplog.set_level(logging.DEBUG)
    await provider.read(page())
    assert [
        one.name for one in caplog.records if one.name.split(".")[0] in {"openai", "anthropic", "httpx2"}
    ] == []


def test_settings_tell_no_key_when_shown() -> None:
    settings = load(
        {
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_API_KEY": KEY,
            "AI_SYSTEM_PROMPT": PROMPT,
            "AI_SERVERS": f'{{"vllm": {{"base_url": "http://h/v1", "api_key": "{KEY}", "primary_model": "m"}}}}',
        }
    )
    shown = repr(settings) + repr(settings.describe()) + repr(settings.ai.servers)
    assert leaks(shown) == []
    assert leaks(repr([vars(one) for one in build(settings.ai, SystemClock()).values()])) == []
