"""Search: the words of the documents and their meaning, ranked together.

The database answers which pieces have a word and which vectors are near. That is bounded: of a common word only the
pieces of the newest documents are looked at, so a search takes about as long in a large vault as in a small one.
What was found is then ranked by `ranking`, the same way on both databases.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog import cursors, postings, queries, ranking, records
from quire.catalog.candidates import Candidates, Meaning, best_documents
from quire.catalog.database import Database
from quire.catalog.documents import Documents
from quire.catalog.filters import Narrowing, of_team, one_of
from quire.catalog.nearness import Nearness
from quire.catalog.queries import ReadQuery
from quire.catalog.ranking import LEVELS, Weights
from quire.catalog.snippets import best_snippet, highlights
from quire.catalog.tables import ASSIGNMENTS, DOCUMENTS, PIECE_BITS
from quire.domain.documents import DocumentFilters, SearchHit, SearchPage, Vector

_COMMON = 1_500
_HEADS = 500
_FEW_DOCUMENTS = 5_000
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

    @property
    def key(self) -> tuple[float, str]:
        return (-self.score, self.id)


class Search:
    def __init__(
        self, database: Database, documents: Documents, nearness: Nearness, weights: Weights
    ) -> None:
        self._database = database
        self._postgres = database.postgres
        self._documents = documents
        self._nearness = nearness
        self._weights = weights

    async def search(self, request: SearchRequest) -> SearchPage:
        """Raises RequestError for a cursor of another search."""
        mark = request.mark
        score, after_id, shown, scale = None, "", 0, []
        if request.cursor is not None:
            score, after_id, shown, scale = cursors.read(request.cursor, mark, float, str, int, list)
        depth = min(_MAX_DEPTH, max(_DEPTH, 2 * (shown + request.limit)))
        async with self._database.reading() as connection:
            narrowing = await self._documents.narrowing(connection, request.team, request.filters)
            if narrowing.impossible:
                return SearchPage(())
            read = (await queries.read(connection, request.team, request.query)).measured_by(scale)
            ranked = await self._ranked(connection, request, read, narrowing, depth)
            if score is not None:
                ranked = [one for one in ranked if one.key > (-score, after_id)]
            page = ranked[: request.limit]
            hits = await self._hits(connection, request.team, read, page)
        more = len(ranked) > request.limit
        # The next page is measured as this one was: what comes in meanwhile makes no word rarer or more common.
        last = (
            cursors.write(mark, page[-1].score, page[-1].id, shown + len(page), read.scale) if more else None
        )
        return SearchPage(tuple(hits), last, read.corrections)

    async def _ranked(
        self,
        connection: AsyncConnection,
        request: SearchRequest,
        read: ReadQuery,
        narrowing: Narrowing,
        depth: int,
    ) -> list[_Scored]:
        team, vector = request.team, request.vector
        among = await _few(connection, narrowing)
        by_words = Candidates({})
        if self._weights.text:
            lists, meanings = _plan(read)
            # Other teams' documents end at `_ids`; here they only take up room, unless there are many.
            scope = postings.Scope(team if read.crowded else None, read.last_pk, among)
            answers = await postings.ask(connection, scope, lists, postgres=self._postgres)
            rarities = [group.rarity for group in read.groups]
            by_words = best_documents(list(zip(meanings, answers, strict=True)), rarities, depth)
        pks = set(by_words.pieces)
        cosines: dict[int, float] = {}
        tags: dict[int, float] = {}
        if vector is not None:
            # Where filters leave many documents they are applied afterwards, so more have to be there.
            most = depth * _FILTERED_DEPTH if narrowing.narrow and among is None else depth
            cosines = await self._nearness.documents(connection, team, vector, most, among)
            pks |= set(cosines)
            tags = await self._by_tags(connection, team, vector, pks)
            pks |= set(tags)
            missing = sorted(pks - set(cosines))
            cosines |= await self._nearness.of_documents(connection, team, vector, missing)
        ids = await self._ids(connection, narrowing, pks)
        pieces = {pk: by_words.best_pieces(pk) for pk in ids}
        piece_ids = [one for some in pieces.values() for one in some]
        words = await postings.words_of(connection, piece_ids, postgres=self._postgres)
        counting = ranking.WordsOfQuery(read.groups, read.usual_length)
        scored = []
        for pk, document_id in ids.items():
            there = [words[piece] for piece in pieces[pk] if piece in words]
            head = [word for head_words, _ in there for word in head_words]
            parts = {
                "text": counting.score(head, [body for _, body in there]),
                "summary": ranking.summary_score(cosines.get(pk, 0.0)),
                "tags": ranking.tag_score(tags.get(pk, 0.0)),
            }
            score = ranking.mixed(self._weights, parts["text"], parts["summary"], parts["tags"])
            if score >= _LEAST_SCORE:
                scored.append(_Scored(pk, document_id, score, parts, pieces[pk]))
        return sorted(scored, key=lambda one: one.key)

    async def _by_tags(
        self, connection: AsyncConnection, team: str, vector: Vector, known: Collection[int]
    ) -> dict[int, float]:
        """Documents with a tag that means something like the query: the newest, and those found already."""
        near = await self._nearness.tags(connection, team, vector, _TAGS)
        near = {pk: cosine for pk, cosine in near.items() if ranking.tag_score(cosine) > 0}
        if not near:
            return {}
        documents = set(known)
        for tag_pk in near:
            rows = await connection.execute(
                select(ASSIGNMENTS.c.document_pk)
                .where(ASSIGNMENTS.c.tag_pk == tag_pk)
                .order_by(ASSIGNMENTS.c.seq.desc())
                .limit(_DOCUMENTS_OF_TAG)
            )
            documents.update(rows.scalars())
        rows = await connection.execute(
            select(ASSIGNMENTS.c.document_pk, ASSIGNMENTS.c.tag_pk).where(
                ASSIGNMENTS.c.tag_pk.in_(near),
                one_of(ASSIGNMENTS.c.document_pk, documents, postgres=self._postgres),
            )
        )
        found: dict[int, float] = {}
        for document_pk, tag_pk in rows:
            found[document_pk] = max(found.get(document_pk, 0.0), near[tag_pk])
        return found

    async def _ids(
        self, connection: AsyncConnection, narrowing: Narrowing, pks: Collection[int]
    ) -> dict[int, str]:
        """The ids of those documents that are the team's and pass the filters."""
        if not pks:
            return {}
        rows = await connection.execute(
            select(DOCUMENTS.c.pk, DOCUMENTS.c.id).where(narrowing.where_among(pks, postgres=self._postgres))
        )
        return {int(pk): str(document_id) for pk, document_id in rows}

    async def _hits(
        self, connection: AsyncConnection, team: str, read: ReadQuery, page: Sequence[_Scored]
    ) -> list[SearchHit]:
        pks = [one.pk for one in page]
        rows = await connection.execute(
            select(DOCUMENTS).where(one_of(DOCUMENTS.c.pk, pks, postgres=self._postgres), of_team(team))
        )
        found = {row.pk: records.document(row) for row in rows}
        # The best piece of the content; where only the head fits, the summary; where there is none, the beginning.
        pieces = [piece for one in page for piece in (*one.pieces, (one.pk << PIECE_BITS) + 1)]
        texts = await postings.texts_of(connection, pieces, postgres=self._postgres)
        wanted = {
            form: group.rarity * weight for group in read.groups for form, weight in group.forms.items()
        }
        hits = []
        for one in page:
            if one.pk not in found:
                continue
            document = found[one.pk]
            order = (*one.pieces[1:], one.pieces[0], (one.pk << PIECE_BITS) + 1)
            shown = best_snippet([texts[piece] for piece in order if piece in texts], wanted)
            marked = highlights(document.title or "", wanted)
            hits.append(SearchHit(document, one.score, shown, marked, one.parts))
        return hits


