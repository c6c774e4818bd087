"""The vault's documents as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from quire.api.jobs.job_views import iso
from quire.domain.job import JobType, conversion_job_id, step_job_id
from quire.domain.vault_document import (
    DocumentState,
    DocumentStatus,
    SearchHit,
    SearchPage,
    Snippet,
    VaultDocument,
)


class DocumentJobs(BaseModel):
    process: str = Field(description="The conversion; its pages, pictures and events are under /jobs.")
    classify: str
    embed: str


class DocumentLinks(BaseModel):
    self: str
    download: str
    content: str
    reprocess: str
    job: str
    pages: str
    events: str


class AttachedView(BaseModel):
    filename: str
    document_id: str


class DocumentView(BaseModel):
    """A document of the vault."""

    document_id: str
    status: str = Field(description="`pending`, `completed` or `failed`.")
    state: str = Field(description="The status, or `stale`, `needs_classification` or `unsupported`.")
    progress: int | None = Field(description="Per cent of the conversion while pending.")
    filename: str
    type: str
    content_type: str
    size: int
    sha256: str | None
    source: str
    pages: int | None
    doubtful_pages: int | None = Field(
        description="How many of them are to be compared with the original; null where it is not known."
    )
    title: str | None
    summary: str | None
    date: str | None
    language: str | None
    tags: list[str]
    classified_by: str | None = Field(description="`local`, `provider:model`, or null.")
    attempt: int
    error: dict[str, Any] | None = Field(description="Why it failed, or why it has no classification.")
    created_at: str
    updated_at: str
    completed_at: str | None
    pending_since: str | None
    parent_id: str | None = Field(description="The mail that it was attached to; it may be gone by now.")
    attachments: list[AttachedView] = Field(description="The documents that were attached to this mail.")
    jobs: DocumentJobs
    links: DocumentLinks


class DocumentsView(BaseModel):
    documents: list[DocumentView]
    next_cursor: str | None


class TakenView(BaseModel):
    document_id: str
    status: str
    state: str
    deduplicated: bool = Field(description="Whether the document was there before.")
    filename: str
    job_id: str
    links: DocumentLinks


class RejectedView(BaseModel):
    model_config = ConfigDict(extra="allow")

    filename: str
    error: str
    code: str
    retryable: bool


class TakenInView(BaseModel):
    documents: list[TakenView]
    rejected: list[RejectedView]


class CountsView(BaseModel):
    counts: dict[str, int]
    total: int


class ReprocessView(BaseModel):
    document_id: str
    outcome: str = Field(description="`started`, `running` or `skipped`.")
    status: str
    state: str
    attempt: int
    job_id: str
    links: DocumentLinks


class OutcomeView(BaseModel):
    document_id: str
    outcome: str


class BulkView(BaseModel):
    started: int
    results: list[OutcomeView]
    more: bool = Field(description="Whether more documents are in this state; send the request again.")


class TagView(BaseModel):
    name: str
    slug: str
    documents: int


class TagsView(BaseModel):
    tags: list[TagView]


class PieceView(BaseModel):
    text: str
    match: bool


class MarkedView(BaseModel):
    """A text with its matches marked: in pieces, and as escaped HTML."""

    pieces: list[PieceView]
    html: str


class FoundBoxView(BaseModel):
    page: int
    element: str
    box: list[float] | None = Field(description="x0, y0, x1, y1 in points; null where it is not known.")


class FoundChunkView(BaseModel):
    index: int = Field(description="The chunk's index in `/documents/{id}/chunks` with its defaults.")
    hash: str


class SnippetView(MarkedView):
    page: int | None
    chunk: FoundChunkView | None = Field(
        None, description="Null for a text that is not the document's content."
    )
    boxes: list[FoundBoxView] = Field([], description="The elements that have the words that were found.")


class HitView(BaseModel):
    document: DocumentView
    score: float
    parts: dict[str, float]
    title: MarkedView | None
    snippet: SnippetView | None


class SearchView(BaseModel):
    query: str
    hits: list[HitView]
    next_cursor: str | None
    corrections: dict[str, str]
    similarity: bool


class Viewer:
    """Makes views of documents for one point in time."""

    def __init__(self, now_s: float, stale_after_s: float) -> None:
        self._now_s = now_s
        self._stale_after_s = stale_after_s

    def state(self, row: VaultDocument) -> DocumentState:
        return row.state(self._now_s, self._stale_after_s)

    def document(self, row: VaultDocument, progress: int | None = None) -> DocumentView:
        fetched = row.metadata.get("fetched") or {}  # of a link, as older versions stored it
        return DocumentView(
            document_id=row.id,
            status=row.status.value,
            state=self.state(row).value,
            progress=progress if row.status is DocumentStatus.PENDING else None,
            filename=row.filename,
            type=row.kind,
            content_type=row.content_type,
            size=row.size_bytes or fetched.get("size") or 0,
            sha256=row.content_hash or fetched.get("sha256"),
            source=row.source or "upload",
            pages=row.pages,
            doubtful_pages=row.metadata.get("doubtful_pages"),
            title=row.title,
            summary=row.summary,
            date=row.date,
            language=row.language,
            tags=list(row.tags),
            classified_by=row.classified_by,
            attempt=row.attempt,
            error=dict(row.error) if row.error else None,
            created_at=iso(row.created_at) or "",
            updated_at=iso(row.updated_at) or "",
            completed_at=iso(row.completed_at),
            pending_since=iso(row.pending_since),
            parent_id=row.metadata.get("parent"),
            attachments=[AttachedView(**one) for one in row.metadata.get("attachments") or ()],
            jobs=DocumentJobs(
                process=conversion_job_id(row.team, row.id),
                classify=step_job_id(JobType.CLASSIFY, row.team, row.id, image=row.is_image),
                embed=step_job_id(JobType.EMBED, row.team, row.id),
            ),
            links=links(row),
        )

    def taken(self, row: VaultDocument, *, deduplicated: bool) -> TakenView:
        return TakenView(
            document_id=row.id,
            status=row.status.value,
            state=self.state(row).value,
            deduplicated=deduplicated,
            filename=row.filename,
            job_id=conversion_job_id(row.team, row.id),
            links=links(row),
        )

    def reprocessed(self, row: VaultDocument, outcome: str) -> ReprocessView:
        return ReprocessView(
            document_id=row.id,
            outcome=outcome,
            status=row.status.value,
            state=self.state(row).value,
            attempt=row.attempt,
            job_id=conversion_job_id(row.team, row.id),
            links=links(row),
        )

    def search(self, query: str, found: SearchPage, *, similarity: bool) -> SearchView:
        return SearchView(
            query=query,
            hits=[self._hit(hit) for hit in found.hits],
            next_cursor=found.next_cursor,
            corrections=dict(found.corrections),
            similarity=similarity,
        )

    def _hit(self, hit: SearchHit) -> HitView:
        title, snippet = hit.document.title, None
        if hit.snippet is not None:
            pieces = marked(hit.snippet.text, hit.snippet.highlights)
            snippet = SnippetView(
                pieces=pieces, html=as_html(pieces), page=hit.snippet.page, **_found_at(hit.snippet)
            )
        named = marked(title, hit.title_highlights) if title else []
        return HitView(
            document=self.document(hit.document),
            score=round(hit.score, 6),
            parts={name: round(value, 6) for name, value in hit.parts.items()},
            title=MarkedView(pieces=named, html=as_html(named)) if title else None,
            snippet=snippet,
        )


def _found_at(snippet: Snippet) -> dict[str, Any]:
    """The chunk and the boxes of what was found."""
    chunk = snippet.chunk and FoundChunkView(index=snippet.chunk.index, hash=snippet.chunk.hash)
    boxes = [
        FoundBoxView(page=one.page, element=one.element, box=list(one.box) if one.box else None)
        for one in snippet.places
    ]
    return {"chunk": chunk, "boxes": boxes}


def links(row: VaultDocument) -> DocumentLinks:
    place, job = f"/documents/{row.id}", f"/jobs/{conversion_job_id(row.team, row.id)}"
    return DocumentLinks(
        self=place,
        download=f"{place}/download",
        content=f"{place}/content",
        reprocess=f"{place}/reprocess",
        job=job,
        pages=f"{job}/pages",
        events=f"{job}/events",
    )


def marked(text: str, highlights: Sequence[tuple[int, int]]) -> list[PieceView]:
    """Returns the text cut at its matches; the joined pieces are the text."""
    pieces: list[PieceView] = []
    at = 0
    for first, last in sorted(highlights):
        start, end = max(first, at), min(last, len(text))
        if start >= end:
            continue
        if start > at:
            pieces.append(PieceView(text=text[at:start], match=False))
        pieces.append(PieceView(text=text[start:end], match=True))
        at = end
    if at < len(text):
        pieces.append(PieceView(text=text[at:], match=False))
    return pieces


def as_html(pieces: Iterable[PieceView]) -> str:
    """Returns escaped HTML with `<mark>` as the only tag: the text is untrusted."""
    return "".join(
        f"<mark>{escape(piece.text)}</mark>" if piece.match else escape(piece.text) for piece in pieces
    )
