"""Many made documents, put into the tables many at a time: for the bench, which has no time for one by one."""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
from sqlalchemy import insert, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database
from quire.catalog.database.schema import ASSIGNMENTS, CHUNK_VECTORS, DOCUMENTS, TAGS
from quire.catalog.search import search_index
from quire.catalog.search.chunk_sheet import packed_sheet, packed_vector
from quire.catalog.search.text_pieces import TextPiece
from quire.catalog.search.vector_rows import as_text
from quire.catalog.search.word_rules import slug
from quire.domain.vault_document import Vector

TEAM = "bench"
_DIMS = 256
_WORDS = 60_000
_AT_A_TIME = 2_000
_CHUNKS = 4
"""Vectors of chunks that each document has, as if it were of several pages."""
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su", "ta", "ve",
              "wi", "xo", "yu", "za", "bri", "cle", "dro", "fla", "gre")  # fmt: skip


class MadeVault:
    """Documents by their number; the same ones each time."""

    def __init__(self, documents: int, model: str, *, spacing: int = 1) -> None:
        self.documents = documents
        self.model = model
        self.spacing = spacing
        """How far their keys are apart, as if other teams' were between them."""
        chance = random.Random(11)
        made: dict[str, None] = {}
        while len(made) < _WORDS:
            made["".join(chance.choice(_SYLLABLES) for _ in range(chance.randint(2, 5)))] = None
        self.words = list(made)
        self.tags = [f"{self.words[n]} {self.words[n + 900]}" for n in range(100, 900)]
        # Zipf's law: the word of rank n is found about 1/n as often as the first.
        self._chances = 1 / np.arange(1, _WORDS + 1)
        self._chances /= self._chances.sum()
        # Real vectors differ much along some directions and little along others; these do as those of the local model.
        self._spread = np.arange(1, _DIMS + 1) ** -0.5
        self._topics = (np.random.default_rng(5).normal(size=(200, _DIMS)) * self._spread).astype(np.float32)

    def texts(self, first: int, many: int) -> list[list[str]]:
        drawn = np.random.default_rng(first).choice(_WORDS, size=(many, 190), p=self._chances)
        return [[self.words[n] for n in row] for row in drawn]

    def vectors(self, first: int, many: int) -> np.ndarray:  # type: ignore[type-arg]
        chance = np.random.default_rng(first + 1)
        rows = (
            self._topics[chance.integers(0, 200, many)]
            + chance.normal(size=(many, _DIMS)) * self._spread * 0.8
        )
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)  # type: ignore[no-any-return]

    def query(self, chance: random.Random, kind: str = "any") -> str:
        ranks = {"rare": (2_000, 40_000), "common": (3, 300), "one": (3, 60)}.get(kind, (3, 40_000))
        many = 1 if kind == "one" else chance.randint(1, 4)
        low, high = np.log(ranks[0]), np.log(ranks[1])
        found = [self.words[int(np.exp(chance.uniform(low, high)))] for _ in range(many)]
        if kind == "misspelt" or (kind == "any" and chance.random() < 0.2):
            at = chance.randrange(len(found))
            word = found[at]
            cut = chance.randrange(1, len(word) - 1)
            found[at] = word[:cut] + chance.choice("aeioust") + word[cut + 1 :]
        return " ".join(found)

    def query_vector(self, chance: random.Random) -> Vector:
        topic = self._topics[chance.randrange(200)]
        noise = np.random.default_rng(chance.randrange(1 << 30)).normal(size=_DIMS) * self._spread * 0.6
        return Vector(self.model, topic + noise)


async def load(database: Database, vault: MadeVault) -> bool:
    """Fills the tables, unless they are full already; whether it had to."""
    async with database.reading() as connection:
        if (await connection.execute(text("SELECT count(*) FROM documents"))).scalar():
            return False
    counts: Counter[str] = Counter()
    uses: Counter[int] = Counter()

    async def tags(connection: AsyncConnection) -> None:
        rows = [
            {"pk": n + 1, "team": TEAM, "slug": slug(name), "name": name, "uses": 0}
            for n, name in enumerate(vault.tags)
        ]
        await connection.execute(insert(TAGS), rows)
        if database.postgres:  # made again when the rows are there, which is many times quicker
            await connection.execute(text("DROP INDEX document_pieces_words"))

    await database.write(tags)
    for first in range(0, vault.documents, _AT_A_TIME):

        async def some(connection: AsyncConnection, first: int = first) -> None:
            await _some(connection, vault, first, counts, uses, postgres=database.postgres)

        await database.write(some)

    async def totals(connection: AsyncConnection) -> None:
        await connection.execute(
            text(
                "INSERT INTO catalog_teams (team, documents_made, words, pieces, vector_changes) "
                "VALUES (:team, :many, :words, :pieces, :many)"
            ),
            {
                "team": TEAM,
                "many": vault.documents,
                "words": vault.documents * 190,
                "pieces": vault.documents * 2,
            },
        )
        rows = [
            {"team": TEAM, "term": one, "reversed": one[::-1], "documents": many}
            for one, many in counts.items()
        ]
        await connection.execute(
            text(
                "INSERT INTO search_terms (team, term, reversed, documents) "
                "VALUES (:team, :term, :reversed, :documents)"
            ),
            rows,
        )
        await connection.execute(
            text("UPDATE document_tags SET uses = :uses WHERE pk = :pk"),
            [{"pk": pk, "uses": many} for pk, many in uses.items()],
        )

    await database.write(totals)
    if database.postgres:

        async def index(connection: AsyncConnection) -> None:
            await connection.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
            await connection.execute(
                text(
                    "CREATE INDEX document_pieces_words ON document_pieces USING gin (words) "
                    "WITH (fastupdate = off)"
                )
            )
            await connection.execute(
                text(
                    "CREATE INDEX document_embeddings_nearest_256 ON document_embeddings USING hnsw "
                    r"((embedding\:\:halfvec(256)) halfvec_cosine_ops) WHERE dims = 256"
                )
            )
            for table in (
                "documents",
                "document_pieces",
                "document_embeddings",
                "document_chunk_embeddings",
                "search_terms",
                "document_tag_assignments",
            ):
                await connection.execute(text(f"ANALYZE {table}"))

        await database.write(index)
    return True