def _plan(read: ReadQuery) -> tuple[list[postings.Asked], list[Meaning]]:
    """Which lists to ask for: all of the rare words; of the common ones only where there is nothing rarer.

    What a common word adds is still counted when the texts are looked at.
    """
    lists: list[postings.Asked] = []
    meanings: list[Meaning] = []
    usable = sorted(
        (number for number, group in enumerate(read.groups) if group.forms),
        key=lambda number: read.counts[number],
    )
    rare = [number for number in usable if read.counts[number] <= _COMMON]
    for number in rare or usable[:2]:
        forms = (tuple(read.groups[number].forms),)
        for column, most in (("head", _HEADS), ("often", _HEADS), ("all", _COMMON)):
            # Of few documents all will be looked at, wherever they have the word.
            wanted = read.counts[number] > _DEPTH if column != "all" else rare or len(usable) == 1
            if wanted:
                expected = read.counts[number] * _SHARES[column]
                lists.append(postings.Asked(forms, column, most, expected))
                meanings.append(((number,), LEVELS[column]))
    if len(usable) > 1:
        everything = tuple(tuple(read.groups[number].forms) for number in usable)
        expected = read.last_pk * math.prod(min(1.0, read.counts[n] / read.last_pk) for n in usable)
        lists.append(postings.Asked(everything, "all", _HEADS, expected))
        meanings.append((tuple(usable), LEVELS["all"]))
    return lists, meanings


async def _few(connection: AsyncConnection, narrowing: Narrowing) -> list[int] | None:
    """The documents that the filters leave, if they are few: then the indexes are asked for those alone."""
    if not narrowing.narrow:
        return None
    query = narrowing.newest_first([DOCUMENTS.c.pk], None)
    many = await connection.execute(query.offset(_FEW_DOCUMENTS).limit(1))  # counted there, not fetched
    if many.first() is not None:
        return None
    return [int(pk) for pk in (await connection.execute(query)).scalars()]
