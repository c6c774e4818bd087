"""The protocol of batch backends, and the reader of their answers: results are matched by the id in the file name."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quire.batching.parse_errors import BackendFailedError

_SENT_NAME = re.compile(r"req_([0-9a-f]{16})_idx_\d+_")
_MAX_NAME_CHARS = 120
_UNSAFE = re.compile(r"[^\w.() -]+")
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class SentImage:
    request_id: str
    filename: str
    data: bytes | bytearray


@dataclass(frozen=True, slots=True)
class ImageAnswer:
    """The elements of one image as JSON, or an error; `final` if another attempt would not help."""

    elements: bytes = b""
    count: int = 0
    error: str = ""
    final: bool = False


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The answer for each image; images that are missing in it have no usable answer."""

    images: dict[str, ImageAnswer]
    unknown: int = 0
    repeated: int = 0
    malformed: int = 0


@dataclass(slots=True)
class SendPermit:
    """Controls when a batch may be sent completely. Until it is granted, the last bytes are held back."""

    granted: asyncio.Future[None]
    on_sent: Callable[[], None]
    is_sent: bool = False

    @classmethod
    def immediate(cls, on_sent: Callable[[], None] = lambda: None) -> SendPermit:
        """Returns a permit that is already granted."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        granted.set_result(None)
        return cls(granted, on_sent)

    def mark_sent(self) -> None:
        """Called by the backend client when the last bytes are written."""
        self.is_sent = True
        self.on_sent()

    async def wait(self) -> None:
        """Returns when the permit is granted."""
        if not self.granted.done():
            await asyncio.shield(self.granted)  # other tasks await it too


class Backend(Protocol):
    async def parse(self, images: Sequence[SentImage], permit: SendPermit) -> BatchAnswer:
        """Raises BackendDownError or BackendFailedError. If the permit is not granted yet, nothing was computed."""
        ...

    async def healthy(self) -> bool:
        """Whether the backend says that it can work."""
        ...

    async def close(self) -> None: ...


def sent_name(request_id: str, index: int, filename: str) -> str:
    """Returns the file name that is sent: the request's id, then the safe part of the caller's file name."""
    plain = _UNSAFE.sub("_", filename.replace("\\", "/").rpartition("/")[2])[-_MAX_NAME_CHARS:]
    return f"req_{request_id}_idx_{index}_{plain or 'image'}"


def id_of(filename: object) -> str | None:
    """Returns the request id in a name made by `sent_name`; None for other names."""
    found = _SENT_NAME.match(filename) if isinstance(filename, str) else None
    return found.group(1) if found else None


@dataclass(slots=True)
class _AnswerReader:
    wanted: frozenset[str]
    seen: dict[str, ImageAnswer] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)
    unknown: int = 0
    repeated: int = 0
    malformed: int = 0


def read_answer(raw: bytes, wanted: frozenset[str]) -> BatchAnswer:
    """Returns all usable results of the answer. Raises BackendFailedError if it is not JSON or has no results."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise BackendFailedError("the answer is not JSON") from None
    results = found.get("results") if isinstance(found, dict) else None
    if not isinstance(results, list):
        raise BackendFailedError("the answer has no results")
    reader = _AnswerReader(wanted)
    for result in results:
        _read_result(reader, result)
    images = {name: answer for name, answer in reader.seen.items() if name not in reader.contradicted}
    return BatchAnswer(images, reader.unknown, reader.repeated, reader.malformed)


def _read_result(reader: _AnswerReader, result: Any) -> None:
    request_id = id_of(result.get("filename")) if isinstance(result, dict) else None
    if request_id is None or request_id not in reader.wanted:
        reader.unknown += 1
        return
    answer = _image_answer(result)
    if answer is None:
        reader.malformed += 1
        return
    if request_id not in reader.seen:
        reader.seen[request_id] = answer
        return
    reader.repeated += 1
    if reader.seen[request_id] != answer:
        # Two different answers for one image: neither can be trusted.
        reader.contradicted.add(request_id)


def _image_answer(result: dict[str, Any]) -> ImageAnswer | None:
    if isinstance(result.get("error"), str):
        return ImageAnswer(error=result["error"][:200], final=result.get("retryable") is False)
    elements = _elements(result.get("elements"))
    return None if elements is None else ImageAnswer(dump(elements), len(elements))


def _elements(given: Any) -> list[dict[str, Any]] | None:
    """Returns the elements, each with its four fields only; None if one of them is malformed."""
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
