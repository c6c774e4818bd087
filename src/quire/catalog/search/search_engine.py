"""Search: the words of the documents and their meaning, ranked together.

The database answers which pieces have a word and which vectors are near. That is bounded: of a common word only the
pieces of the newest documents are read, so a search takes about as long in a large vault as in a small one.
What was found is then ranked by `ranking`, the same way on both databases.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import String, cast, func, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database
from quire.catalog.database.schema import ASSIGNMENTS, DOCUMENTS, PIECE_BITS, PIECES
from quire.catalog.documents import cursors, row_mapping, word_listing
from quire.catalog.documents.document_filters import Narrowing, of_team, one_of
from quire.catalog.documents.document_rows import DocumentRows
from quire.catalog.search import postings, query_reading, ranking
from quire.catalog.search.chunk_sheet import NearestPiece, text_key
from quire.catalog.search.chunk_vectors import ChunkVectors
from quire.catalog.search.nearness import Nearness
from quire.catalog.search.postings import CandidateDocuments, Meaning, best_documents
from quire.catalog.search.query_reading import ReadQuery
from quire.catalog.search.ranking import LEVELS, Weights
from quire.catalog.search.snippets import StoredPiece, best_snippet, highlights, words_in
from quire.domain.vault_document import DocumentFilters, SearchHit, SearchPage, Vector

_COMMON = 1_500
_NEWEST = 5
"""The factor of pieces read for a common word to documents wanted."""
_FEW_DOCUMENTS = 3_000
_SHARES = {"head": 0.15, "often": 0.05, "all": 1.0}
_TAGS, _DOCUMENTS_OF_TAG = 6, 30
_LEAST_SCORE = 0.04
_DEPTH, _MAX_DEPTH = 50, 1_000
_FILTERED_DEPTH = 8


@dataclass(frozen=True, slots=True)
class SearchRequest:
    team: str
    query: str
    filters: DocumentFilters
    limit: int
    cursor: str | None = None
    vector: Vector | None = None

    @property
    def mark(self) -> str:
        model = self.vector.model if self.vector else ""
        return cursors.question(self.team, self.filters, "search", self.query, model)


@dataclass(frozen=True, slots=True)
class _Scored:
    pk: int
    id: str
    score: float
    parts: Mapping[str, float]
    pieces: Sequence[int]
    nearest: NearestPiece | None = None

    @property
    def key(self) -> tuple[float, str]:
        return (-self.score, self.id)


@dataclass(frozen=True, slots=True)
class _Field:
    """What is searched: everything that passes the filters; `few` lists it where that is not much."""

    narrowing: Narrowing
    few: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class _Near:
    """The nearest neighbours of the query's vector: documents, tags, and the newest documents of these tags."""

    cosines: dict[int, float]
    tags: Mapping[int, float]
    tagged: Sequence[int]


