"""The batch interfaces of both protocols: requests are handed in as one, answered together, and collected later.

OpenAI: `/files`, `/batches`, `/files/{id}/content`. Anthropic: `/messages/batches` and `…/{id}/results`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from quire.clock import Clock
from quire.simulator.anthropic_wire import AnthropicWire
from quire.simulator.openai_wire import OpenAIWire
from quire.simulator.wire import Wire, packed

_MOST_BATCHES = 1_000
_LISTED = 100

AnswerOne = Callable[[Wire, Mapping[str, Any]], tuple[int, bytes]]


@dataclass(slots=True)
class SimulatedBatch:
    """A batch, with its requests as (custom id, body)."""

    id: str
    wire: Wire
    created_at: float
    requests: list[tuple[str, Mapping[str, Any]]]
    metadata: Mapping[str, Any]
    answers: list[tuple[str, int, Any]] = field(default_factory=list)


class BatchDesk:
    """`answer_one` answers a single request at once. A batch ends `seconds` after it was handed in."""

    def __init__(self, answer_one: AnswerOne, clock: Clock) -> None:
        self._answer_one = answer_one
        self._clock = clock
        self._files: dict[str, bytes] = {}
        self._batches: dict[str, SimulatedBatch] = {}
        self.seconds = 0.0

    def stats(self) -> dict[str, int]:
        batches = self._batches.values()
        return {"submitted": len(batches), "requests": sum(len(one.requests) for one in batches)}

    async def handle(self, request: web.BaseRequest, path: str) -> tuple[int, bytes] | None:
        """Returns the answer; None if the path is none of the batch interfaces."""
        parts = path.strip("/").split("/")
        if parts[-1] == "files" and request.method == "POST":
            return await self._upload(request)
        if len(parts) > 2 and parts[-3] == "files" and parts[-1] == "content":
            return self._content(parts[-2])
        if "batches" not in parts:
            return None
        place = parts.index("batches")
        of_anthropic = place > 0 and parts[place - 1] == "messages"
        rest = parts[place + 1 :]
        if not rest:
            return await self._collection(request, of_anthropic=of_anthropic)
        return self._one(request, rest)

    def _one(self, request: web.BaseRequest, rest: list[str]) -> tuple[int, bytes]:
        found = self._batches.get(rest[0])
        if found is None:
            return _missing()
        if isinstance(found.wire, AnthropicWire) and rest[1:] == ["results"]:
            return 200, b"\n".join(map(packed, map(_anthropic_line, self._answered(found))))
        return 200, packed(self._shown(found, str(request.url.origin())))

    async def _upload(self, request: web.BaseRequest) -> tuple[int, bytes]:
        form = await request.post()
        file = form.get("file")
        if not isinstance(file, web.FileField) or form.get("purpose") != "batch":
            return 400, packed({"error": {"message": "A file and the purpose batch are needed."}})
        name = f"file-sim{len(self._files) + 1}"
        self._files[name] = file.file.read()
        return 200, packed(
            {"id": name, "object": "file", "bytes": len(self._files[name]), "purpose": "batch"}
        )

    def _content(self, name: str) -> tuple[int, bytes]:
        batch = self._batches.get(name.removeprefix("file-out-"))
        if batch is None:
            return _missing()
        return 200, b"\n".join(map(packed, map(_openai_line, self._answered(batch))))

    async def _collection(self, request: web.BaseRequest, *, of_anthropic: bool) -> tuple[int, bytes]:
        if request.method == "POST":
            batch = await self._new(request, of_anthropic=of_anthropic)
            if batch is None:
                return 400, packed({"error": {"type": "invalid_request_error", "message": "No such file."}})
            return 200, packed(self._shown(batch, str(request.url.origin())))
        wire = AnthropicWire if of_anthropic else OpenAIWire
        origin = str(request.url.origin())
        newest = [self._shown(one, origin) for one in self._batches.values() if isinstance(one.wire, wire)]
        newest.reverse()
        after = request.query.get("after_id" if of_anthropic else "after")
        if after:
            newest = newest[[one["id"] for one in newest].index(after) + 1 :]
        page = newest[:_LISTED]
        shown = {"object": "list", "data": page, "has_more": len(newest) > _LISTED}
        return 200, packed(shown | {"last_id": page[-1]["id"] if page else None})

    async def _new(self, request: web.BaseRequest, *, of_anthropic: bool) -> SimulatedBatch | None:
        data = json.loads(await request.read())
        if of_anthropic:
            requests = [(one["custom_id"], one["params"]) for one in data["requests"]]
            wire: Wire = AnthropicWire()
        else:
            content = self._files.get(data.get("input_file_id"))
            if content is None or data.get("endpoint") != "/v1/chat/completions":
                return None
            lines = [json.loads(line) for line in content.splitlines() if line.strip()]
            requests = [(one["custom_id"], one["body"]) for one in lines]
            wire = OpenAIWire()
        name = f"{'msgbatch' if of_anthropic else 'batch'}_sim{len(self._batches) + 1}"
        batch = SimulatedBatch(name, wire, self._clock.now(), requests, data.get("metadata") or {})
        if len(self._batches) < _MOST_BATCHES:
            self._batches[name] = batch
        return batch

    def _is_ended(self, batch: SimulatedBatch) -> bool:
        return self._clock.now() >= batch.created_at + self.seconds

    def _answered(self, batch: SimulatedBatch) -> list[tuple[str, int, Any]]:
        if not batch.answers:
            for custom_id, body in batch.requests:
                status, answer = self._answer_one(batch.wire, body)
                batch.answers.append((custom_id, status, json.loads(answer)))
        return batch.answers

    def _shown(self, batch: SimulatedBatch, origin: str) -> dict[str, Any]:
        ended, count = self._is_ended(batch), len(batch.requests)
        if isinstance(batch.wire, AnthropicWire):
            counts = {"processing": 0 if ended else count, "succeeded": count if ended else 0}
            results = f"{origin}/v1/messages/batches/{batch.id}/results"
            return {
                "id": batch.id,
                "type": "message_batch",
                "processing_status": "ended" if ended else "in_progress",
                "request_counts": counts | {"errored": 0, "canceled": 0, "expired": 0},
                "created_at": datetime.fromtimestamp(batch.created_at, UTC).isoformat(),
                "results_url": results if ended else None,
            }
        return {
            "id": batch.id,
            "object": "batch",
            "status": "completed" if ended else "in_progress",
            "created_at": int(batch.created_at),
            "output_file_id": f"file-out-{batch.id}" if ended else None,
            "error_file_id": None,
            "metadata": batch.metadata,
            "request_counts": {"total": count, "completed": count if ended else 0, "failed": 0},
        }


def _openai_line(answer: tuple[str, int, Any]) -> dict[str, Any]:
    custom_id, status, body = answer
    return {"custom_id": custom_id, "response": {"status_code": status, "body": body}, "error": None}


def _anthropic_line(answer: tuple[str, int, Any]) -> dict[str, Any]:
    custom_id, status, body = answer
    result = {"type": "succeeded", "message": body} if status == 200 else {"type": "errored", "error": body}
    return {"custom_id": custom_id, "result": result}


def _missing() -> tuple[int, bytes]:
    return 404, packed({"error": {"type": "not_found_error", "message": "There is no such batch or file."}})
