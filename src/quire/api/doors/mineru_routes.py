"""The interface of MinerU: files in, the Markdown of each file under its name out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

import quire
from quire.api.doors.door_answers import (
    DOOR_RESPONSES,
    DoorError,
    DoorRoute,
    FailedDocumentError,
    LongText,
    json_list,
    json_stream,
)
from quire.api.doors.door_intake import ArrivedFile, DoorForm, DoorIntake
from quire.api.http.auth import Team
from quire.api.http.flag_words import is_false, is_true
from quire.api.http.responses import NO_SNIFF, ClosingStream, disposition, started
from quire.api.http.services import Services, ServicesDep
from quire.domain.element import Element, ElementKind, PageElements
from quire.domain.job import JobOptions, JobStatus
from quire.errors import RequestError
from quire.links import safe_filename, unique_name
from quire.pipeline.document_elements import ElementPage
from quire.pipeline.finished_document import FinishedDocument
from quire.pipeline.zip_stream import ZipEntry, ZipStream
from quire.rendering.page_html import render_html

_METHODS = ("auto", "txt", "ocr")
_LAST_PAGE = 99_999


class _MineruRoute(DoorRoute):
    @staticmethod
    def shaped(error: DoorError) -> Response:
        return JSONResponse({"error": error.text}, error.status)


router = APIRouter(tags=["doors: mineru"], route_class=_MineruRoute, responses=DOOR_RESPONSES)


@router.post("/file_parse", summary="MinerU: parse files", response_class=Response)
async def file_parse(request: Request, team: Team, services: ServicesDep) -> Response:
    """A form with `files`; `return_md`, `return_content_list`, `start_page_id`, `end_page_id`, `parse_method`."""
    intake = DoorIntake(request, services, team)
    form = await intake.form()
    try:
        options = _options(form)
    except BaseException:
        await intake.discard(form.files)
        raise
    found = await _documents(services, intake, form.files, options)
    if is_true(form.value("response_format_zip")):
        body = await started(ZipStream(services.runtime.parts.clock.now()).stream(_members(found)))
        headers = {"Content-Disposition": disposition("attachment", "results.zip"), **NO_SNIFF}
        return ClosingStream(body, media_type="application/zip", headers=headers)
    results = {name: _shown(document, form) for name, document in found.items()}
    return await json_stream({"backend": "quire", "version": quire.__version__, "results": results})


def _options(form: DoorForm) -> JobOptions:
    if not form.files:
        raise RequestError("Send at least one document in `files`.")
    method = form.value("parse_method") or "auto"
    if method not in _METHODS:
        raise RequestError(f"parse_method: expected one of {', '.join(_METHODS)}.")
    try:
        first, last = int(form.value("start_page_id") or 0), int(form.value("end_page_id") or _LAST_PAGE)
    except ValueError:
        first = last = -1
    if not 0 <= first <= last:
        raise RequestError(
            "start_page_id, end_page_id: expected page numbers from 0, the first not after the last."
        )
    everything = (first, last) == (0, _LAST_PAGE)
    pages = None if everything else f"{first + 1}-{'' if last >= _LAST_PAGE else last + 1}"
    return JobOptions(pages=pages, text_only=method == "txt", force_ocr=method == "ocr")


async def _documents(
    services: Services, intake: DoorIntake, files: list[ArrivedFile], options: JobOptions
) -> dict[str, FinishedDocument | str]:
    """Each file under its name without its ending: the document, or why it failed. Raises if all failed."""
    taken = [file for file in files if file.refused is None]
    accepted = [await intake.accept(file, options) for file in taken]
    jobs = dict(zip((id(file) for file in taken), await intake.ended(accepted), strict=True))
    found: dict[str, FinishedDocument | str] = {}
    names: set[str] = set()
    errors: list[dict[str, Any]] = []
    for file in files:
        job = jobs.get(id(file))
        if job is not None and job.status is JobStatus.COMPLETED:
            document = await FinishedDocument.of(services.runtime.engine, job, file.filename)
            found[unique_name(document.stem, names)] = document
            continue
        error = job.error if job is not None else file.refused.as_dict() if file.refused else None
        errors.append(error or {"error": "The job was cancelled.", "code": "cancelled"})
        found[unique_name(_stem(file.filename), names)] = str(errors[-1]["error"])
    if len(errors) == len(files):
        raise FailedDocumentError(errors[0])
    return found


def _stem(filename: str) -> str:
    return PurePath(safe_filename(filename)).stem


def _shown(document: FinishedDocument | str, form: DoorForm) -> dict[str, Any]:
    if isinstance(document, str):
        return {"error": document}
    found: dict[str, Any] = {}
    if not is_false(form.value("return_md")):
        found["md_content"] = LongText(document.markdown())
    if is_true(form.value("return_content_list")):
        found["content_list"] = LongText(_content_list(document))
    return found


async def _members(found: dict[str, FinishedDocument | str]) -> AsyncIterator[ZipEntry]:
    for name, document in found.items():
        if isinstance(document, str):
            yield ZipEntry(f"{name}/error.txt", _encoded(_single(document)))
        else:
            yield ZipEntry(f"{name}/{name}.md", _encoded(document.markdown()))


async def _single(text: str) -> AsyncIterator[str]:
    yield text


async def _encoded(texts: AsyncIterator[str]) -> AsyncIterator[bytes]:
    async for text in texts:
        yield text.encode("utf-8", "replace")


async def _content_list(document: FinishedDocument) -> AsyncIterator[str]:
    """A JSON list in a text, as MinerU has it."""
    async for raw in json_list(_all_rows(document)):
        yield raw.decode()


async def _all_rows(document: FinishedDocument) -> AsyncIterator[dict[str, Any]]:
    """The elements with their pages from 0 and boxes of 0 to 1000."""
    async with aclosing(document.elements.runs()) as runs:
        async for run in runs:
            for shown in await asyncio.to_thread(_rows, run):
                yield shown


def _rows(run: list[ElementPage]) -> list[dict[str, Any]]:
    return [_row(element, one.page) for one in run for element in one.page.elements if not element.repeated]


def _row(element: Element, page: PageElements) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "text", "text": element.plain_text}
    if element.kind in (ElementKind.TITLE, ElementKind.HEADING):
        found["text_level"] = element.level or 1
    elif element.table is not None:
        found = {"type": "table", "table_body": render_html([element])}
    elif element.kind is ElementKind.FIGURE:
        found = {"type": "image", "img_path": "", "image_caption": [element.text] if element.text else []}
    elif element.kind is ElementKind.FORMULA:
        found = {"type": "equation", "text": element.latex or element.text, "text_format": "latex"}
    found["page_idx"] = page.number - 1
    if element.box is not None and page.width and page.height:
        scale = (page.width, page.height, page.width, page.height)
        found["bbox"] = [round(1000 * at / whole) for at, whole in zip(element.box, scale, strict=True)]
    return found
