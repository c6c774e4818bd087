"""Anthropic's protocol: messages, errors and headers as the real service sends them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from quire.simulator.rate_budgets import Budgets
from quire.simulator.scenario import Fault
from quire.simulator.simulated_answers import ModelRequest, Written
from quire.simulator.wire import Moment, packed, schema_at, texts_and_image

_ERRORS = {
    Fault.RATE_LIMIT: (429, "rate_limit_error", "This request would exceed your rate limit."),
    Fault.QUOTA: (402, "billing_error", "Your credit balance is too low to access the Anthropic API."),
    Fault.SERVER_ERROR: (500, "api_error", "Internal server error"),
    Fault.OVERLOADED: (529, "overloaded_error", "Overloaded"),
    Fault.AUTH: (401, "authentication_error", "invalid x-api-key"),
    Fault.REJECTED: (400, "invalid_request_error", "Invalid request for {model}."),
    # It has no code of its own: the real service also sends it like any other rejected request.
    Fault.CONTENT_FILTER_ERROR: (400, "invalid_request_error", "Output blocked by content filtering policy"),
}
_TYPES_BY_STATUS = {403: "permission_error", 404: "not_found_error", 413: "request_too_large"}


class AnthropicWire:
    image_tokens = 1_568

    def parse_request(self, data: dict[str, Any]) -> ModelRequest | None:
        model, messages, limit = data.get("model"), data.get("messages"), data.get("max_tokens")
        if not isinstance(model, str) or not isinstance(messages, list) or not isinstance(limit, int):
            return None
        if not messages or not isinstance(messages[-1], dict):
            return None
        instructions, _ = texts_and_image(data.get("system", ""), _image)
        text, image = texts_and_image(messages[-1].get("content"), _image)
        schema = schema_at(data, "output_config", "format", "schema")
        return ModelRequest(model, instructions, text, image, limit, schema=schema)

    def answer(self, request: ModelRequest, written: Written, number: int) -> bytes:
        refused = written.refused or written.filtered
        return packed(
            {
                "id": f"msg_sim{number}",
                "type": "message",
                "role": "assistant",
                "model": request.model,
                "content": [{"type": "text", "text": written.text}] if written.text else [],
                "stop_reason": "refusal" if refused else "max_tokens" if written.cut else "end_turn",
                "stop_sequence": None,
                "usage": {
                    "input_tokens": written.tokens_in,
                    "cache_creation_input_tokens": 0,
                    "cache_read_input_tokens": 0,
                    "output_tokens": written.tokens_out,
                    "service_tier": "standard",
                },
            }
        )

    def error(self, fault: Fault, model: str, status: int | None) -> tuple[int, bytes]:
        usual, kind, message = _ERRORS[fault]
        if fault is Fault.REJECTED:
            kind = _TYPES_BY_STATUS.get(status or usual, kind)
        error = {"type": kind, "message": message.format(model=model)}
        return status or usual, packed({"type": "error", "error": error, "request_id": "req_sim"})

    def headers(self, budgets: Budgets, moment: Moment, number: int) -> dict[str, str]:
        found = {"request-id": f"req_sim{number}", "anthropic-organization-id": "simulator"}
        for name, budget in (("requests", budgets.requests), ("tokens", budgets.tokens)):
            if budget is not None:
                prefix = f"anthropic-ratelimit-{name}"
                found[f"{prefix}-limit"] = str(budget.limit)
                found[f"{prefix}-remaining"] = str(budget.left(moment.at_s))
                found[f"{prefix}-reset"] = _time(moment.epoch_s + budget.reset_s(moment.at_s))
        return found


def models_page(models: list[str]) -> bytes:
    listed = [
        {"id": one, "type": "model", "display_name": one, "created_at": "2024-01-01T00:00:00Z"}
        for one in models
    ]
    return packed({"data": listed, "has_more": False, "first_id": None, "last_id": None})


def _image(part: dict[str, Any]) -> str:
    source = part.get("source")
    data = source.get("data") if isinstance(source, dict) else None
    return data if isinstance(data, str) else ""


def _time(epoch_s: float) -> str:
    """To the full second, upwards, as the real headers have it."""
    return datetime.fromtimestamp(math.ceil(epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
