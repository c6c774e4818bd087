"""A document loader for LangChain (`pip install quire[langchain]`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from quire.client.loaders.loaded_pieces import By, PieceLoader


class QuireLoader(BaseLoader):
    """Documents of LangChain, by document, page or chunk.

    Without `url`, the service of QUIRE_URL and QUIRE_API_KEY is used. Further options are those of `Quire.convert`.
    """

    def __init__(
        self,
        sources: Any | Iterable[Any],
        *,
        url: str | None = None,
        api_key: str | None = None,
        by: By = "page",
        chunking: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._sources = list(sources) if isinstance(sources, list | tuple) else [sources]
        self._loader = PieceLoader(url, api_key, by, options, chunking or {})

    def lazy_load(self) -> Iterator[Document]:
        """Raises ClientError for a source that can't be read."""
        for piece in self._loader.pieces(self._sources):
            yield Document(page_content=piece.text, metadata=piece.metadata, id=piece.id)
