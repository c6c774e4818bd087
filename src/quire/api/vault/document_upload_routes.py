"""POST /documents: one file or many, or a link, into the vault."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from quire.api.http.auth import Team
from quire.api.http.error_responses import MediaTypeError, documented
from quire.api.http.request_bodies import (
    FieldRead,
    FileEnds,
    FilePiece,
    FileStarts,
    media_type,
    read_form,
)
from quire.api.http.responses import json_answer
from quire.api.http.services import VaultDep
from quire.api.jobs.convert_routes import documented_body, read_source
from quire.api.jobs.submission_fields import read_fields, read_key, submission
from quire.api.vault.document_routes import document_of, viewer
from quire.api.vault.document_views import RejectedView, TakenInView
from quire.domain.job import conversion_job_id
from quire.errors import QuireError, RequestError, TooLargeError
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.vault.vault import Vault
from quire.pipeline.vault.vault_intake import AcceptedDocument, DocumentUpload, VaultIntake

router = APIRouter(tags=["vault"])

MOST_FILES = 100


@dataclass(slots=True)
class _File:
    """One part of the form: received, or rejected with an error."""

    filename: str
    upload: DocumentUpload | None = None
    problem: QuireError | None = None


@router.post(
    "/documents",
    summary="Put documents into the vault",
    status_code=202,
    response_model=TakenInView,
    responses=documented(400, 401, 408, 409, 413, 415, 502, 503),
    openapi_extra=documented_body(),
)
async def take_in(
    request: Request,
    team: Team,
    vault: VaultDep,
    idempotency_key: Annotated[
        str | None, Header(description="The same key gives the same documents, however often it is sent.")
    ] = None,
) -> Response:
    """As uploads (`multipart/form-data`, one or more parts `file`) or a link (JSON, field `source`), with options."""
    for name in request.query_params:
        raise RequestError(f"{name[:60]!r} is not a parameter of the address; options go into the body.")
    key = read_key(idempotency_key)
    kind = media_type(request)
    if kind not in ("application/json", "multipart/form-data"):
        raise MediaTypeError(
            "Send multipart/form-data with `file` parts, or application/json with a `source`."
        )
    await vault.catalog()  # fail before the upload if the catalog is not available
    await vault.engine.intake.check_room()
    if kind == "application/json":
        return await _source(request, vault, team, key)
    return await _Form(request, vault, team, key).answer()


async def _source(request: Request, vault: Vault, team: str, key: str | None) -> Response:
    asked = await _with_version(vault, await read_source(request, vault.parts.settings, team, key))
    _check(vault, asked)
    taken = await VaultIntake(vault).accept_source(asked)
    return _answer(vault, [taken], [])


async def _with_version(vault: Vault, asked: Submission) -> Submission:
    """The submission with the conversion of the document that it is a version of. Raises MissingError."""
    if not asked.options.version_of:
        return asked
    row = await document_of(vault, asked.team, asked.options.version_of)
    earlier = conversion_job_id(row.team, row.id)
    return replace(asked, options=replace(asked.options, version_of=earlier))


def _check(vault: Vault, asked: Submission) -> None:
    """Raises RequestError, also for options that only a conversion supports."""
    if asked.delivery is not None:
        raise RequestError(
            "result_to: is for POST /convert. The vault keeps its results; get them by GET /documents/{id}/content."
        )
    vault.engine.intake.check(asked)


class _Form:
    """The files of one request. A rejected file does not affect the others."""

    def __init__(self, request: Request, vault: Vault, team: str, key: str | None) -> None:
        self._request = request
        self._vault = vault
        self._intake = VaultIntake(vault)
        self._draft = Submission(team=team, idempotency_key=key)
        self._max_bytes = vault.parts.settings.limits.max_upload_bytes
        self._files: list[_File] = []
        self._fields: dict[str, str] = {}

    async def answer(self) -> Response:
        try:
            await self._receive()
            asked = await _with_version(self._vault, self._submission())
        except BaseException:
            await self._discard()
            raise
        taken: list[AcceptedDocument] = []
        rejected: list[_File] = []
        for file in self._files:
            try:
                taken.append(await self._accept(asked, file))
            except RequestError as problem:
                file.problem = problem
                rejected.append(file)
        if not taken and rejected[0].problem is not None:
            raise rejected[0].problem
        return _answer(self._vault, taken, rejected)

    async def _receive(self) -> None:
        async with AsyncExitStack() as stack:
            form = await stack.enter_async_context(aclosing(read_form(self._request, MOST_FILES)))
            writing: AsyncExitStack | None = None
            async for happening in form:
                match happening:
                    case FieldRead(name, value):
                        self._fields[name] = value
                    case FileStarts(given):
                        writing = await stack.enter_async_context(AsyncExitStack())
                        await self._begin(given, writing)
                    case FilePiece(data):
                        await self._write(data)
                    case FileEnds() if writing is not None:
                        await writing.aclose()
        if not self._files:
            raise RequestError("The form has no `file`. Send each document in a part of that name.")

    async def _begin(self, filename: str, writing: AsyncExitStack) -> None:
        if len(self._files) == MOST_FILES:
            raise RequestError(f"The form has more than {MOST_FILES} files.")
        file = _File(filename)
        self._files.append(file)
        file.upload = await self._intake.begin_upload(
            replace(self._draft, filename=filename), len(self._files) - 1
        )
        await writing.enter_async_context(file.upload.writer)

    async def _write(self, data: bytes) -> None:
        file = self._files[-1]
        if file.upload is None or file.problem is not None:
            return
        if file.upload.writer.size + len(data) > self._max_bytes:
            most = self._max_bytes / (1 << 20)
            file.problem = TooLargeError(
                f"The document is larger than the {most:g} MB allowed (MAX_UPLOAD_MB)."
            )
            return
        await file.upload.write(data)

    def _submission(self) -> Submission:
        if "source" in self._fields:
            raise RequestError("source: a form takes `file` parts; a link is sent as application/json.")
        asked = submission(self._draft.team, read_fields(self._fields), "", self._draft.idempotency_key)
        _check(self._vault, asked)
        return asked

    async def _accept(self, asked: Submission, file: _File) -> AcceptedDocument:
        if file.upload is None:
            raise RequestError("The file could not be received.")
        if file.problem is not None:
            await self._vault.parts.objects.delete(file.upload.key)
            raise file.problem
        return await self._intake.accept_upload(replace(asked, filename=file.filename), file.upload)

    async def _discard(self) -> None:
        """Deletes the received bytes of a refused request; if interrupted, they expire after some hours."""
        for file in self._files:
            if file.upload is not None:
                await self._vault.parts.objects.delete(file.upload.key)


def _answer(vault: Vault, taken: list[AcceptedDocument], rejected: list[_File]) -> Response:
    view = viewer(vault)
    refused = [
        RejectedView(filename=file.filename[:300], **file.problem.as_dict())
        for file in rejected
        if file.problem is not None
    ]
    body = TakenInView(
        documents=[view.taken(one.document, deduplicated=one.deduplicated) for one in taken], rejected=refused
    )
    headers = {"Location": f"/documents/{taken[0].document.id}"} if len(taken) == 1 else {}
    return json_answer(body, 202, headers)
