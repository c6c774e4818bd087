"""Reuse of pages: a new version of a document takes the readings of pages that are equal in the version before.

The split compares the fingerprints of both files and stores a plan beside the job, in pieces of some hundred pages;
each chunk of pages follows its piece. A split that is repeated stores the same pieces again.
What goes wrong with the version before (it is gone, damaged, encrypted) costs the reuse, never the document.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from quire import __version__
from quire.domain.element import Element, PageElements
from quire.domain.element_codec import decode, encode
from quire.domain.job import JobStatus, MainJob, PageRecord
from quire.domain.page import Grade, PageSource
from quire.errors import MissingError, PlaneError, QuireError
from quire.pipeline.object_keys import job_prefix, local_document
from quire.pipeline.parts import Parts
from quire.pipeline.stages.merge_stage import page_contents, text_runs, unpack_pages
from quire.pipeline.upkeep.record_archive import RecordArchive
from quire.reading.pdf.content_fingerprints import content_fingerprints, text_keys
from quire.reading.pdf.page_fingerprints import page_fingerprints

_LOG = logging.getLogger(__name__)
_PDF = "application/pdf"
_NOT_READING = frozenset({"pages", "timeout_seconds", "version_of"})
_RUN_BYTES = 4 << 20
_DRAWN_AT_ONCE = 8
_PIECE_PAGES = 256
"""Each chunk of pages reads its piece of the plan, so a plan in one piece would be read thousands of times."""


@dataclass(frozen=True, slots=True)
class PlannedPage:
    """A page whose content is that of an earlier page. `record` is the earlier page's, with its number."""

    number: int
    job_id: str
    record: PageRecord


@dataclass(frozen=True, slots=True)
class ReusedPage:
    """A page as the version before has it, with its own number in it."""

    planned: PlannedPage
    text: bytes
    elements: bytes


def reading_identity(parts: Parts, job: MainJob) -> str:
    """Equal for jobs that read equal pages alike: the version of Quire, the options, the prompt and the settings."""
    settings, options = parts.settings, job.options.identity()
    return parts.sealer.fingerprint(
        *("reading", __version__, parts.sealer.unseal(job.id, job.sealed).prompt),
        {name: value for name, value in options.items() if name not in _NOT_READING},
        *(settings.reading.effort, settings.reading.strip_running_headers, settings.reading.join_hyphens),
        *(asdict(settings.page_class), asdict(settings.ocr)),
    )[:32]


async def plan_reuse(parts: Parts, job: MainJob, path: str, mime: str, identity: str) -> None:
    """Stores which pages of the document at `path` can be taken from the version before, if there is one."""
    if not job.options.version_of or mime != _PDF:
        return
    earlier = await RecordArchive(parts.jobs, parts.objects).job(job.options.version_of)
    if (
        earlier is None
        or earlier.team != job.team
        or earlier.info.get("reading") != identity
        or not earlier.result
    ):
        return
    try:
        records = unpack_pages(await parts.objects.get(earlier.result["pages_key"]))
        plan = await _matched(parts, path, earlier, records)
    except PlaneError:
        raise
    except QuireError as error:
        _LOG.info("no pages of the version before", extra={"job_id": job.id, "code": error.code})
        return
    pieces: dict[int, dict[int, dict[str, Any]]] = {}
    for number, record in plan.items():
        pieces.setdefault(_piece(number), {})[number] = {"n": record.number, **record.packed()}
    for piece, pages in pieces.items():
        stored = json.dumps({"job": earlier.id, "pages": pages}, separators=(",", ":"))
        await parts.objects.put(_plan_key(job.id, piece), stored.encode())


async def _matched(
    parts: Parts, path: str, earlier: MainJob, records: dict[int, PageRecord]
) -> dict[int, PageRecord]:
    timeout_s = parts.settings.reading.page_timeout_s * 3
    async with AsyncExitStack() as stack:
        old_path = await stack.enter_async_context(local_document(parts.objects, earlier.content_ref or ""))
        old = await parts.pool.run(page_fingerprints, str(old_path), timeout_s=timeout_s)
        new = await parts.pool.run(page_fingerprints, path, timeout_s=timeout_s)
        usable = [number for number in range(1, len(old) + 1) if _is_reusable(records.get(number))]
        found = _pairs({number: old[number - 1] for number in usable}, dict(enumerate(new, 1)))
        # A page that was read from its own text is read again in less time than such a comparison takes.
        costly = [number for number in usable if records[number].source is not PageSource.LOCAL]
        left = [number for number in range(1, len(new) + 1) if number not in found]
        found |= await _equal_contents(parts, (str(old_path), costly), (path, left), timeout_s)
    return {number: records[there] for number, there in found.items()}


def _pairs(old: Mapping[int, str], new: Mapping[int, str]) -> dict[int, int]:
    """For each new page that has the fingerprint of an old one the number of that; its own number comes first."""
    places: dict[str, list[int]] = {}
    for number, fingerprint in old.items():
        if fingerprint:
            places.setdefault(fingerprint, []).append(number)
    return {
        number: number if number in places[fingerprint] else places[fingerprint][0]
        for number, fingerprint in new.items()
        if fingerprint in places
    }


