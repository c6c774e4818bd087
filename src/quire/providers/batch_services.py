"""The batch interfaces of OpenAI and Anthropic: many pages handed in as one, at half the price, answered within a day.

Neither has an idempotency key. A batch is found again by a token: OpenAI stores it as metadata, Anthropic only in the
ids of the requests, which can be read when the batch has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from quire.providers import anthropic_provider, openai_provider
from quire.providers.anthropic_provider import AnthropicProvider
from quire.providers.openai_provider import OpenAIProvider
from quire.providers.provider_protocol import (
    Provider,
    ProviderError,
    ProviderServerError,
    SeenLimits,
    VisionAnswer,
    VisionRequest,
)
from quire.providers.sdk_channel import FileForm, Reply, by_status, json_text

P = TypeVar("P", bound=OpenAIProvider | AnthropicProvider)

PRICE_SHARE = 0.5
"""What a token costs in a batch, of its usual price."""

_TIMEOUT_S = 60.0
_TRANSFER_TIMEOUT_S = 900.0
_EARLIER_S = 900.0
"""Batches are looked for from this long before their record was made: clocks differ."""
_MOST_PAGES_LISTED = 50
_TOKEN_NAME = "quire"  # noqa: S105 - no secret: it names a batch


class BatchStatus(StrEnum):
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BatchReply:
    """The answer to one request of a batch, or why there is none."""

    request_id: str
    answer: VisionAnswer | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class BatchSearch:
    """Whether a batch with a token was handed in. `is_sure` is False where only its end will tell."""

    batch_id: str = ""
    is_sure: bool = True


class BatchService(Protocol):
    """Every method may raise ProviderError. After an error of `submit` the batch may have been handed in."""

    @property
    def name(self) -> str: ...

    def encode(self, request_id: str, request: VisionRequest) -> bytes:
        """Returns the request as it is handed in."""
        ...

    async def submit(self, requests: Sequence[bytes], token: str) -> str:
        """Hands in a batch and returns its id."""
        ...

    async def find(
        self, token: str, *, since: float, count: int, others: frozenset[str] = frozenset()
    ) -> BatchSearch:
        """Looks for the batch of `count` requests with this token. `others` are batches that have another one."""
        ...

    async def status(self, batch_id: str) -> BatchStatus: ...

    async def replies(self, batch_id: str) -> list[BatchReply]:
        """Returns what has been answered of a batch that has ended."""
        ...


def batch_service(provider: Provider) -> BatchService | None:
    """Returns the batch interface of a provider; None if it has none."""
    if isinstance(provider, OpenAIProvider) and provider.has_batches:
        return OpenAIBatches(provider)
    return AnthropicBatches(provider) if isinstance(provider, AnthropicProvider) else None


class _ProviderBatches(Generic[P]):
    """The provider whose account batches are handed in to, and its connection."""

    def __init__(self, provider: P) -> None:
        self._provider = provider
        self._channel = provider.channel

    @property
    def name(self) -> str:
        return self._provider.name


class OpenAIBatches(_ProviderBatches[OpenAIProvider]):
    def encode(self, request_id: str, request: VisionRequest) -> bytes:
        head = b'{"custom_id":' + json_text(request_id)
        return (
            head
            + b',"method":"POST","url":"/v1/chat/completions","body":'
            + self._provider.body(request)
            + b"}"
        )

    async def submit(self, requests: Sequence[bytes], token: str) -> str:
        form = FileForm({"purpose": "batch"}, f"{token}.jsonl", b"\n".join(requests) + b"\n")
        file = await self._channel.exchange_json("POST", "/files", form, timeout_s=_TRANSFER_TIMEOUT_S)
        batch = {
            "input_file_id": _text(file, "id"),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {_TOKEN_NAME: token},
        }
        found = await self._channel.exchange_json(
            "POST", "/batches", json.dumps(batch).encode(), timeout_s=_TIMEOUT_S
        )
        return _text(found, "id")

    async def find(
        self, token: str, *, since: float, count: int, others: frozenset[str] = frozenset()
    ) -> BatchSearch:
        after = ""
        for _ in range(_MOST_PAGES_LISTED):
            page = await self._channel.exchange_json(
                "GET", f"/batches?limit=100{after}", timeout_s=_TIMEOUT_S
            )
            rows = _rows(page)
            for row in rows:
                metadata = row.get("metadata")
                if isinstance(metadata, dict) and metadata.get(_TOKEN_NAME) == token:
                    return BatchSearch(_text(row, "id"))
            oldest = min((_number(row.get("created_at")) for row in rows), default=0.0)
            if not page.get("has_more") or oldest < since - _EARLIER_S:
                return BatchSearch()
            after = f"&after={quote(_text(rows[-1], 'id'))}"
        return BatchSearch(is_sure=False)

    async def status(self, batch_id: str) -> BatchStatus:
        return _openai_status(await self._batch(batch_id))

    async def replies(self, batch_id: str) -> list[BatchReply]:
        batch = await self._batch(batch_id)
        found: list[BatchReply] = []
        for name in ("output_file_id", "error_file_id"):
            if isinstance(batch.get(name), str):
                path = f"/files/{quote(_text(batch, name))}/content"
                content = await self._channel.exchange("GET", path, timeout_s=_TRANSFER_TIMEOUT_S)
                found += [self._reply(line) for line in _lines(content)]
        return found

    async def _batch(self, batch_id: str) -> dict[str, Any]:
        return await self._channel.exchange_json("GET", f"/batches/{quote(batch_id)}", timeout_s=_TIMEOUT_S)

    def _reply(self, line: dict[str, Any]) -> BatchReply:
        request_id, response = str(line.get("custom_id")), line.get("response")
        if not isinstance(response, dict):
            return BatchReply(request_id, error="expired")
        body = response.get("body")
        if response.get("status_code") != 200 or not isinstance(body, dict):
            return BatchReply(request_id, error=_code(self.name, response.get("status_code"), body))
        try:
            return BatchReply(request_id, openai_provider.parse_answer(self.name, Reply(body, SeenLimits())))
        except ProviderError as error:
            return BatchReply(request_id, error=error.code)


class AnthropicBatches(_ProviderBatches[AnthropicProvider]):
    def encode(self, request_id: str, request: VisionRequest) -> bytes:
        body = anthropic_provider.request_body(request)
        return b'{"custom_id":' + json_text(request_id) + b',"params":' + body + b"}"

    async def submit(self, requests: Sequence[bytes], token: str) -> str:
        body = b'{"requests":[' + b",".join(requests) + b"]}"
        found = await self._channel.exchange_json(
            "POST", "/v1/messages/batches", body, timeout_s=_TRANSFER_TIMEOUT_S
        )
        return _text(found, "id")

    async def find(
        self, token: str, *, since: float, count: int, others: frozenset[str] = frozenset()
    ) -> BatchSearch:
        after, unsure = "", False
        for _ in range(_MOST_PAGES_LISTED):
            page = await self._channel.exchange_json(
                "GET", f"/v1/messages/batches?limit=100{after}", timeout_s=_TIMEOUT_S
            )
            rows = _rows(page)
            for row in rows:
                batch_id = _text(row, "id")
                if batch_id in others or _total(row) != count or _created(row) < since - _EARLIER_S:
                    continue
                if row.get("processing_status") != "ended":
                    unsure = True
                elif await self._has_token(row, token):
                    return BatchSearch(batch_id)
            if not page.get("has_more") or min(map(_created, rows), default=0.0) < since - _EARLIER_S:
                return BatchSearch(is_sure=not unsure)
            after = f"&after_id={quote(_text(rows[-1], 'id'))}"
        return BatchSearch(is_sure=False)

    async def status(self, batch_id: str) -> BatchStatus:
        batch = await self._batch(batch_id)
        return BatchStatus.ENDED if batch.get("processing_status") == "ended" else BatchStatus.RUNNING

    async def replies(self, batch_id: str) -> list[BatchReply]:
        return [self._reply(line) for line in await self._results(await self._batch(batch_id))]

    async def _batch(self, batch_id: str) -> dict[str, Any]:
        path = f"/v1/messages/batches/{quote(batch_id)}"
        return await self._channel.exchange_json("GET", path, timeout_s=_TIMEOUT_S)

    async def _results(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        # Only the path: the key must not be sent to another host that an answer names.
        path = urlsplit(_text(batch, "results_url")).path
        return _lines(await self._channel.exchange("GET", path, timeout_s=_TRANSFER_TIMEOUT_S))

    async def _has_token(self, batch: dict[str, Any], token: str) -> bool:
        lines = await self._results(batch)
        return any(str(line.get("custom_id")).startswith(token) for line in lines)

    def _reply(self, line: dict[str, Any]) -> BatchReply:
        request_id, result = str(line.get("custom_id")), line.get("result")
        message = result.get("message") if isinstance(result, dict) else None
        if not isinstance(result, dict) or result.get("type") != "succeeded" or not isinstance(message, dict):
            kind = result.get("type") if isinstance(result, dict) else None
            return BatchReply(request_id, error=str(kind or "expired"))
        try:
            found = anthropic_provider.parse_answer(self.name, Reply(message, SeenLimits()))
            return BatchReply(request_id, found)
        except ProviderError as error:
            return BatchReply(request_id, error=error.code)


def _openai_status(batch: dict[str, Any]) -> BatchStatus:
    """A batch that expired or was cancelled has ended: what was answered until then is paid for and collected."""
    status = batch.get("status")
    if status == "failed":
        return BatchStatus.FAILED
    return BatchStatus.ENDED if status in ("completed", "expired", "cancelled") else BatchStatus.RUNNING


def _lines(content: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file with one a line; lines that are none are left out."""
    for line in content.splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _rows(page: dict[str, Any]) -> list[dict[str, Any]]:
    rows = page.get("data")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _text(data: dict[str, Any], name: str) -> str:
    found = data.get(name)
    if not isinstance(found, str) or not found:
        raise ProviderServerError(f"The provider gave an answer without {name}.")
    return found


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _total(row: dict[str, Any]) -> int:
    counts = row.get("request_counts")
    return sum(one for one in counts.values() if isinstance(one, int)) if isinstance(counts, dict) else -1


def _created(row: dict[str, Any]) -> float:
    with suppress(TypeError, ValueError):
        return datetime.fromisoformat(str(row.get("created_at"))).timestamp()
    return 0.0


def _code(name: str, status: object, body: object) -> str:
    number = status if isinstance(status, int) else 500
    return by_status(name, number, body, headers={}, limits=SeenLimits(), now=0.0).code
