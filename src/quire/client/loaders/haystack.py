"""A converter component for Haystack (`pip install quire[haystack]`)."""

from __future__ import annotations

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from quire.client.loaders.loaded_pieces import By, PieceLoader


@component
class QuireConverter:
    """Turns paths, addresses or byte streams into documents of Haystack.

    Without `url`, the service of QUIRE_URL and QUIRE_API_KEY is used; keys are not part of a stored pipeline.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        by: By = "page",
        chunking: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self._loader = PieceLoader(url, api_key, by, options or {}, chunking or {})

    def to_dict(self) -> dict[str, Any]:
        """As a stored pipeline has it, without the key."""
        kept = self._loader
        return dict(
            default_to_dict(self, url=kept.url, by=kept.by, chunking=kept.chunking, options=kept.options)
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> QuireConverter:
        found: QuireConverter = default_from_dict(cls, data)
        return found

    @component.output_types(documents=list[Document])
    def run(self, sources: list[Any], meta: dict[str, Any] | None = None) -> dict[str, list[Document]]:
        """Raises ClientError for a source that can't be read."""
        given = [getattr(source, "data", source) for source in sources]
        documents = [
            Document(content=piece.text, meta={**(meta or {}), **piece.metadata}, id=piece.id)
            for piece in self._loader.pieces(given)
        ]
        return {"documents": documents}