async def _some(
    connection: AsyncConnection,
    vault: MadeVault,
    first: int,
    counts: Counter[str],
    uses: Counter[int],
    *,
    postgres: bool,
) -> None:
    chance = random.Random(first)
    many = min(_AT_A_TIME, vault.documents - first)
    documents, assignments, pieces = [], [], []
    for offset, words in enumerate(vault.texts(first, many)):
        pk = (first + offset) * vault.spacing + 1
        drawn = sorted({min(799, int(chance.expovariate(1 / 120))) for _ in range(3)})
        for tag in drawn:
            assignments.append({"document_pk": pk, "tag_pk": tag + 1, "team": TEAM, "seq": pk})
            uses[tag + 1] += 1
        title, summary, body = " ".join(words[:6]), " ".join(words[6:36]), " ".join(words[36:])
        state = chance.random()
        status = "failed" if state < 0.01 else "pending" if state < 0.012 else "completed"
        documents.append(
            {
                "pk": pk, "team": TEAM, "id": f"{pk:08x}", "seq": pk, "filename": f"scan{pk}.pdf",
                "content_ref": f"vault/{pk}", "content_hash": f"{pk:064x}", "size_bytes": pk, "source": "upload",
                "kind": chance.choices(["pdf", "png", "docx", "txt"], [80, 10, 8, 2])[0],
                "content_type": "application/pdf", "status": status, "attempt": 1,
                "created_at": 1.7e9 + pk, "updated_at": 1.7e9 + pk, "pending_since": 1.7e9 + pk,
                "title": None if state > 0.98 else title, "summary": summary,
                "date": f"20{chance.randint(10, 25)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
                "language": chance.choices(["en", "de", "fr", "sv"], [70, 20, 9.9, 0.1])[0],
                "tags": json.dumps([vault.tags[tag] for tag in drawn]), "metadata": "{}",
            }
        )  # fmt: skip
        names = [vault.tags[tag] for tag in drawn]
        head = search_index.prepare_head(title, names, f"scan{pk}.pdf", summary, postgres=postgres)
        rest = search_index.prepare_body([TextPiece(1, 1, body)], postgres=postgres)
        counts.update(head.words)
        counts.update(rest.words)
        pieces += [(pk, piece) for piece in (*head.pieces, *rest.pieces)]
    await connection.execute(insert(DOCUMENTS), documents)
    await connection.execute(insert(ASSIGNMENTS), assignments)
    rows = [search_index.piece_row(TEAM, pk, piece) for pk, piece in pieces]
    await search_index.insert_rows(connection, rows, postgres=postgres)
    values = vault.vectors(first, many)
    place = "CAST(CAST(:embedding AS text) AS halfvec)" if postgres else ":embedding"
    await connection.execute(
        text(
            "INSERT INTO document_embeddings (document_pk, team, model, dims, text_hash, change, embedding) "
            f"VALUES (:pk, :team, :model, 256, '', :pk, {place})"
        ),
        [
            {
                "pk": (first + offset) * vault.spacing + 1,
                "team": TEAM,
                "model": vault.model,
                "embedding": as_text(row) if postgres else row.astype("<f2").tobytes(),
            }
            for offset, row in enumerate(values)
        ],
    )
    chunks = [packed_vector(row) for row in vault.vectors(first + 1, _CHUNKS * many)]
    await connection.execute(
        insert(CHUNK_VECTORS),
        [
            {
                "document_pk": (first + offset) * vault.spacing + 1,
                "revision": 1, "state": 2, "model": vault.model, "dims": _DIMS, "chunks": _CHUNKS, "most": 4_000,
                "sheet": packed_sheet(
                    [(n + 1, n) for n in range(_CHUNKS)], dict(enumerate(chunks[_CHUNKS * offset :][:_CHUNKS]))
                ),
            }
            for offset in range(many)
        ],
    )  # fmt: skip
