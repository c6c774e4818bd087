"""What both protocols share: the outgoing answer, request parsing, JSON encoding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from quire.simulator.rate_budgets import Budgets
from quire.simulator.scenario import Fault
from quire.simulator.simulated_answers import ModelRequest, Written


@dataclass(frozen=True, slots=True)
class Outgoing:
    status: int
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Moment:
    """When a call is answered: by the simulator's own clock, and as seconds since the epoch."""

    at_s: float
    epoch_s: float


class Wire(Protocol):
    """One provider's protocol."""

    image_tokens: int

    def parse_request(self, data: dict[str, Any]) -> ModelRequest | None:
        """None where the request is not one of this protocol."""
        ...

    def answer(self, request: ModelRequest, written: Written, number: int) -> bytes: ...

    def error(self, fault: Fault, model: str, status: int | None) -> tuple[int, bytes]: ...

    def headers(self, budgets: Budgets, moment: Moment, number: int) -> dict[str, str]: ...


def packed(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def schema_at(data: dict[str, Any], *path: str) -> dict[str, Any] | None:
    """The JSON Schema that an answer is held to, from where the protocol has it; None if there is none."""
    found: Any = data
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def texts_and_image(content: object, image_of: Any) -> tuple[str, str]:
    """The texts and the last picture of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content, ""
    texts, image = [], ""
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            image = image_of(part) or image
    return "\n".join(texts), image
