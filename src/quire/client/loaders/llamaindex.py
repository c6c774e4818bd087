"""A reader for LlamaIndex (`pip install quire[llamaindex]`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document

from quire.client.loaders.loaded_pieces import By, PieceLoader


class QuireReader(BaseReader):
    """Documents of LlamaIndex; also usable as `file_extractor` of SimpleDirectoryReader.

    Without `url`, the service of QUIRE_URL and QUIRE_API_KEY is used. Further options are those of `Quire.convert`.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        by: By = "page",
        chunking: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._loader = PieceLoader(url, api_key, by, options, chunking or {})

    def lazy_load_data(
        self, file: Any, extra_info: dict[str, Any] | None = None, **_: Any
    ) -> Iterable[Document]:
        """`file` is a source or a list of them. Raises ClientError for a source that can't be read."""
        sources = list(file) if isinstance(file, list | tuple) else [file]
        for piece in self._loader.pieces(sources):
            metadata = {**(extra_info or {}), **piece.metadata}
            yield Document(text=piece.text, metadata=metadata, id_=piece.id)
