"""Anthropic: the messages API with the page's picture."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from quire.clock import Clock
from quire.providers.provider_protocol import (
    AnswerSchema,
    ProviderServerError,
    StopReason,
    TokenUsage,
    VisionAnswer,
    VisionRequest,
)
from quire.providers.rate_headers import anthropic_limits
from quire.providers.sdk_channel import NO_KEY, Channel, Reply, Sdk, http_client, json_text, token_count

NAME = "anthropic"
BASE_URL = "https://api.anthropic.com"

_PATH = "/v1/messages"
_STOPS = {
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSAL,
}
# Tokens written to and read from the prompt cache are counted apart from the others.
_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(frozen=True)
class AnthropicOptions:
    name: str = NAME
    base_url: str = field(default=BASE_URL, repr=False)
    api_key: str = field(default="", repr=False)


class AnthropicProvider:
    """`channel` carries other calls of the same account."""

    def __init__(self, options: AnthropicOptions, clock: Clock) -> None:
        self._options = options
        self.channel = Channel(options.name, self._load, anthropic_limits, clock)

    @property
    def name(self) -> str:
        return self._options.name

    async def open(self) -> None:
        await self.channel.open()

    async def read(self, request: VisionRequest) -> VisionAnswer:
        reply = await self.channel.post(
            _PATH, request_body(request), model=request.model, timeout_s=request.timeout_s
        )
        return parse_answer(f"{self.name} ({request.model})", reply)

    async def check(self, model: str) -> None:
        reply = await self.channel.check(_PATH, model, "max_tokens")
        parse_answer(f"{self.name} ({model})", reply)

    async def models(self) -> tuple[str, ...]:
        return await self.channel.models("/v1/models?limit=1000")

    async def close(self) -> None:
        await self.channel.close()

    def _load(self) -> Sdk:
        import anthropic
        import httpx2

        key = self._options.api_key or NO_KEY
        client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=self._options.base_url.rstrip("/").removesuffix("/v1"),
            default_headers={"Authorization": f"Bearer {key}"},
            max_retries=0,
            timeout=None,
            open_telemetry=False,  # its spans can carry the contents of requests
            http_client=http_client(anthropic.DefaultAioHttpClient),
        )
        return Sdk(
            client, httpx2.Response, anthropic.APIStatusError, anthropic.AnthropicError, anthropic.omit
        )


def request_body(request: VisionRequest) -> bytes:
    """The JSON, assembled around the picture: encoding the picture as JSON text would cost as much as the call."""
    return b"".join(
        (
            b'{"model":',
            json_text(request.model),
            b',"max_tokens":',
            str(request.max_tokens_out).encode(),
            *_form(request.answer),
            b',"system":',
            json_text(request.instructions),
            b',"messages":[{"role":"user","content":[',
            *_image(request),
            b"," if request.image and request.text.strip() else b"",
            # Anthropic rejects empty texts.
            b'{"type":"text","text":' + json_text(request.text) + b"}" if request.text.strip() else b"",
            b"]}]}",
        )
    )


def _form(answer: AnswerSchema | None) -> tuple[bytes, ...]:
    if answer is None:
        return ()
    return (b',"output_config":{"format":{"type":"json_schema","schema":', answer.schema, b"}}")


def _image(request: VisionRequest) -> tuple[bytes, ...]:
    return tuple(
        part
        for place, picture in enumerate(request.pictures)
        for part in (
            b"," if place else b"",
            b'{"type":"image","source":{"type":"base64","media_type":',
            json_text(request.image_mime),
            b',"data":"',
            base64.b64encode(picture),
            b'"}}',
        )
    )


def parse_answer(label: str, reply: Reply) -> VisionAnswer:
    """Raises ProviderServerError if the answer can't be parsed."""
    usage = _usage(reply.data.get("usage"))
    parts = reply.data.get("content")
    reason = reply.data.get("stop_reason")
    if not isinstance(parts, list):
        raise ProviderServerError(
            f"{label} gave an answer without a message.", usage=usage, limits=reply.limits
        )
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    text = "".join(one for one in texts if isinstance(one, str))
    stop = _STOPS.get(reason, StopReason.DONE) if isinstance(reason, str) else StopReason.DONE
    return VisionAnswer(text, stop, usage, reply.limits)


def _usage(given: object) -> TokenUsage:
    if not isinstance(given, dict):
        return TokenUsage()
    tokens_in = sum(token_count(given.get(name)) for name in _INPUT_COUNTS)
    return TokenUsage(tokens_in, token_count(given.get("output_tokens")))
