"""The interface of MinerU: files in, the Markdown of each file under its name out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
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
    json_stream,
)
from quire.api.doors.door_intake import ArrivedFile, DoorForm, DoorIntake
from quire.api.doors.finished_document import FinishedDocument
from quire.api.http.auth import Team
from quire.api.http.responses import NO_SNIFF, ClosingStream, disposition, started
from quire.api.http.services import Services, ServicesDep
from quire.api.http.zip_stream import ZipEntry, ZipStream
from quire.domain.element import Element, ElementKind, PageElements
from quire.domain.job import JobOptions, JobStatus
from quire.errors import RequestError
from quire.pipeline.document_elements import ElementPage
from quire.pipeline.document_formats import compact_json
from quire.rendering.page_html import render_html

_FALSE = ("false", "0", "no", "off")
_TRUE = ("true", "1", "yes", "on")
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
    if form.value("response_format_zip").lower() in _TRUE:
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
    errors: list[dict[str, Any]] = []
    for file in files:
        job = jobs.get(id(file))
        if job is not None and job.status is JobStatus.COMPLETED:
            document = await FinishedDocument.of(services, job, file.filename)
            found[_free(document.stem, found)] = document
            continue
        error = job.error if job is not None else file.refused.as_dict() if file.refused else None
        errors.append(error or {"error": "The job was cancelled.", "code": "cancelled"})
        found[_free(file.filename.rpartition(".")[0] or file.filename, found)] = str(errors[-1]["error"])
    if len(errors) == len(files):
        raise FailedDocumentError(errors[0])
    return found


def _free(stem: str, taken: dict[str, Any]) -> str:
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name


def _shown(document: FinishedDocument | str, form: DoorForm) -> dict[str, Any]:
    if isinstance(document, str):
        return {"error": document}
    found: dict[str, Any] = {}
    if form.value("return_md").lower() not in _FALSE:
        found["md_content"] = LongText(document.markdown())
    if form.value("return_content_list").lower() in _TRUE:
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
    """A JSON list in a text, as MinerU has it: the elements with their pages from 0 and boxes of 0 to 1000."""
    before = "["
    async with aclosing(document.elements.runs()) as runs:
        async for run in runs:
            for shown in await asyncio.to_thread(_rows, run):
                yield before + compact_json(shown)
                before = ","
    yield "[]" if before == "[" else "]"


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
