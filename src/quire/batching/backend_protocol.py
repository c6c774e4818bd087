"""What a batch backend is to the batcher, and how its answers are read: by the id in the file name, never by place."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quire.batching.parse_errors import BackendFailedError

_SENT_NAME = re.compile(r"req_([0-9a-f]{16})_idx_\d+_")
_LONGEST_NAME = 120
_UNSAFE = re.compile(r"[^\w.() -]+")
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class SentImage:
    request_id: str
    filename: str
    data: bytes | bytearray


@dataclass(frozen=True, slots=True)
class ImageAnswer:
    """Elements as JSON, or why there are none; `final` if another attempt would not help."""

    elements: bytes = b""
    count: int = 0
    error: str = ""
    final: bool = False


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """What came back for each image; images that are not in it have no usable answer."""

    images: dict[str, ImageAnswer]
    unknown: int = 0
    repeated: int = 0
    malformed: int = 0


@dataclass(slots=True)
class Passage:
    """A batch's way to the backend. Before its turn only so much of it is sent that the backend can't begin."""

    turn: asyncio.Future[None]
    on_sent: Callable[[], None]
    is_sent: bool = False

    @classmethod
    def now(cls, on_sent: Callable[[], None] = lambda: None) -> Passage:
        """For a batch whose turn it is."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn.set_result(None)
        return cls(turn, on_sent)

    def sent(self) -> None:
        """All of it is on its way."""
        self.is_sent = True
        self.on_sent()

    async def wait(self) -> None:
        """Returns when its turn has come."""
        if not self.turn.done():
            await asyncio.shield(self.turn)  # others wait for it too


class Backend(Protocol):
    async def parse(self, images: Sequence[SentImage], passage: Passage) -> BatchAnswer:
        """Raises BackendDownError or BackendFailedError; before the batch's turn, then nothing was computed."""
        ...

    async def healthy(self) -> bool: ...

    async def close(self) -> None: ...


def sent_name(request_id: str, index: int, filename: str) -> str:
    """The name under which an image is sent: the request's id, then what is left of the caller's own name."""
    plain = _UNSAFE.sub("_", filename.replace("\\", "/").rpartition("/")[2])[-_LONGEST_NAME:]
    return f"req_{request_id}_idx_{index}_{plain or 'image'}"


def id_of(filename: object) -> str | None:
    found = _SENT_NAME.match(filename) if isinstance(filename, str) else None
    return found.group(1) if found else None


@dataclass(slots=True)
class _Reading:
    wanted: frozenset[str]
    seen: dict[str, ImageAnswer] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)
    unknown: int = 0
    repeated: int = 0
    malformed: int = 0


def read_answer(raw: bytes, wanted: frozenset[str]) -> BatchAnswer:
    """Whatever of the answer can be used. Raises BackendFailedError where nothing of it makes sense."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise BackendFailedError("the answer is not JSON") from None
    results = found.get("results") if isinstance(found, dict) else None
    if not isinstance(results, list):
        raise BackendFailedError("the answer has no results")
    reading = _Reading(wanted)
    for result in results:
        _read_result(reading, result)
    images = {name: answer for name, answer in reading.seen.items() if name not in reading.contradicted}
    return BatchAnswer(images, reading.unknown, reading.repeated, reading.malformed)


def _read_result(reading: _Reading, result: Any) -> None:
    request_id = id_of(result.get("filename")) if isinstance(result, dict) else None
    if request_id is None or request_id not in reading.wanted:
        reading.unknown += 1
        return
    answer = _image_answer(result)
    if answer is None:
        reading.malformed += 1
        return
    if request_id not in reading.seen:
        reading.seen[request_id] = answer
        return
    reading.repeated += 1
    if reading.seen[request_id] != answer:
        # Two that differ: neither can be believed.
        reading.contradicted.add(request_id)


def _image_answer(result: dict[str, Any]) -> ImageAnswer | None:
    if isinstance(result.get("error"), str):
        return ImageAnswer(error=result["error"][:200], final=result.get("retryable") is False)
    elements = _elements(result.get("elements"))
    return None if elements is None else ImageAnswer(dump(elements), len(elements))


def _elements(given: Any) -> list[dict[str, Any]] | None:
    """Elements with their four fields and nothing else; None if one of them is not what it should be."""
    if not isinstance(given, list):
        return None
    elements = []
    for order, one in enumerate(given):
        if not isinstance(one, dict):
            return None
        label, bbox, text = one.get("label"), one.get("bbox"), one.get("text", "")
        place = one.get("reading_order", order)
        if not isinstance(label, str) or not isinstance(text, str) or not isinstance(place, int):
            return None
        if not isinstance(bbox, list) or len(bbox) != 4:
            return None
        if not all(type(number) in (int, float) for number in bbox):
            return None
        elements.append({"label": label, "bbox": bbox, "text": text, "reading_order": place})
    return elements


def dump(value: Any) -> bytes:
    return _COMPACT.encode(value).encode("utf-8", "replace")
