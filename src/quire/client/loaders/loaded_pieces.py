"""What the loaders have in common: sources become pieces of text with metadata, by document, page or chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from quire.client.exceptions import UsageError
from quire.client.sync_client import Quire

By = Literal["document", "page", "chunk"]
_BY = ("document", "page", "chunk")


@dataclass(frozen=True)
class LoadedPiece:
    text: str
    metadata: dict[str, Any]
    id: str


@dataclass
class PieceLoader:
    """Reads sources with a service. `options` are those of `Quire.convert`, `chunking` those of `Quire.chunks`."""

    url: str | None = None
    api_key: str | None = None
    by: By = "page"
    options: dict[str, Any] = field(default_factory=dict)
    chunking: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.by not in _BY:
            raise UsageError(f"by: expected one of {', '.join(_BY)}.")

    def pieces(self, sources: Iterable[Any]) -> Iterator[LoadedPiece]:
        """The pieces of each source (path, address or bytes), in order. Raises ClientError."""
        with self._client() as client:
            for source in sources:
                yield from self._pieces_of(client, source)

    def _pieces_of(self, client: Quire, source: Any) -> Iterator[LoadedPiece]:
        done = client.convert(source, **self.options)
        shown = "" if isinstance(source, bytes) else str(source)
        known = {
            "source": shown,
            "job_id": done.job_id,
            **{
                name: done.metadata[name]
                for name in ("filename", "title", "failed_pages")
                if done.metadata.get(name)
            },
        }
        if self.by == "document":
            more = {"total_pages": done.metadata.get("pages")}
            yield LoadedPiece(done.markdown or "", {**known, **more}, done.job_id)
        elif self.by == "page":
            for page in client.pages(done.job_id):
                about: dict[str, Any] = {
                    "page": page.page_number,
                    "status": page.status,
                    "read_by": page.source,
                    "confidence": page.confidence,
                    "grade": page.grade,
                    **({"error": page.error.get("error")} if page.error else {}),
                }
                yield LoadedPiece(client.result(page.job_id).markdown, {**known, **about}, page.job_id)
        else:
            for chunk in client.chunks(done.job_id, **self.chunking):
                place = {
                    "pages": list(chunk.pages),
                    "headings": list(chunk.headings),
                    "boxes": list(chunk.boxes),
                    "kind": chunk.kind,
                    "hash": chunk.hash,
                }
                yield LoadedPiece(chunk.text, {**known, **place}, f"{done.job_id}-{chunk.index}")

    @contextmanager
    def _client(self) -> Iterator[Quire]:
        """A key that is given counts also where the address comes from the environment."""
        given = Quire(self.url, self.api_key or "") if self.url else Quire.from_environment(self.api_key)
        with given as client:
            yield client
