"""The catalog: documents, tags, their vectors and the search over them, on SQLite or PostgreSQL.

Every query is for one team. Only the vault sweeper's queries cover all teams; their names end in `_of_all_teams`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.access_rows import AccessRows
from quire.catalog.database.catalog_identity import read_identity, read_run
from quire.catalog.database.database import Database
from quire.catalog.database.migrating import migrate, wait_for_turn
from quire.catalog.documents import document_tags
from quire.catalog.documents.document_rows import DocumentRows
from quire.catalog.search.chunk_vectors import ChunksToEmbed, ChunkVectors
from quire.catalog.search.nearness import PostgresNearness, SqliteNearness
from quire.catalog.search.ranking import DEFAULT_WEIGHTS, Weights
from quire.catalog.search.search_engine import Search, SearchRequest
from quire.catalog.search.search_index import prepare_body
from quire.catalog.search.text_pieces import cut
from quire.catalog.search.vector_rows import Vectors, has_direction
from quire.clock import Clock
from quire.domain.vault_document import (
    STALE_AFTER_S,
    Classification,
    ContentKept,
    ContentPage,
    ConversionRecord,
    DocumentFilters,
    DocumentPage,
    DocumentState,
    DocumentTag,
    NewDocument,
    SearchHit,
    SearchPage,
    TextToEmbed,
    VaultDocument,
    Vector,
)
from quire.errors import CatalogError, MissingError

NO_FILTERS = DocumentFilters()
MAX_QUERY_CHARS = 1_000
MAX_PAGE = 200


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """Where the catalog is and how much it keeps.

    `url` is a `postgresql://…` address; when empty, the catalog is the SQLite file `file`.
    """

    file: Path
    url: str = field(default="", repr=False)
    stale_after_s: float = STALE_AFTER_S
    max_content_chars: int = 4_000_000
    vector_cache_bytes: int = 256 << 20
    """What the vectors that a process keeps for similarity on SQLite may take, all teams together."""
    pool_size: int = 4
    weights: Weights = DEFAULT_WEIGHTS


class Catalog:
    """The store of the vault's documents. Belongs to one event loop; open it with `Catalog.open`.

    Methods raise CatalogError when the database is out of reach, and nothing else unless they say so.
    Writes are single transactions: after a crash each has happened or has not.
    """

    def __init__(self, database: Database, options: CatalogOptions, clock: Clock, identity: str = "") -> None:
        """`identity` tells this catalog from every other; a replica that takes the place of a server has the same."""
        self._database = database
        self.identity = identity
        self._options = options
        self._documents = DocumentRows(database, clock, options.stale_after_s)
        self._vectors = Vectors(database)
        self._chunks = ChunkVectors(database)
        self.keys = AccessRows(database, clock)
        nearness = PostgresNearness() if database.postgres else SqliteNearness(options.vector_cache_bytes)
        self._search = Search(database, self._documents, nearness, self._chunks, options.weights)

    @classmethod
    async def open(cls, options: CatalogOptions, clock: Clock) -> Catalog:
        """Connects and brings the tables up to date; any number of processes may do so at once.

        Raises CatalogError when the database can't be reached or was written by a newer version.
        """
        file = options.file
        if options.url:
            database = Database.on_postgres(options.url, options.pool_size)
            turn = None
        else:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                turn = await wait_for_turn(file)
            except OSError as error:
                raise CatalogError(
                    f"The catalog can't be kept in {file.parent}: {error.strerror}."
                ) from error
            database = Database.on_sqlite(file, options.pool_size)
        try:
            await migrate(database)
            identity = await read_identity(database)
        except BaseException:
            await database.close()
            raise
        finally:
            if turn is not None:
                turn.close()
        return cls(database, options, clock, identity)

    async def close(self) -> None:
        await self._database.close()

    async def ping(self) -> None:
        """Runs an empty query. Raises CatalogError when the database doesn't answer."""
        async with self._database.reading() as connection:
            await connection.execute(text("SELECT 1"))

    async def run(self) -> str:
        """Which run of the database answers, '' if it has no runs. Another may have lost what was committed last."""
        return await read_run(self._database)

    # Documents

    async def create(self, new: NewDocument) -> tuple[VaultDocument, bool]:
        """The document, `pending` with attempt 0, and whether this call made it.

        A second call with the same team and id changes nothing and answers with what is there.
        """
        return await self._documents.create(new)

    async def get(self, team: str, document_id: str) -> VaultDocument:
        """Returns the document. Raises MissingError, also for another team's document."""
        found = await self._documents.find(team, document_id)
        if found is None:
            raise MissingError("There is no such document.")
        return found

    async def find(self, team: str, document_id: str) -> VaultDocument | None:
        """As `get`, with None in place of the error."""
        return await self._documents.find(team, document_id)

    async def find_by_hash(self, team: str, content_hash: str) -> VaultDocument | None:
        """The team's newest document with these bytes."""
        return await self._documents.find_by_hash(team, content_hash)

    async def find_by_alias(self, team: str, document_id: str) -> VaultDocument | None:
        """Returns the document with this alias; None for any other id, also a document's own."""
        return await self._documents.find_by_alias(team, document_id)

    async def merge(self, team: str, document_id: str, attempt: int, *, into: str) -> bool:
        """Removes the document as `delete` does, and makes its id an alias of another document.

        False, and nothing changed, when the attempt isn't the pending one or when the other isn't there. The alias
        is deleted with its document.
        """
        return await self._documents.merge(team, document_id, attempt, into)

    async def list(
        self,
        team: str,
        filters: DocumentFilters = NO_FILTERS,
        *,
        cursor: str | None = None,
        limit: int = 50,
    ) -> DocumentPage:
        """The team's documents, newest first. Raises RequestError for a cursor that is not one of this list's.

        A cursor stays good while documents come and go: nothing is shown twice, nothing old is left out.
        """
        return await self._documents.list(team, filters, cursor, _within(limit))

    def each(self, team: str, filters: DocumentFilters = NO_FILTERS) -> AsyncIterator[VaultDocument]:
        """Every document, newest first, read in pages without a transaction held open: for exports."""
        return self._documents.each(team, filters)

    async def counts(self, team: str) -> Mapping[DocumentState, int]:
        """How many documents are seen in each state; each document counts once."""
        return await self._documents.counts(team)

    async def delete(self, team: str, document_id: str) -> VaultDocument | None:
        """Removes every row of the document, its words, its vectors and the tags that only it had.

        Returns the deleted row, so that its objects can be removed; None when there was none.
        """
        return await self._documents.delete(team, document_id)

    async def tidy(self, pages: int = 500) -> bool:
        """Removes words of deleted documents from the index, `pages` at a time; returns whether there is more.

        The full text of SQLite keeps such words until its parts are merged. PostgreSQL cleans up by itself.
        """
        if self._database.postgres:
            return False

        async def merge(connection: AsyncConnection) -> bool:
            changes = text("SELECT total_changes()")
            before = (await connection.execute(changes)).scalar_one()
            await connection.execute(
                text("INSERT INTO document_words(document_words, rank) VALUES ('merge', :pages)"),
                {"pages": -pages},
            )
            # As its documentation says: fewer than two changes mean that there was nothing left to merge.
            return bool((await connection.execute(changes)).scalar_one() - before >= 2)

        return await self._database.write(merge)

    # Attempts

    async def begin_processing(self, team: str, document_id: str, *, seen: int | None = None) -> int | None:
        """Starts a new attempt: the document is pending from now on, without error. The attempt's number.

        With `seen`, only if the current attempt still has that number: of many that saw the same document and
        want to retry it, one gets a number and the others None. None also when the document isn't there.
        """
        return await self._documents.begin_processing(team, document_id, seen)

    async def still_current(self, team: str, document_id: str, attempt: int) -> bool:
        """Whether the document is pending with this attempt."""
        return await self._documents.still_current(team, document_id, attempt)

    async def note_conversion(
        self, team: str, document_id: str, attempt: int, conversion: ConversionRecord, *, late: bool = False
    ) -> bool:
        """Records what the conversion found out. False, and nothing changed, when the attempt isn't the pending one.

        With `late` the attempt may be completed already, with its early text.
        """
        return await self._documents.note_conversion(team, document_id, attempt, conversion, late=late)

    async def set_content(
        self, team: str, document_id: str, attempt: int, pages: Sequence[ContentPage], *, early: str = ""
    ) -> ContentKept | None:
        """Replaces the text that search knows of the document, up to `max_content_chars`.

        None, and nothing changed, when the attempt isn't the current one. The document may be pending or done. `early`
        is the error code of documents that were completed with a text that is not their final one: such a text replaces
        only that of a pending document, or of one that was completed with this code.
        """
        pieces, truncated = await asyncio.to_thread(cut, pages, self._options.max_content_chars)
        body = await asyncio.to_thread(prepare_body, pieces, postgres=self._database.postgres)
        if not await self._documents.set_body(team, document_id, attempt, body, early=early):
            return None
        return ContentKept(len(pieces), sum(len(piece.text) for piece in pieces), truncated)

    async def without_places_of_all_teams(
        self, before_pk: int | None = None, limit: int = 20
    ) -> tuple[Sequence[VaultDocument], int | None]:
        """Completed documents whose text an earlier version stored without its places, the newest first.

        Returns some of those below `before_pk`, and where to go on; None at the end.
        """
        return await self._documents.without_places(before_pk, limit)

    async def complete(
        self,
        team: str,
        document_id: str,
        attempt: int,
        classification: Classification | None,
        *,
        error: Mapping[str, Any] | None = None,
        late: bool = False,
    ) -> bool:
        """Completes the attempt. False, and nothing changed, when it isn't the pending one.

        With `late` the attempt may be completed already: a classification that ends after its document became usable.

        Without a classification the fields of an earlier one stay as they were (no title, if there was none);
        `error` then says why it is missing.
        """
        return await self._documents.complete(team, document_id, attempt, classification, error, late=late)

    async def fail(self, team: str, document_id: str, attempt: int, error: Mapping[str, Any]) -> bool:
        """Fails the attempt. False, and nothing changed, when it isn't the pending one."""
        return await self._documents.fail(team, document_id, attempt, error)

    async def stale_of_all_teams(self, older_than_s: float, limit: int = 100) -> Sequence[VaultDocument]:
        """Documents pending for longer than this, the longest first: for the vault sweeper."""
        return await self._documents.stale(older_than_s, limit)

    # Tags

    async def assign_tags(self, team: str, document_id: str, names: Sequence[str]) -> tuple[str, ...]:
        """Gives the document these tags and no others; the names as they are kept, in the order given.

        A name that differs from an existing tag only in case, accents or punctuation is that tag.
        `complete` does this for the tags of a classification. Raises MissingError.
        """
        kept = await self._documents.assign_tags(team, document_id, names)
        if kept is None:
            raise MissingError("There is no such document.")
        return kept

    async def tags(self, team: str, prefix: str = "", limit: int = 20) -> Sequence[DocumentTag]:
        """The team's tags that begin with this, or have a word that does; the most used first."""
        async with self._database.reading() as connection:
            return await document_tags.suggest(connection, team, prefix, _within(limit))

    # Vectors

    async def documents_to_embed_of_all_teams(
        self, model: str, *, after: tuple[str, str] | None = None, limit: int = 100
    ) -> Sequence[TextToEmbed]:
        """Completed documents without a vector of this model, by team and id; `after` is the last one seen.

        The text is title, summary and tags, or the beginning of the content where there is no summary.
        A document that was classified again is among them until its new text has a vector.
        """
        return await self._vectors.documents_missing(model, after, limit)

    async def document_to_embed(self, team: str, document_id: str, model: str) -> TextToEmbed | None:
        """The same for one document; None when it has its vector, has no text, or isn't there."""
        return await self._vectors.document_missing(team, document_id, model)

    async def tags_to_embed_of_all_teams(
        self, model: str, *, after: tuple[str, str] | None = None, limit: int = 100
    ) -> Sequence[TextToEmbed]:
        """Tags without a vector of this model, by team and id."""
        return await self._vectors.tags_missing(model, after, limit)

    async def tags_to_embed(self, team: str, document_id: str, model: str) -> Sequence[TextToEmbed]:
        """The document's tags without a vector of this model."""
        return await self._vectors.tags_of_document_missing(team, document_id, model)

    async def put_document_vectors(self, texts: Sequence[TextToEmbed], vectors: Sequence[Vector]) -> int:
        """Stores a vector for each text, in place of any older one; how many were stored.

        What is gone, or whose text has changed since it was handed out, is passed over.
        """
        return await self._vectors.put_documents(texts, vectors)

    async def put_tag_vectors(self, texts: Sequence[TextToEmbed], vectors: Sequence[Vector]) -> int:
        """The same for tags."""
        return await self._vectors.put_tags(texts, vectors)

    async def chunks_to_embed(
        self, team: str, document_id: str, model: str, most: int
    ) -> ChunksToEmbed | None:
        """The chunks of a completed document, the first `most`, and which have no vector of this model.

        None when all of them have one, or when the document isn't there.
        """
        return await self._chunks.missing(team, document_id, model, most)

    async def has_chunks_to_embed(self, team: str, document_id: str, model: str, most: int) -> bool:
        """Whether `chunks_to_embed` would find something; it reads no text."""
        return await self._chunks.missing(team, document_id, model, most, texts=False) is not None

    async def put_chunk_vectors(self, asked: ChunksToEmbed) -> bool:
        """Stores the vectors added so far. False when the document is gone or its text has changed meanwhile."""
        return await self._chunks.put(asked)

    async def documents_with_chunks_to_embed_of_all_teams(
        self, model: str, most: int, before_pk: int | None = None, limit: int = 20
    ) -> tuple[Sequence[tuple[str, str]], int | None]:
        """Team and id of completed documents whose chunks have no vectors, the newest first; None at the end."""
        return await self._chunks.documents_missing(model, most, before_pk, limit)

    # Search

    async def search(
        self,
        team: str,
        query: str,
        filters: DocumentFilters = NO_FILTERS,
        *,
        cursor: str | None = None,
        limit: int = 20,
        query_vector: Vector | None = None,
    ) -> SearchPage:
        """The documents that fit the query best: by their words, and by meaning where a vector is given.

        An empty query lists the newest documents. Words may be misspelt, and the last one unfinished. Raises
        RequestError for a cursor of another search.
        """
        if not query.strip():
            newest = await self._documents.list(team, filters, cursor, _within(limit))
            return SearchPage(tuple(SearchHit(one, 0.0) for one in newest.documents), newest.next_cursor)
        vector = query_vector if query_vector is not None and has_direction(query_vector) else None
        return await self._search.search(
            SearchRequest(team, query[:MAX_QUERY_CHARS], filters, _within(limit), cursor, vector)
        )


def _within(limit: int) -> int:
    return max(1, min(limit, MAX_PAGE))
