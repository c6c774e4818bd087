"""The interface of Apache Tika Server, for programs that send it documents and want text or metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

import quire
from quire.api.doors.door_answers import (
    DOOR_RESPONSES,
    DoorError,
    DoorRoute,
    LongText,
    json_stream,
    text_stream,
)
from quire.api.doors.door_intake import ArrivedFile, DoorIntake, disposition_name
from quire.api.doors.tika_content import FamilyMember, whole_html, whole_text
from quire.api.doors.tika_metadata import attached_jobs, embedded_failure, metadata_of
from quire.api.http.auth import Team
from quire.api.http.flag_words import is_true
from quire.api.http.request_bodies import pieces
from quire.api.http.responses import INERT, NO_SNIFF
from quire.api.http.services import Services, ServicesDep
from quire.api.jobs.submission_fields import read_languages
from quire.domain.job import JobOptions, JobSecrets, JobStatus, MainJob
from quire.errors import MissingError, RequestError
from quire.pipeline.finished_document import FinishedDocument
from quire.reading.files.file_kinds import SNIFF_BYTES, sniff

_HANDLERS = ("text", "html", "xml", "body", "ignore")


class _TikaRoute(DoorRoute):
    @staticmethod
    def shaped(error: DoorError) -> Response:
        """Tika answers 422 for every document that it can't read, and the reason as plain text."""
        return PlainTextResponse(error.text + "\n", 422 if error.status == 415 else error.status)


router = APIRouter(tags=["doors: tika"], route_class=_TikaRoute, responses=DOOR_RESPONSES)
versions = APIRouter(tags=["doors: tika"], route_class=_TikaRoute, responses=DOOR_RESPONSES)


@router.get("/tika", summary="Tika: a greeting", response_class=PlainTextResponse)
async def tika_greeting(_team: Team) -> Response:
    return PlainTextResponse(f"This is Quire {quire.__version__} with the interface of Tika. Please PUT\n")


@versions.get("/version", summary="Tika and docling-serve: the version", response_class=PlainTextResponse)
async def door_version(request: Request, _team: Team) -> Response:
    """Plain text as Tika gives it; JSON as docling-serve gives it to docling's client, or where JSON is asked for."""
    wants_json = "application/json" in request.headers.get("accept", "")
    if wants_json or "accept-docling-document-version" in request.headers:
        return await json_stream({"quire": quire.__version__})
    return PlainTextResponse(f"Quire {quire.__version__} (interface of Apache Tika)")


@router.put("/tika", summary="Tika: the text of a document", response_class=Response)
async def tika_document(request: Request, team: Team, services: ServicesDep) -> Response:
    """As `Accept` says: `text/plain` (default), `text/html`, `text/xml`, or JSON with metadata and XHTML."""
    return await _Document(request, services, team).content("")


@router.put("/tika/{handler}", summary="Tika: text and metadata as JSON", response_class=Response)
async def tika_handler(request: Request, handler: str, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team).content(handler)


@router.post("/tika/form", summary="Tika: the text of an uploaded document", response_class=Response)
async def tika_form(request: Request, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team, form=True).content("")


@router.post("/tika/form/{handler}", summary="Tika: the same with a handler", response_class=Response)
async def tika_form_handler(request: Request, handler: str, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team, form=True).content(handler)


@router.put("/rmeta", summary="Tika: a document and the files in it", response_class=Response)
async def rmeta(request: Request, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team).recursive("xml")


@router.put("/rmeta/{handler}", summary="Tika: the same with a handler", response_class=Response)
async def rmeta_handler(request: Request, handler: str, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team).recursive(handler)


@router.post("/rmeta/form", summary="Tika: an uploaded document and the files in it", response_class=Response)
async def rmeta_form(request: Request, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team, form=True).recursive("xml")


@router.post("/rmeta/form/{handler}", summary="Tika: the same with a handler", response_class=Response)
async def rmeta_form_handler(request: Request, handler: str, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team, form=True).recursive(handler)


@router.put("/meta", summary="Tika: the metadata of a document", response_class=Response)
async def meta(request: Request, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team).metadata("")


@router.put("/meta/{name}", summary="Tika: one value of the metadata", response_class=Response)
async def meta_value(request: Request, name: str, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team).metadata(name)


@router.post("/meta/form", summary="Tika: the metadata of an uploaded document", response_class=Response)
async def meta_form(request: Request, team: Team, services: ServicesDep) -> Response:
    return await _Document(request, services, team, form=True).metadata("")


@router.put("/detect/stream", summary="Tika: the media type of a document", response_class=PlainTextResponse)
async def detect(request: Request, _team: Team) -> Response:
    """By the first bytes; the rest is read and dropped."""
    head = b""
    async for piece in pieces(request):
        if len(head) < SNIFF_BYTES:
            head += piece
    return PlainTextResponse(sniff(head[:SNIFF_BYTES]).mime)


