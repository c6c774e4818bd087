"""Real SDKs against the simulator over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from quire.clock import SystemClock
from quire.providers.anthropic_provider import AnthropicOptions, AnthropicProvider
from quire.providers.openai_provider import OpenAIOptions, OpenAIProvider
from quire.providers.provider_protocol import Provider, VisionRequest
from quire.simulator.simulator_thread import RunningSimulator, simulator

KEY = "sk-planted-KEY-2f9c"
PROMPT = "planted prompt: read like a tired owl"
TEXT = "planted page text about a violet umbrella"
IMAGE = b"\xff\xd8 planted picture bytes \x00\x01" * 50
MODEL = "model-a"


@pytest.fixture(scope="session")
def running() -> Iterator[RunningSimulator]:
    with simulator() as one:
        yield one


@pytest.fixture
def sim(running: RunningSimulator) -> RunningSimulator:
    running.play({})
    running.reset()
    return running


@pytest.fixture(params=["openai", "anthropic", "server"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
async def make(sim: RunningSimulator) -> AsyncIterator[Callable[..., Provider]]:
    """Makes providers, at the simulator unless told otherwise, and closes them in the end."""
    made: list[Provider] = []

    def build(kind: str, url: str | None = None, key: str = KEY) -> Provider:
        one: Provider
        if kind == "anthropic":
            one = AnthropicProvider(
                AnthropicOptions(base_url=url or sim.anthropic_url, api_key=key), SystemClock()
            )
        else:
            options = OpenAIOptions(
                name="openai" if kind == "openai" else "vllm",
                base_url=url or sim.openai_url,
                api_key=key,
                compatible=kind == "server",
            )
            one = OpenAIProvider(options, SystemClock())
        made.append(one)
        return one

    yield build
    for one in made:
        await one.close()


@pytest.fixture
def provider(make: Callable[..., Provider], kind: str) -> Provider:
    return make(kind)


def page(
    text: str = TEXT, *, timeout_s: float = 30.0, model: str = MODEL, image: bytes = IMAGE
) -> VisionRequest:
    return VisionRequest(
        model=model,
        instructions=PROMPT,
        text=text,
        image=image,
        image_mime="image/jpeg",
        max_tokens_out=4096,
        timeout_s=timeout_s,
    )
