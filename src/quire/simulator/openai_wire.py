"""OpenAI's protocol: chat completions, embeddings, models, errors and headers as the real service sends them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

from quire.simulator.rate_budgets import Budget, Budgets
from quire.simulator.scenario import Fault
from quire.simulator.simulated_answers import ModelRequest, Written
from quire.simulator.wire import Moment, packed, schema_at, texts_and_image

_DEFAULT_MAX_TOKENS = 16_384
_DEFAULT_DIMENSIONS = 256
_MOST_DIMENSIONS = 4_096

_ERRORS = {
    Fault.RATE_LIMIT: (429, "Rate limit reached for {model}.", "requests", "rate_limit_exceeded"),
    Fault.QUOTA: (429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"),
    Fault.SERVER_ERROR: (500, "The server had an error while processing your request.", "server_error", None),
    Fault.OVERLOADED: (
        503,
        "The engine is currently overloaded, please try again later.",
        "service_unavailable_error",
        "server_is_overloaded",
    ),
    Fault.AUTH: (401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    Fault.REJECTED: (400, "Invalid request for {model}.", "invalid_request_error", "invalid_value"),
    Fault.CONTENT_FILTER_ERROR: (
        400,
        "The response was filtered due to the prompt triggering the content management policy.",
        None,
        "content_filter",
    ),
}


class OpenAIWire:
    image_tokens = 1_105

    def parse_request(self, data: dict[str, Any]) -> ModelRequest | None:
        model, messages = data.get("model"), data.get("messages")
        if not isinstance(model, str) or not isinstance(messages, list) or not messages:
            return None
        instructions, text, image = "", "", ""
        for message in messages:
            if not isinstance(message, dict):
                return None
            said, shown = texts_and_image(message.get("content"), _image)
            if message.get("role") in {"system", "developer"}:
                instructions = said
            else:
                text, image = said, shown
        limit = data.get("max_completion_tokens") or data.get("max_tokens")
        return ModelRequest(
            model,
            instructions,
            text,
            image,
            limit if isinstance(limit, int) else _DEFAULT_MAX_TOKENS,
            schema=schema_at(data, "response_format", "json_schema", "schema"),
        )

    def answer(self, request: ModelRequest, written: Written, number: int) -> bytes:
        finish = "content_filter" if written.filtered else "length" if written.cut else "stop"
        return packed(
            {
                "id": f"chatcmpl-sim{number}",
                "object": "chat.completion",
                "created": 1_700_000_000 + number,
                "model": request.model,
                "choices": [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": None if written.refused else written.text,
                            "refusal": "I can't help with that." if written.refused else None,
                            "annotations": [],
                        },
                        "logprobs": None,
                        "finish_reason": finish,
                    }
                ],
                "usage": {
                    "prompt_tokens": written.tokens_in,
                    "completion_tokens": written.tokens_out,
                    "total_tokens": written.tokens_in + written.tokens_out,
                },
                "system_fingerprint": "fp_simulator",
            }
        )

    def error(self, fault: Fault, model: str, status: int | None) -> tuple[int, bytes]:
        usual, message, kind, code = _ERRORS[fault]
        if fault is Fault.REJECTED and status == 404:
            code = "model_not_found"
        error = {"message": message.format(model=model), "type": kind, "param": None, "code": code}
        return status or usual, packed({"error": error})

    def headers(self, budgets: Budgets, moment: Moment, number: int) -> dict[str, str]:
        found = {
            "x-request-id": f"req_sim{number}",
            "openai-version": "2020-10-01",
            "openai-processing-ms": "1",
        }
        for name, budget in (("requests", budgets.requests), ("tokens", budgets.tokens)):
            if budget is not None:
                _add(found, name, budget, moment.at_s)
        return found


def models_page(models: list[str]) -> bytes:
    listed = [
        {"id": one, "object": "model", "created": 1_700_000_000, "owned_by": "simulator"} for one in models
    ]
    return packed({"object": "list", "data": listed})


@dataclass(frozen=True, slots=True)
class EmbeddingRequest(ModelRequest):
    texts: tuple[str, ...]
    dimensions: int


class EmbeddingsWire(OpenAIWire):
    """A vector of length 1 for each text, the same for the same text."""

    def parse_request(self, data: dict[str, Any]) -> EmbeddingRequest | None:
        model, given = data.get("model"), data.get("input")
        texts = [given] if isinstance(given, str) else given
        dimensions = data.get("dimensions", _DEFAULT_DIMENSIONS)
        if not isinstance(model, str) or not isinstance(texts, list) or not isinstance(dimensions, int):
            return None
        if not all(isinstance(text, str) for text in texts) or not 1 <= dimensions <= _MOST_DIMENSIONS:
            return None
        return EmbeddingRequest(model, "", "".join(texts), "", 0, tuple(texts), dimensions)

    def answer(self, request: ModelRequest, written: Written, number: int) -> bytes:
        if not isinstance(request, EmbeddingRequest):
            raise TypeError("not a request for vectors")
        rows = [
            {"object": "embedding", "index": index, "embedding": _vector(text, request.dimensions)}
            for index, text in enumerate(request.texts)
        ]
        usage = {"prompt_tokens": written.tokens_in, "total_tokens": written.tokens_in}
        return packed({"object": "list", "data": rows, "model": request.model, "usage": usage})


def _vector(text: str, dimensions: int) -> list[float]:
    chance = random.Random(text)  # noqa: S311 - not a secret, and the same text must give the same vector
    numbers = [chance.gauss(0, 1) for _ in range(dimensions)]
    length = math.hypot(*numbers)
    return [round(number / length, 6) for number in numbers]


def _image(part: dict[str, Any]) -> str:
    """The base64 text of a picture's data URL."""
    found = part.get("image_url")
    url = found.get("url") if isinstance(found, dict) else found
    return url.partition(";base64,")[2] if isinstance(url, str) else ""


def _add(headers: dict[str, str], name: str, budget: Budget, at_s: float) -> None:
    headers[f"x-ratelimit-limit-{name}"] = str(budget.limit)
    headers[f"x-ratelimit-remaining-{name}"] = str(budget.left(at_s))
    headers[f"x-ratelimit-reset-{name}"] = _duration(budget.reset_s(at_s))


def _duration(seconds: float) -> str:
    """As Go writes it: `120ms`, `7.66s`, `6m0s`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{round(rest, 3):g}s" if minutes else f"{round(rest, 3):g}s"
