"""Which pieces have some words, against going through all of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from sqlalchemy import text

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.database.database import Database
from quire.catalog.database.schema import PIECE_BITS
from quire.catalog.search import postings
from quire.catalog.search.postings import PostingQuery, Scope
from tests.catalog.bulk import MadeVault, load

DOCUMENTS = 300
Pieces = dict[int, set[str]]


def wanted_of(pieces: Pieces, among: Sequence[int], groups: tuple[tuple[str, ...], ...]) -> list[int]:
    return [
        piece
        for piece in sorted(pieces, reverse=True)
        if piece >> PIECE_BITS in among and all(not pieces[piece].isdisjoint(group) for group in groups)
    ]


@pytest.mark.parametrize("walked_meanwhile", [0, 80, 1_000_000])
async def test_pieces_of_listed_documents_are_found_however_they_are_looked_for(
    options: CatalogOptions, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, walked_meanwhile: int
) -> None:
    # From "read whenever the word is there at all" to "never": only what it costs may differ.
    monkeypatch.setattr(postings, "_WALKED_MEANWHILE", walked_meanwhile)
    vault = MadeVault(DOCUMENTS, "bench:256")
    database = Database.on_postgres(options.url, 1) if options.url else Database.on_sqlite(options.file, 1)
    await load(database, vault)
    async with database.reading() as connection:
        rows = (await connection.execute(text("SELECT id, head, body FROM document_pieces"))).all()
    pieces: Pieces = {row[0]: {*row[1].split(), *row[2].split()} for row in rows}
    keys = sorted({piece >> PIECE_BITS for piece in pieces}, reverse=True)
    chance = random.Random(5)
    found, cut = 0, 0
    for size in (0, 1, 3, 30, 250):
        among = sorted(chance.sample(keys, size), reverse=True)
        asked, wanted = [], []
        for limit in (5, 40, 10_000):
            groups = tuple(
                tuple(vault.words[int(2_000 ** chance.random())] for _ in range(chance.randint(1, 3)))
                for _ in range(chance.randint(1, 2))
            )
            expected = len(wanted_of(pieces, keys, groups))
            rarest = min(len(wanted_of(pieces, keys, (group,))) for group in groups)
            asked.append(PostingQuery(groups, "all", limit, expected, looked_at=rarest))
            wanted.append(wanted_of(pieces, among, groups))
        async with database.reading(as_one=True) as connection:
            scope = Scope(None, keys[0], len(pieces) / len(keys), among)
            answers = await postings.ask(connection, scope, asked, postgres=database.postgres)
        for one, all_of_them, answer in zip(asked, wanted, answers, strict=True):
            if len(all_of_them) <= one.limit // 4:
                assert answer == all_of_them
            else:
                # The newest, and perhaps not quite as many as asked for where only the newest documents are read.
                assert answer == all_of_them[: len(answer)]
                assert len(answer) <= one.limit
                cut += 1
                assert len(answer) >= min(one.limit, len(all_of_them)) // 4
            found += len(answer)
    await database.close()
    assert found > 100
    assert cut > 2
