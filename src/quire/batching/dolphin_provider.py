"""The dispatcher's provider `dolphin`: reads one page image through the batcher and returns it as Markdown."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from quire.batching.batcher import Batcher
from quire.batching.parse_errors import BackendUnavailableError, ResponseTimeoutError
from quire.batching.parse_intake import ParseSubmission
from quire.batching.waiting_callers import Failed
from quire.coordination.parse_requests import Priority
from quire.errors import CoordinationError, ObjectsError, OverloadedError, PageError, RequestError
from quire.providers import configured_providers
from quire.providers.provider_protocol import (
    ProviderError,
    ProviderRateLimitedError,
    ProviderServerError,
    ProviderTimeoutError,
    RejectedError,
    StopReason,
    TokenUsage,
    VisionAnswer,
    VisionRequest,
)

_HEADINGS = {"title": "# ", "sec": "## ", "sec_0": "## ", "sec_1": "## ", "sub_sec": "### ", "sec_2": "### "}
_SKIPPED = frozenset({"header", "foot", "footer", "page_number", "fnote_mark"})
_VERBATIM = frozenset({"code", "formula", "equation", "equ"})
_BULLET = re.compile(r"^(?:[*•◦▪‣·–—»]|-)\s+")
_NUMBER = re.compile(r"^\(?(\d{1,3})[.)]\s+")


@dataclass(frozen=True, slots=True)
class PageRead:
    markdown: str
    elements: tuple[dict[str, Any], ...]
    batch_id: str
    seconds: float


async def read_page(
    batcher: Batcher,
    image: bytes,
    *,
    team: str,
    filename: str,
    key: str,
    priority: Priority = Priority.NORMAL,
    max_waiting: int = 10_000,
) -> PageRead:
    """Returns the page, read as part of the next batch.

    `key` names the attempt, so that a worker that takes over the page gets the same result and it is computed once.
    Raises RequestError if the bytes are not an image, PageError if the backend could not read it, OverloadedError if
    the queue is full or the backend unavailable, ResponseTimeoutError. When cancelled, the request stays in the queue
    and can be resumed with the key.
    """
    body = await batcher.reception.check_bytes(image)
    ticket = await batcher.submit(ParseSubmission(team, filename, priority, key, max_waiting, body))
    settled = await batcher.result(ticket)
    if settled is None or isinstance(settled, Failed):
        shown = settled.error if settled is not None else {}
        raise PageError(
            str(shown.get("error", "The page was not read.")), retryable=bool(shown.get("retryable", True))
        )
    found = json.loads(b"{" + settled.fragment + b"}")
    elements = tuple(found["results"])
    return PageRead(markdown_of(elements), elements, found["metadata"]["batch_id"], settled.seconds)


def markdown_of(elements: Iterable[dict[str, Any]]) -> str:
    """Returns the elements in reading order as Markdown, without running headers and footers."""
    blocks = [_block(one) for one in sorted(elements, key=lambda one: int(one["reading_order"]))]
    return "\n\n".join(block for block in blocks if block)


def _block(element: dict[str, Any]) -> str:
    label, text = str(element["label"]).lower(), str(element["text"]).strip()
    if label in ("figure", "fig"):
        return f"![{_line(text) or 'figure'}](#)"
    if not text or label in _SKIPPED:
        return ""
    if label in _HEADINGS:
        return _HEADINGS[label] + _line(text)
    if label == "list":
        return "\n".join(_item(line) for line in text.splitlines() if line.strip())
    if label in ("table", "tab"):
        return _table(_html_rows(text) if "<t" in text.lower() else _plain_rows(text))
    return text if label in _VERBATIM else _escaped(text)


def _item(line: str) -> str:
    line = line.strip()
    number = _NUMBER.match(line)
    if number:
        return f"{number.group(1)}. {_escaped(line[number.end() :])}"
    return f"- {_escaped(_BULLET.sub('', line))}"


def _line(text: str) -> str:
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    """Escapes HTML, and the characters that would start a heading or a quotation."""
    plain = text.replace("<", "&lt;")
    return re.sub(r"^(\s*)(#{1,6} |> )", r"\1\\\2", plain, flags=re.MULTILINE)


def _plain_rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.strip()]


def _html_rows(text: str) -> list[list[str]]:
    reader = _TableReader()
    reader.feed(text)
    reader.close()
    return [row for row in reader.rows if row]


def _table(rows: list[list[str]]) -> str:
    if not rows:
        return ""
    width = max(len(row) for row in rows)
    cells = [[_line(cell).replace("|", "\\|") for cell in row] + [""] * (width - len(row)) for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


class _TableReader(HTMLParser):
    """Collects the cells of an HTML table; some backends return tables as HTML."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[str]] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            if not self.rows:
                self.rows.append([])
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data


_DPI = 150


class DolphinProvider:
    """Costs no tokens. The batcher's queue, slots and breaker apply in addition to those of the dispatcher."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher

    @property
    def name(self) -> str:
        return configured_providers.DOLPHIN

    async def open(self) -> None:
        """Does nothing: the batcher is already running."""

    async def read(self, request: VisionRequest) -> VisionAnswer:
        failure: ProviderError
        try:
            async with asyncio.timeout(request.timeout_s):
                image = await request.redraw(_DPI) if request.redraw is not None else request.image
                page = await read_page(
                    self._batcher, image, team=request.team, filename="page.jpg", key=request.attempt
                )
            return VisionAnswer(page.markdown, StopReason.DONE, TokenUsage())
        except (TimeoutError, ResponseTimeoutError):
            failure = ProviderTimeoutError(
                f"The batch backend gave no answer within {request.timeout_s:g} s."
            )
        except BackendUnavailableError as error:
            failure = ProviderServerError(error.public, retry_after_s=error.retry_after_s)
        except OverloadedError as error:
            failure = ProviderRateLimitedError(error.public, retry_after_s=error.retry_after_s)
        except (CoordinationError, ObjectsError) as error:
            failure = ProviderServerError(error.public)
        except PageError as error:
            if not error.retryable:
                # Only this image can't be read; the backend works.
                return VisionAnswer("", StopReason.DONE, TokenUsage())
            failure = ProviderServerError(error.public)
        except RequestError as error:
            failure = RejectedError(error.public)
        raise failure

    async def check(self, model: str) -> None:
        """Raises ProviderServerError if the backend does not respond."""
        if not (await self._batcher.condition()).backend_reachable:
            raise ProviderServerError(f"The batch backend ({model}) can't be reached.")

    async def models(self) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        """Does nothing: the runtime closes the batcher."""