class _Document:
    """The document of one request, sent as its body or in a form."""

    def __init__(self, request: Request, services: Services, team: str, *, form: bool = False) -> None:
        self._request = request
        self._services = services
        self._form = form
        self._intake = DoorIntake(request, services, team)
        self._name = ""

    async def content(self, handler: str) -> Response:
        """Text in the form that `Accept` asks for; as JSON with metadata where a handler is named."""
        if handler and handler not in _HANDLERS:
            raise MissingError(f"There is no handler {handler[:40]!r}; there are {', '.join(_HANDLERS)}.")
        job = await self._converted()
        accept = self._request.headers.get("accept", "")
        family = await self._family(job, alone=handler == "ignore")
        document = family[0].document or await FinishedDocument.of(
            self._services.runtime.engine, job, self._name
        )
        if "application/json" in accept or (handler and not accept.startswith("text/")):
            return await json_stream({**metadata_of(document), **_content(family, handler or "xml")})
        if handler in ("html", "xml") or (not handler and accept.startswith(("text/html", "text/xml"))):
            kind = "text/xml" if "xml" in (handler or accept) else "text/html"
            return await text_stream(whole_html(family), kind, **INERT)
        return await text_stream(whole_text(family), "text/plain")

    async def recursive(self, handler: str) -> Response:
        """A list: the document, then the files in it, each with its metadata and its text."""
        if handler not in _HANDLERS:
            raise MissingError(f"There is no handler {handler[:40]!r}; there are {', '.join(_HANDLERS)}.")
        shown: list[dict[str, Any]] = []
        for one in await self._family(await self._converted()):
            if one.document is None:
                shown.append(embedded_failure(one.job, one.depth, one.path))
                continue
            more = metadata_of(one.document, depth=one.depth, path=one.path)
            alone = FamilyMember(0, "", one.job, one.document)
            shown.append({**more, **_content([alone], handler)})
        return await json_stream(shown)

    async def metadata(self, name: str) -> Response:
        """JSON, or CSV by `Accept`; one value as plain text."""
        job = await self._converted(text_only=True)
        found = metadata_of(await FinishedDocument.of(self._services.runtime.engine, job, self._name))
        if name and name not in found:
            raise MissingError(f"The document has no metadata {name[:60]!r}.")
        accept = self._request.headers.get("accept", "")
        if name and "application/json" not in accept:
            return PlainTextResponse(_flat(found[name]), headers=NO_SNIFF)
        if accept.startswith("text/csv"):
            rows = [f"{_quoted(key)},{_quoted(_flat(value))}\n" for key, value in found.items()]
            return Response("".join(rows), media_type="text/csv; charset=utf-8", headers=NO_SNIFF)
        return await json_stream({name: found[name]} if name else found)

    async def _converted(self, *, text_only: bool = False) -> MainJob:
        options = ocr_options(self._request.headers)
        file = await self._file()
        self._name = file.filename
        secrets = JobSecrets(password=self._request.headers.get("password") or None)
        if text_only:
            options = replace(options, text_only=True, force_ocr=False)
        return await self._intake.converted(file, options, secrets)

    async def _file(self) -> ArrivedFile:
        if not self._form:
            return await self._intake.body(disposition_name(self._request))
        form = await self._intake.form()
        if len(form.files) != 1:
            await self._intake.discard(form.files)
            raise RequestError("Send one file in the form.")
        if form.files[0].refused is not None:
            raise form.files[0].refused
        return form.files[0]

    async def _family(
        self, job: MainJob, depth: int = 0, path: str = "", *, alone: bool = False
    ) -> list[FamilyMember]:
        """The document and, unless it is wanted alone, the files in it, at any depth, once all of them have ended.

        Raises MissingError if the result of the document itself was deleted. This is read before the answer begins:
        an error after its first byte could not be reported.
        """
        document = None
        if job.status is JobStatus.COMPLETED:
            try:
                document = await FinishedDocument.of(
                    self._services.runtime.engine, job, "" if depth else self._name
                )
            except MissingError:
                if not depth:
                    raise
        found = [FamilyMember(depth, path, job, document)]
        attached = [] if alone else attached_jobs(job)
        if attached:
            for one in await self._intake.ended(attached):
                found += await self._family(one, depth + 1, f"{path}/{one.filename}")
        return found


def ocr_options(headers: Mapping[str, str]) -> JobOptions:
    """The options that Tika's headers for OCR ask for. Raises RequestError for languages that are no names."""
    strategy = headers.get("x-tika-pdfocrstrategy", "").lower()
    languages = headers.get("x-tika-ocrlanguage", "").strip()
    return JobOptions(
        text_only=is_true(headers.get("x-tika-ocrskipocr")) or strategy == "no_ocr",
        force_ocr=strategy == "ocr_only",
        ocr_languages=read_languages("X-Tika-OCRLanguage", languages) if languages else None,
    )


def _content(family: list[FamilyMember], handler: str) -> dict[str, Any]:
    if handler == "ignore":
        return {}
    written = whole_html(family) if handler in ("html", "xml") else whole_text(family)
    return {"X-TIKA:content": LongText(written)}


def _flat(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _quoted(value: str) -> str:
    doubled = value.replace('"', '""')
    return f'"{doubled}"'