class Search:
    def __init__(
        self,
        database: Database,
        documents: DocumentRows,
        nearness: Nearness,
        chunks: ChunkVectors,
        weights: Weights,
    ) -> None:
        self._database = database
        self._postgres = database.postgres
        self._documents = documents
        self._nearness = nearness
        self._chunks = chunks
        self._weights = weights

    async def search(self, request: SearchRequest) -> SearchPage:
        """Raises RequestError for a cursor of another search."""
        mark = request.mark
        score, after_id, shown, scale = None, "", 0, []
        if request.cursor is not None:
            score, after_id, shown, scale = cursors.read(request.cursor, mark, float, str, int, list)
        depth = min(_MAX_DEPTH, max(_DEPTH, 2 * (shown + request.limit)))
        field = await self._field(request)
        if field.narrowing.impossible:
            return SearchPage(())
        # Words and meaning at the same time, each on a connection of its own, and none is held while waiting for one.
        by_words, by_meaning = await asyncio.gather(
            self._by_words(request, field, scale, depth), self._by_meaning(request, field, depth)
        )
        read, _ = by_words
        ranked = await self._ranked(request, field, by_words, by_meaning)
        if request.vector is not None:
            ranked = await self._with_chunks(request.vector, ranked)
        ranked = [one for one in ranked if one.score >= _LEAST_SCORE]
        if score is not None:
            ranked = [one for one in ranked if one.key > (-score, after_id)]
        page = ranked[: request.limit]
        hits = await self._hits(request.team, read, page)
        more = len(ranked) > request.limit
        # The next page is measured as this one was: what comes in meanwhile makes no word rarer or more common.
        last = (
            cursors.write(mark, page[-1].score, page[-1].id, shown + len(page), read.scale) if more else None
        )
        return SearchPage(tuple(hits), last, read.corrections)

    async def _field(self, request: SearchRequest) -> _Field:
        if request.filters == DocumentFilters():
            return _Field(Narrowing(request.team, ()))
        async with self._database.reading() as connection:
            narrowing = await self._documents.narrowing(connection, request.team, request.filters)
            if request.filters.text and not narrowing.impossible:
                lists = word_listing.newest(
                    connection, request.team, request.filters.text, _MAX_DEPTH, postgres=self._postgres
                )
                pks = [pk async for some in lists for pk in some]
                narrowing = narrowing.among(pks, postgres=self._postgres)
            few = None if narrowing.impossible else await _few(connection, narrowing)
        return _Field(narrowing, few)

    async def _by_words(
        self, request: SearchRequest, field: _Field, scale: Sequence[object], depth: int
    ) -> tuple[ReadQuery, CandidateDocuments]:
        """The query as it was understood, and the documents that have its words."""
        async with self._database.reading(as_one=field.few is not None) as connection:
            read = await query_reading.read(connection, request.team, request.query, postgres=self._postgres)
            read = read.measured_by(scale)
            if not self._weights.text:
                return read, CandidateDocuments({})
            lists, meanings = _plan(read, depth, None if field.few is None else len(field.few))
            # Other teams' documents end at `_pieces`; here they only take up room, unless there are many.
            scope = postings.Scope(
                request.team if read.statistics.crowded else None,
                read.statistics.last_pk,
                read.statistics.pieces_each,
                field.few,
            )
            answers = await postings.ask(connection, scope, lists, postgres=self._postgres)
        found = list(zip(meanings, answers, strict=True))
        # What is in a document's first piece, its title, tags and summary, counts as much as if asked for apart.
        found += [((numbers, LEVELS["head"]), _heads(ids)) for (numbers, _), ids in found]
        return read, best_documents(found, [group.rarity for group in read.groups], depth)

    async def _by_meaning(self, request: SearchRequest, field: _Field, depth: int) -> _Near:
        """The documents whose vectors are nearest, and the tags that are near, with their newest documents."""
        team, vector = request.team, request.vector
        if vector is None:
            return _Near({}, {}, ())
        # Where filters leave many documents they are applied afterwards, so more have to be there.
        most = depth * _FILTERED_DEPTH if field.narrowing.narrow and field.few is None else depth
        async with self._database.reading() as connection:
            cosines, found = await self._nearness.nearest(connection, team, vector, (most, _TAGS), field.few)
            if most > depth:
                passing = await self._passing(connection, field.narrowing, cosines)
                nearest = sorted(passing, key=lambda pk: -cosines[pk])[:depth]
                cosines = {pk: cosines[pk] for pk in nearest}
            tags = {pk: cosine for pk, cosine in found.items() if ranking.tag_score(cosine) > 0}
            tagged = await _newest_of_tags(connection, tags)
        return _Near(cosines, tags, tagged)

    async def _passing(
        self, connection: AsyncConnection, narrowing: Narrowing, pks: Collection[int]
    ) -> set[int]:
        """Those of the documents that are the team's and pass the filters."""
        known = one_of(DOCUMENTS.c.pk, pks, postgres=self._postgres)
        rows = await connection.execute(select(DOCUMENTS.c.pk).where(known, narrowing.of_found()))
        return set(rows.scalars())

    async def _ranked(
        self,
        request: SearchRequest,
        field: _Field,
        words_found: tuple[ReadQuery, CandidateDocuments],
        near: _Near,
    ) -> list[_Scored]:
        read, by_words = words_found
        pks = {*by_words.pieces, *near.cosines, *near.tagged}
        pieces = {pk: by_words.best_pieces(pk) for pk in pks}
        (cosines, tags), there = await asyncio.gather(
            self._cosines(request, near, pks),
            self._pieces(field.narrowing, [one for some in pieces.values() for one in some]),
        )
        counting = ranking.WordsOfQuery(read.groups, read.usual_length)
        scored = []
        for pk, (document_id, words) in there.items():
            own = [words[piece] for piece in pieces[pk] if piece in words]
            head = [word for head_words, _ in own for word in head_words.split()]
            parts = {
                "text": counting.score(head, [body.split() for _, body in own]),
                "summary": ranking.summary_score(cosines.get(pk, 0.0)),
                "tags": ranking.tag_score(tags.get(pk, 0.0)),
                "chunk": 0.0,
            }
            score = ranking.mixed(self._weights, parts)
            scored.append(_Scored(pk, document_id, score, parts, pieces[pk]))
        return sorted(scored, key=lambda one: one.key)

    async def _with_chunks(self, vector: Vector, ranked: Sequence[_Scored]) -> list[_Scored]:
        """The same with the nearest chunk of each of the first documents, which can only raise their scores.

        So none of the others comes before one of them, and pages that follow each other stay apart.
        """
        nearest = await self._chunks.nearest([one.pk for one in ranked], vector)
        found = [self._with_chunk(one, nearest.get(one.pk)) for one in ranked]
        return sorted(found, key=lambda one: one.key)

    def _with_chunk(self, one: _Scored, nearest: NearestPiece | None) -> _Scored:
        if nearest is None:
            return one
        parts = {**one.parts, "chunk": ranking.summary_score(nearest.cosine)}
        return replace(one, score=ranking.mixed(self._weights, parts), parts=parts, nearest=nearest)

    async def _cosines(
        self, request: SearchRequest, near: _Near, pks: Collection[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """How near each of these documents is, and how near the nearest of its tags."""
        if request.vector is None:
            return {}, {}
        missing = sorted(set(pks) - near.cosines.keys())
        async with self._database.reading() as connection:
            others = await self._nearness.of_documents(connection, request.team, request.vector, missing)
            return near.cosines | others, await self._tag_cosines(connection, near.tags, pks)

    async def _tag_cosines(
        self, connection: AsyncConnection, tags: Mapping[int, float], pks: Collection[int]
    ) -> dict[int, float]:
        """How near the nearest tag of each of these documents is, where it has one of these tags."""
        if not tags:
            return {}
        rows = await connection.execute(
            select(ASSIGNMENTS.c.document_pk, ASSIGNMENTS.c.tag_pk).where(
                ASSIGNMENTS.c.tag_pk.in_(tags),
                one_of(ASSIGNMENTS.c.document_pk, pks, postgres=self._postgres),
            )
        )
        found: dict[int, float] = {}
        for document_pk, tag_pk in rows:
            found[document_pk] = max(found.get(document_pk, 0.0), tags[tag_pk])
        return found

    async def _pieces(
        self, narrowing: Narrowing, piece_ids: Sequence[int]
    ) -> dict[int, tuple[str, dict[int, tuple[str, str]]]]:
        """Of the documents that are the team's and pass the filters: the id, and words of head and body by piece."""
        query = (
            select(DOCUMENTS.c.pk, DOCUMENTS.c.id, PIECES.c.id, PIECES.c.head, PIECES.c.body)
            .join_from(PIECES, DOCUMENTS, DOCUMENTS.c.pk == PIECES.c.document_pk)
            .where(one_of(PIECES.c.id, piece_ids, postgres=self._postgres), narrowing.of_found())
        )
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).all()
        found: dict[int, tuple[str, dict[int, tuple[str, str]]]] = {}
        for pk, document_id, piece_id, head, body in rows:
            found.setdefault(pk, (document_id, {}))[1][piece_id] = (head, body)
        return found

    async def _hits(self, team: str, read: ReadQuery, page: Sequence[_Scored]) -> list[SearchHit]:
        pks = [one.pk for one in page]
        # The best piece of the content; where only the head fits, the summary; where there is none, the beginning.
        pieces = [piece for one in page for piece in (*one.pieces, _first(one), *_nearest(one))]
        async with self._database.reading() as connection:
            rows = await connection.execute(
                select(DOCUMENTS).where(one_of(DOCUMENTS.c.pk, pks, postgres=self._postgres), of_team(team))
            )
            found = {row.pk: row_mapping.document(row) for row in rows.all()}
            texts = await postings.texts_of(connection, pieces, postgres=self._postgres)
        wanted = {
            form: group.rarity * weight for group in read.groups for form, weight in group.forms.items()
        }
        hits = []
        for one in page:
            if one.pk not in found:
                continue
            document = found[one.pk]
            order = (*one.pieces[1:], one.pieces[0], _first(one))
            by_words = [texts[piece] for piece in order if piece in texts]
            shown = best_snippet(self._with_nearest(read, one, texts, by_words), wanted)
            marked = highlights(document.title or "", wanted)
            hits.append(SearchHit(document, one.score, shown, marked, one.parts))
        return hits

    def _with_nearest(
        self, read: ReadQuery, one: _Scored, texts: Mapping[int, StoredPiece], by_words: list[StoredPiece]
    ) -> list[StoredPiece]:
        """The pieces to show, best first: the chunk that is nearest alone if it fits better than one by words."""
        nearest = next((texts[piece] for piece in _nearest(one) if piece in texts), None)
        # Compared by its text: a process of an earlier version may have replaced it without a new vector.
        if nearest is None or one.nearest is None or text_key(nearest.text) != one.nearest.key:
            return by_words
        best = max((_share(read, texts[piece]) for piece in one.pieces[1:] if piece in texts), default=0.0)
        more = self._weights.text * (best - _share(read, nearest))
        return [nearest] if self._weights.summary * one.parts["chunk"] > more else by_words


def _share(read: ReadQuery, piece: StoredPiece) -> float:
    """How much of the query's words is in a piece, the rare ones counting more."""
    forms = {form for group in read.groups for form in group.forms}
    there = words_in(piece.text, forms)
    found = sum(group.rarity for group in read.groups if not there.isdisjoint(group.forms))
    return found / (sum(group.rarity for group in read.groups) or 1.0)


def _first(one: _Scored) -> int:
    """The first piece of the content."""
    return (one.pk << PIECE_BITS) + 1


def _nearest(one: _Scored) -> list[int]:
    return [] if one.nearest is None else [(one.pk << PIECE_BITS) + one.nearest.number]


def _plan(read: ReadQuery, depth: int, few: int | None) -> tuple[list[postings.PostingQuery], list[Meaning]]:
    """Which lists to ask for: all of the rare words; of the common ones only where there is nothing rarer.

    What a common word adds is still counted when the texts are read. Where filters leave `few` documents, each
    list costs going through them, so there are no more than needed: if more of them have the rarest word than are
    wanted, those that have all words; else all that have it are read, and some that have the next.
    """
    lists: list[postings.PostingQuery] = []
    meanings: list[Meaning] = []
    usable = _usable(read)
    rare = [number for number in usable if read.counts[number] <= _COMMON]
    enough = few is not None and usable and read.counts[usable[0]] * few > depth * read.statistics.last_pk
    for number in rare or usable[: 1 if enough else 2]:
        forms = (tuple(read.groups[number].forms),)
        whole = bool(rare) or few is not None
        # Of few documents all are read, wherever they have the word.
        columns = [] if few is not None or (rare and read.counts[number] <= _DEPTH) else ["often"]
        columns += ["all"] if whole or len(usable) == 1 else []
        columns += [] if whole else ["head"]
        for column in columns:
            most = _COMMON if rare and column == "all" else _NEWEST * depth
            count = read.counts[number] * _SHARES[column]
            lists.append(postings.PostingQuery(forms, column, most, expected=count, looked_at=count))
            meanings.append(((number,), LEVELS[column]))
    if len(usable) > 1 and (few is None or enough):
        lists.append(_everything(read, usable, _NEWEST * depth))
        meanings.append((tuple(usable), LEVELS["all"]))
    return lists, meanings


def _usable(read: ReadQuery) -> list[int]:
    """Returns the words that the index knows, by number; the rarest first."""
    there = (number for number, group in enumerate(read.groups) if group.forms)
    return sorted(there, key=lambda number: read.counts[number])


def _everything(read: ReadQuery, usable: Sequence[int], most: int) -> postings.PostingQuery:
    groups = tuple(tuple(read.groups[number].forms) for number in usable)
    last_pk = read.statistics.last_pk
    expected = last_pk * math.prod(min(1.0, read.counts[number] / last_pk) for number in usable)
    return postings.PostingQuery(groups, "all", most, expected, looked_at=read.counts[usable[0]])


def _heads(piece_ids: Sequence[int]) -> list[int]:
    return [piece for piece in piece_ids if piece % (1 << PIECE_BITS) == 0]


async def _newest_of_tags(connection: AsyncConnection, tag_pks: Collection[int]) -> Sequence[int]:
    if not tag_pks:
        return ()
    newest = [
        select(ASSIGNMENTS.c.document_pk)
        .where(ASSIGNMENTS.c.tag_pk == tag_pk)
        .order_by(ASSIGNMENTS.c.seq.desc())
        .limit(_DOCUMENTS_OF_TAG)
        .subquery()
        for tag_pk in tag_pks
    ]
    rows = await connection.execute(union_all(*(select(one.c.document_pk) for one in newest)))
    return [int(pk) for pk in rows.scalars()]


async def _few(connection: AsyncConnection, narrowing: Narrowing) -> list[int] | None:
    """The documents that the filters leave, if they are few: then the indexes are asked for those alone."""
    if not narrowing.narrow:
        return None
    some = narrowing.keys().limit(_FEW_DOCUMENTS + 1).subquery()
    # As one row: rows cost more than what is in them.
    gathered = func.aggregate_strings(cast(some.c[0], String), ",")
    found = (await connection.execute(select(func.count(), gathered).select_from(some))).one()
    if found[0] > _FEW_DOCUMENTS:
        return None
    return sorted(map(int, found[1].split(",")), reverse=True) if found[0] else []