async def _equal_contents(
    parts: Parts, old: tuple[str, Sequence[int]], new: tuple[str, Sequence[int]], timeout_s: float
) -> dict[int, int]:
    """The pairs of pages that show the same in files that were written otherwise; none if that can't be found out.

    Only pages that have the same size and words as one of the other file are drawn and compared.
    """
    if not old[1] or not new[1]:
        return {}
    try:
        keys = [await parts.pool.run(text_keys, path, timeout_s=timeout_s) for path, _ in (old, new)]
        alike = {keys[0][number - 1] for number in old[1]} & {keys[1][number - 1] for number in new[1]} - {""}
        drawn: list[dict[int, str]] = []
        for (path, numbers), known in zip((old, new), keys, strict=True):
            wanted = [number for number in numbers if known[number - 1] in alike]
            drawn.append(await _drawn_contents(parts, path, wanted, timeout_s))
    except PlaneError:
        raise
    except QuireError as error:
        _LOG.info("contents of pages not compared", extra={"code": error.code})
        return {}
    return _pairs(*drawn)


async def _drawn_contents(
    parts: Parts, path: str, numbers: Sequence[int], timeout_s: float
) -> dict[int, str]:
    found: dict[int, str] = {}
    for at in range(0, len(numbers), _DRAWN_AT_ONCE):
        some = numbers[at : at + _DRAWN_AT_ONCE]
        made = await parts.pool.run(content_fingerprints, path, some, timeout_s=timeout_s)
        found.update(zip(some, made, strict=True))
    return found


def _is_reusable(record: PageRecord | None) -> bool:
    """Whether the page was read by its best reader, and not badly."""
    return (
        record is not None
        and not record.could_be_better
        and record.ref is not None
        and record.words > 0
        and record.grade in (Grade.GOOD, Grade.FAIR)
    )


async def planned_pages(parts: Parts, job: MainJob, numbers: Sequence[int]) -> list[PlannedPage]:
    """Those of the pages that the plan of the job has; none without a plan."""
    if not job.options.version_of:
        return []
    found: list[PlannedPage] = []
    for piece, some in groupby(numbers, _piece):
        try:
            plan = json.loads(await parts.objects.get(_plan_key(job.id, piece)))
        except MissingError:
            continue
        for number in some:
            packed = plan["pages"].get(str(number))
            if packed is not None:
                record = PageRecord.unpack(packed["n"], packed)
                found.append(PlannedPage(number, plan["job"], record))
    return found


async def reused_pages(parts: Parts, planned: Sequence[PlannedPage]) -> list[ReusedPage]:
    """The texts and elements of the planned pages; none if the version before was read again or deleted meanwhile."""
    by_place = {(one.record.offset, one.record.number): one for one in planned}
    ordered = [by_place[place] for place in sorted(by_place)]
    contents: dict[int, tuple[bytes, bytes]] = {}
    try:
        for run in text_runs([one.record for one in ordered], _RUN_BYTES):
            for record, content in zip(run, await page_contents(parts.objects, run), strict=True):
                contents[record.number] = content
        return [
            ReusedPage(one, text, renumbered(elements, one.number))
            for one in planned
            for text, elements in [contents[one.record.number]]
        ]
    except PlaneError:
        raise
    except QuireError:  # gone, or damaged
        return []


def renumbered(packed: bytes, number: int) -> bytes:
    """The elements of a page as those of the page with this number."""
    if not packed:
        return b""
    page = decode(packed)
    if page.number == number:
        return packed
    old, new = f"p{page.number}-", f"p{number}-"
    elements = tuple(_renamed(element, old, new) for element in page.elements)
    return encode(PageElements(number, elements, page.reader, page.width, page.height, page.turns))


def _renamed(element: Element, old: str, new: str) -> Element:
    parent = element.parent
    return replace(
        element,
        id=new + element.id.removeprefix(old),
        parent=new + parent.removeprefix(old) if parent else parent,
    )


def reused_record(page: ReusedPage, key: str, at: int, attempts: int, now: float) -> PageRecord:
    """The record of a reused page, whose text is at `at` of the object `key`, before its elements."""
    return replace(
        page.planned.record,
        number=page.planned.number,
        status=JobStatus.COMPLETED,
        attempts=attempts,
        tokens_in=0,
        tokens_out=0,
        cost_usd=0.0,
        started_at=now,
        completed_at=now,
        ref=key,
        offset=at,
        length=len(page.text),
        elements_offset=at + len(page.text) if page.elements else 0,
        elements_length=len(page.elements),
        reused_from=f"{page.planned.job_id}-p{page.planned.record.number}",
    )


def _piece(number: int) -> int:
    """The piece of the plan that a page is in."""
    return (number - 1) // _PIECE_PAGES


def _plan_key(job_id: str, piece: int) -> str:
    return f"{job_prefix(job_id)}reuse-{piece}.json"
