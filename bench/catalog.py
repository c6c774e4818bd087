"""A vault of 100,000 made documents: how long lists and searches take, on SQLite and PostgreSQL.

    python bench/catalog.py [--documents 100000] [--database sqlite|postgres|both] [--rounds 200] [--keep FOLDER]

Documents are 150 words of a vocabulary of 60,000 with natural frequencies, with title, summary, tags and a vector.
Searches are of one to four words from the whole range of frequencies, some misspelt, some with filters, each with a
vector; the event loop is the service's. Everything is asked once without being measured. `bare` is one plain SQL query
of the same kind with the driver alone, to see what the rest costs. Each line ends with how long a fixed loop took
before and after, because hosts change their speed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import uvloop
from sqlalchemy import text
from tests.catalog.bulk import TEAM, MadeVault, load
from tests.support.postgres import PostgresServer

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.database.database import Database
from quire.clock import SystemClock
from quire.domain.vault_document import DocumentFilters, DocumentState

Case = Callable[[], Awaitable[object]]
MODEL = "bench:256"


async def timed(case: Case, rounds: int) -> tuple[float, float, float]:
    """Median and 95th percentile, and the median of this process's own CPU time, in milliseconds."""
    took, worked = [], []
    for _ in range(rounds):
        start, cpu = time.perf_counter(), time.process_time()
        await case()
        took.append((time.perf_counter() - start) * 1000)
        worked.append((time.process_time() - cpu) * 1000)
    took.sort()
    return statistics.median(took), took[int(len(took) * 0.95)], statistics.median(worked)


def speed() -> float:
    """How fast the machine is just now: milliseconds of CPU for the same few instructions."""
    cpu = time.process_time()
    sum(number * number for number in range(2_000_000))
    return (time.process_time() - cpu) * 1000


async def measure(options: CatalogOptions, documents: int, rounds: int) -> None:
    vault = MadeVault(documents, MODEL)
    database = Database.on_postgres(options.url, 2) if options.url else Database.on_sqlite(options.file, 2)
    catalog = await Catalog.open(options, SystemClock())
    start = time.perf_counter()
    made = await load(database, vault)
    if made:
        print(f"  loaded {documents} documents in {time.perf_counter() - start:.0f} s")
    chance = random.Random(7)
    start = time.perf_counter()
    await catalog.search(TEAM, vault.query(chance), query_vector=vault.query_vector(chance))
    print(f"  first search (vectors are read) {(time.perf_counter() - start) * 1000:.0f} ms")

    async def bare() -> None:
        async with database.reading() as connection:
            statement = "SELECT * FROM documents WHERE team = :team ORDER BY seq DESC LIMIT 50"
            (await connection.execute(text(statement), {"team": TEAM})).all()

    cursors: list[str | None] = [None]

    async def next_page() -> None:
        page = await catalog.list(TEAM, cursor=cursors[-1])
        cursors.append(page.next_cursor)

    def listed(*choices: DocumentFilters) -> Case:
        return lambda: catalog.list(TEAM, chance.choice(choices))

    def searched(kind: str = "any", *choices: DocumentFilters) -> Case:
        filters = choices or (DocumentFilters(),)
        return lambda: catalog.search(
            TEAM, vault.query(chance, kind), chance.choice(filters), query_vector=vault.query_vector(chance)
        )

    async def second_page() -> None:
        query, vector = vault.query(chance), vault.query_vector(chance)
        first = await catalog.search(TEAM, query, query_vector=vector)
        await catalog.search(TEAM, query, cursor=first.next_cursor, query_vector=vector)

    states = [DocumentFilters(state=state) for state in DocumentState]
    tags = [DocumentFilters(tags=(name,)) for name in vault.tags]
    dates = [
        DocumentFilters(date_from=f"20{n}-01-01", date_to=f"20{n}-{m:02}-28")
        for n in (15, 19, 24)
        for m in (1, 6, 12)
    ]
    others = [
        DocumentFilters(language="fr"),
        DocumentFilters(kinds=("png", "docx")),
        DocumentFilters(language="sv"),
    ]
    rare = [DocumentFilters(text=vault.query(chance, "rare")) for _ in range(50)]
    common = [DocumentFilters(text=vault.query(chance, "common")) for _ in range(50)]
    cases: dict[str, Case] = {
        "bare: newest 50": bare,
        "list: newest 50": lambda: catalog.list(TEAM),
        "list: pages in turn": next_page,
        "list: by state": listed(*states),
        "list: by tag": listed(*tags),
        "list: by date": listed(*dates),
        "list: by type, language": listed(*others),
        "list: by rare words": listed(*rare),
        "list: by common words": listed(*common),
        "list: all of these": listed(*states, *tags, *dates, *others, *rare, *common),
        "tags: suggestions": lambda: catalog.tags(TEAM, chance.choice("abcdefg")),
        "counts": lambda: catalog.counts(TEAM),
        "search: rare words": searched("rare"),
        "search: common words": searched("common"),
        "search: one common word": searched("one"),
        "search: misspelt": searched("misspelt"),
        "search: any, filtered": searched("any", *states, *tags, *dates, *others),
        "search: any": searched("any"),
        "search: without vector": lambda: catalog.search(TEAM, vault.query(chance)),
        "search: two pages": second_page,
    }
    # A server that runs has in memory what it is asked for; one that has just been started reads it from the disk.
    for case in cases.values():
        for _ in range(rounds):
            await case()
    for name, case in cases.items():
        before = speed()
        p50, p95, cpu = await timed(case, rounds)
        loop = (before + speed()) / 2
        print(
            f"  {name:26} p50 {p50:7.1f} ms   p95 {p95:7.1f} ms   CPU {cpu:6.1f} ms   fixed loop {loop:4.0f} ms",
            flush=True,
        )
    print(f"  (load {os.getloadavg()[0]:.1f})")
    await catalog.close()
    await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--keep", type=Path, help="a folder in which the databases stay for the next run")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quire-catalog-")))
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("sqlite", "postgres") if given.database == "both" else (given.database,):
            print(f"{name}, {given.documents} documents")
            file = folder / f"catalog-{given.documents}.db"
            url = ""
            if name == "postgres":
                server = PostgresServer(folder / f"postgres-{given.documents}")
                stack.callback(server.stop)
                url = server.database("bench")
            uvloop.run(measure(CatalogOptions(file=file, url=url), given.documents, given.rounds))


if __name__ == "__main__":
    main()
