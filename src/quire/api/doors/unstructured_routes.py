"""The interface of Unstructured: documents in, a list of typed elements out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from quire.api.doors.door_answers import (
    DOOR_RESPONSES,
    DoorError,
    DoorRoute,
    LongValue,
    json_list,
    json_stream,
)
from quire.api.doors.door_intake import DoorForm, DoorIntake, check_completed
from quire.api.doors.unstructured_elements import ElementWriter
from quire.api.http.auth import Team
from quire.api.http.flag_words import is_true
from quire.api.http.services import ServicesDep
from quire.api.jobs.submission_fields import read_languages
from quire.domain.job import JobOptions
from quire.domain.text_chunk import BYTES_PER_TOKEN, LARGEST_MAX_TOKENS, SMALLEST_MAX_TOKENS, ChunkOptions
from quire.errors import RequestError
from quire.pipeline.document_elements import ElementPage
from quire.pipeline.finished_document import FinishedDocument
from quire.rendering.document_chunks import Chunker

_STRATEGIES = ("fast", "hi_res", "auto", "ocr_only", "vlm")
_CHUNKING = ("basic", "by_title", "by_page", "by_similarity")
_DEFAULT_CHARACTERS = 500
_SHORT_LANGUAGES = {
    **{
        "ar": "ara",
        "cs": "ces",
        "da": "dan",
        "de": "deu",
        "el": "ell",
        "en": "eng",
        "es": "spa",
        "fi": "fin",
    },
    **{
        "fr": "fra",
        "he": "heb",
        "hi": "hin",
        "hu": "hun",
        "it": "ita",
        "ja": "jpn",
        "ko": "kor",
        "nl": "nld",
    },
    **{
        "no": "nor",
        "pl": "pol",
        "pt": "por",
        "ro": "ron",
        "ru": "rus",
        "sv": "swe",
        "tr": "tur",
        "uk": "ukr",
    },
    **{"vi": "vie", "zh": "chi_sim"},
}


class _UnstructuredRoute(DoorRoute):
    @staticmethod
    def shaped(error: DoorError) -> Response:
        return JSONResponse({"detail": error.text}, error.status)


router = APIRouter(tags=["doors: unstructured"], route_class=_UnstructuredRoute, responses=DOOR_RESPONSES)


@dataclass(frozen=True, slots=True)
class _Options:
    job: JobOptions
    chunks: ChunkOptions | None
    coordinates: bool
    page_breaks: bool
    languages: list[str]
    first_page: int


@router.post("/general/v0/general", summary="Unstructured: partition documents", response_class=Response)
async def partition(request: Request, team: Team, services: ServicesDep) -> Response:
    """A form with `files` and options. One document gives a list of elements, several give a list of lists."""
    intake = DoorIntake(request, services, team)
    form = await intake.form()
    try:
        options = _read(form)
        for file in form.files:
            if file.refused is not None:
                raise file.refused
    except BaseException:
        await intake.discard(form.files)
        raise
    accepted = [await intake.accept(file, options.job) for file in form.files]
    jobs = await intake.ended(accepted)
    for job in jobs:
        check_completed(job)
    documents = [
        await FinishedDocument.of(services.runtime.engine, job, file.filename)
        for job, file in zip(jobs, form.files, strict=True)
    ]
    lists = [LongValue(json_list(_elements(document, options))) for document in documents]
    return await json_stream(lists[0] if len(lists) == 1 else lists)


@router.get(
    "/general/docs",
    summary="Unstructured: asked for by its client before it splits a PDF",
    response_class=PlainTextResponse,
)
async def partition_docs() -> Response:
    """Public and empty of data: `unstructured-client` sends a request here, whose answer it drops."""
    return PlainTextResponse("The endpoints are listed at /docs.")


def _read(form: DoorForm) -> _Options:
    """Raises RequestError with the words of the original where it has them."""
    if not form.files:
        raise RequestError("Request parameter `files` is required.")
    strategy = form.value("strategy") or "auto"
    if strategy not in _STRATEGIES:
        raise RequestError(f"Invalid strategy: {strategy[:40]}. Must be one of {list(_STRATEGIES)}")
    if (form.value("output_format") or "application/json") != "application/json":
        raise RequestError("output_format: there is application/json only.")
    languages = _languages(form)
    return _Options(
        JobOptions(
            text_only=strategy == "fast",
            force_ocr=strategy == "ocr_only",
            ocr_languages=read_languages("languages", "+".join(languages)) if languages else None,
        ),
        _chunking(form),
        is_true(form.value("coordinates")),
        is_true(form.value("include_page_breaks")),
        languages,
        _number(form, "starting_page_number", 1, 1, 1 << 30),
    )


def _languages(form: DoorForm) -> list[str]:
    """The languages of the document by their names of three letters; `auto` is none."""
    given = [one for name in ("languages", "languages[]") for one in form.fields.get(name, [])]
    given += form.fields.get("ocr_languages", [])
    names = [name.strip() for one in given for name in one.replace("+", ",").split(",")]
    return list(dict.fromkeys(_SHORT_LANGUAGES.get(name, name) for name in names if name not in ("", "auto")))


def _chunking(form: DoorForm) -> ChunkOptions | None:
    strategy = form.value("chunking_strategy")
    if strategy in ("", "none"):
        return None
    if strategy not in _CHUNKING:
        raise RequestError(
            f"Invalid chunking strategy: {strategy[:40]}. Must be one of {list(_CHUNKING)} or not given"
        )
    least, most = SMALLEST_MAX_TOKENS * BYTES_PER_TOKEN, LARGEST_MAX_TOKENS * BYTES_PER_TOKEN
    size = _number(form, "max_characters", _DEFAULT_CHARACTERS, least, most) // BYTES_PER_TOKEN
    overlap = _number(form, "overlap", 0, 0, most) // BYTES_PER_TOKEN
    return ChunkOptions(size, min(overlap, size // 2))


def _number(form: DoorForm, name: str, default: int, least: int, most: int) -> int:
    given = form.value(name)
    if not given:
        return default
    try:
        found = int(given)
    except ValueError:
        found = least - 1
    if not least <= found <= most:
        raise RequestError(f"{name}: expected a number from {least} to {most}.")
    return found


async def _elements(document: FinishedDocument, options: _Options) -> AsyncIterator[dict[str, Any]]:
    """A document's elements, or its chunks."""
    writer = ElementWriter(
        document.name,
        document.job.mime or "application/octet-stream",
        options.languages,
        options.coordinates,
        options.first_page,
    )
    chunker = Chunker(options.chunks) if options.chunks is not None else None

    def written(run: list[ElementPage]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for one in run:
            if one.note:
                found.append(writer.note(one.page.number, one.note))
            elif chunker is not None:
                found += [writer.chunk(chunk) for chunk in chunker.add(one.page)]
            else:
                found += writer.page(one.page)
            if options.page_breaks and chunker is None and one.record is not document.records[-1]:
                found.append(writer.page_break())
        return found

    pages = document.elements.runs() if chunker is None else document.elements.joined_runs()
    async with aclosing(pages) as runs:
        async for run in runs:
            for shown in await asyncio.to_thread(written, run):
                yield shown
    for chunk in chunker.end() if chunker is not None else ():
        yield writer.chunk(chunk)
