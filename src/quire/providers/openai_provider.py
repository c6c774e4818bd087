"""OpenAI and compatible servers: chat completions with the page's picture as a data URL."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from quire.clock import Clock
from quire.providers.provider_protocol import (
    AnswerSchema,
    ContentBlockedError,
    ProviderServerError,
    SeenLimits,
    StopReason,
    TokenUsage,
    VisionAnswer,
    VisionRequest,
)
from quire.providers.rate_headers import openai_limits
from quire.providers.sdk_channel import NO_KEY, Channel, Reply, Sdk, http_client, json_text, token_count

NAME = "openai"
BASE_URL = "https://api.openai.com/v1"

_PATH = "/chat/completions"


@dataclass(frozen=True)
class OpenAIOptions:
    """`compatible` servers get the older parameters, which all of them accept."""

    name: str = NAME
    base_url: str = field(default=BASE_URL, repr=False)
    api_key: str = field(default="", repr=False)
    compatible: bool = False


class OpenAIProvider:
    """`channel` carries other calls of the same account."""

    def __init__(self, options: OpenAIOptions, clock: Clock) -> None:
        self._options = options
        self.channel = Channel(options.name, self._load, _limits, clock)

    @property
    def name(self) -> str:
        return self._options.name

    @property
    def has_batches(self) -> bool:
        """Compatible servers have no batch interface."""
        return not self._options.compatible

    async def open(self) -> None:
        await self.channel.open()

    async def read(self, request: VisionRequest) -> VisionAnswer:
        reply = await self.channel.post(
            _PATH, self.body(request), model=request.model, timeout_s=request.timeout_s
        )
        return parse_answer(f"{self.name} ({request.model})", reply)

    async def post(self, path: str, body: bytes, *, model: str, timeout_s: float) -> Reply:
        """Any other call of the same protocol. Raises ProviderError."""
        return await self.channel.post(path, body, model=model, timeout_s=timeout_s)

    async def check(self, model: str) -> None:
        reply = await self.channel.check(_PATH, model, self._limit_name)
        parse_answer(f"{self.name} ({model})", reply)

    async def models(self) -> tuple[str, ...]:
        return await self.channel.models("/models")

    async def close(self) -> None:
        await self.channel.close()

    @property
    def _limit_name(self) -> str:
        return "max_tokens" if self._options.compatible else "max_completion_tokens"

    def body(self, request: VisionRequest) -> bytes:
        """The JSON, assembled around the picture: encoding the picture as JSON text would cost as much as the call."""
        return b"".join(
            (
                b'{"model":',
                json_text(request.model),
                b',"',
                self._limit_name.encode(),
                b'":',
                str(request.max_tokens_out).encode(),
                *_form(request.answer),
                b',"messages":[{"role":"system","content":',
                json_text(request.instructions),
                b'},{"role":"user","content":[{"type":"text","text":',
                json_text(request.text),
                b"}",
                *self._image(request),
                b"]}]}",
            )
        )

    def _image(self, request: VisionRequest) -> tuple[bytes, ...]:
        detail = b"" if self._options.compatible else b',"detail":"high"'
        return tuple(
            part
            for picture in request.pictures
            for part in (
                b',{"type":"image_url","image_url":{"url":"data:',
                json_text(request.image_mime)[1:-1],
                b";base64,",
                base64.b64encode(picture),
                b'"',
                detail,
                b"}}",
            )
        )

    def _load(self) -> Sdk:
        import httpx2
        import openai

        address = urlsplit(self._options.base_url)
        query = dict(parse_qsl(address.query))
        key = self._options.api_key or NO_KEY
        headers = {"Authorization": f"Bearer {key}"}
        if "api-version" in query:  # Azure's older interface has its own header for keys
            headers["api-key"] = key
        client = openai.AsyncOpenAI(
            api_key=key,
            base_url=address._replace(query="").geturl(),
            default_query=query,
            default_headers=headers,
            max_retries=0,
            timeout=None,
            http_client=http_client(openai.DefaultAioHttpClient),
        )
        return Sdk(client, httpx2.Response, openai.APIStatusError, openai.OpenAIError, openai.omit)


def _form(answer: AnswerSchema | None) -> tuple[bytes, ...]:
    if answer is None:
        return ()
    return (
        b',"response_format":{"type":"json_schema","json_schema":{"name":',
        json_text(answer.name),
        b',"strict":true,"schema":',
        answer.schema,
        b"}}",
    )


def parse_answer(label: str, reply: Reply) -> VisionAnswer:
    """Raises ContentBlockedError if the filter stopped the answer, ProviderServerError if it can't be parsed."""
    usage = _usage(reply.data.get("usage"))
    choices = reply.data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ProviderServerError(
            f"{label} gave an answer without a message.", usage=usage, limits=reply.limits
        )
    finish = choice.get("finish_reason")
    if finish == "content_filter":
        raise ContentBlockedError(
            f"The content filter of {label} stopped the answer.", usage=usage, limits=reply.limits
        )
    stop = StopReason.LENGTH if finish == "length" else StopReason.DONE
    if message.get("refusal"):
        stop = StopReason.REFUSAL
    return VisionAnswer(_text(message.get("content")), stop, usage, reply.limits)


def _text(content: object) -> str:
    """Some compatible servers answer in parts."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _usage(given: object) -> TokenUsage:
    if not isinstance(given, dict):
        return TokenUsage()
    return TokenUsage(token_count(given.get("prompt_tokens")), token_count(given.get("completion_tokens")))


def _limits(headers: Mapping[str, str], _now: float) -> SeenLimits:
    return openai_limits(headers)
