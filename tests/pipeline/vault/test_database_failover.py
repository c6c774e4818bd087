"""A PostgreSQL primary is killed or demoted, and its streaming replica takes its place, while the vault is used."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.database.database import Database
from quire.catalog.database.postgres_address import PostgresAddress
from quire.domain.job import UnitKind, conversion_job_id
from quire.domain.vault_document import DocumentStatus
from quire.errors import CatalogError
from quire.pipeline.vault.vault import Vault
from tests.catalog.stored_documents import new
from tests.support.clocks import MovableClock
from tests.support.postgres_pair import PostgresPair
from tests.support.tls_doors import Certificate, PostgresDoor
from tests.support.vault_running import TEAM, add, row_of, settled, vault_at
from tests.support.waiting import until

NOTE = b"# Minutes\n\nThe committee met on 3 March 2025 and agreed on the budget of the library."
QUIET = {"LOCAL_CLASSIFIER": "0", "EMBEDDING_PROVIDER": "off"}


@pytest.fixture(scope="module")
def servers() -> Iterator[PostgresPair]:
    # Not under pytest's folder, where the user of the servers could not get to.
    folder = Path(tempfile.mkdtemp(prefix="quire-postgres-"))
    pair = PostgresPair(folder)
    yield pair
    pair.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def pair(servers: PostgresPair) -> PostgresPair:
    """With a replica that has all that its primary has."""
    if not servers.has_replica():
        servers.new_replica()
    servers.catch_up()
    return servers


async def is_there(vault: Vault, document_id: str) -> bool:
    try:
        return await (await vault.catalog()).find(TEAM, document_id) is not None
    except CatalogError:  # the primary was killed a moment ago
        return False


async def test_documents_are_put_back_when_the_primary_is_killed_and_its_replica_lags(
    tmp_path: Path, pair: PostgresPair
) -> None:
    url = pair.url("killed")
    settings = QUIET | {"DATABASE_URL": url, "VAULT_SWEEP_INTERVAL": "1s"}
    async with vault_at(tmp_path, **settings) as (_, vault):
        kept = await settled(vault, await add(vault, NOTE))
        pair.catch_up()
        pair.cut_replica_off()
        filed = await settled(vault, await add(vault, NOTE + b" Later."))
        fresh = await add(vault, NOTE + b" Later still.")
        count = "SELECT count(*) FROM documents"
        assert (pair.primary.ask(count, "killed"), pair.replica.ask(count, "killed")) == ("3", "1")

        await asyncio.to_thread(pair.fail_over)
        for document_id in (kept.id, filed.id, fresh):
            await until(lambda one=document_id: is_there(vault, one), f"the row of {document_id} is back")
        again = [await settled(vault, document_id) for document_id in (kept.id, filed.id, fresh)]
        later = await settled(vault, await add(vault, NOTE + b" After the failover."))
    assert {row.status for row in (*again, later)} == {DocumentStatus.COMPLETED}
    for before, after in ((kept, again[0]), (filed, again[1])):
        assert (after.title, after.content_ref, after.result_ref, after.pages) == (
            (before.title, before.content_ref, before.result_ref, before.pages)
        )


async def test_all_connections_are_dropped_when_a_write_is_refused(pair: PostgresPair) -> None:
    pair.url("dropped")
    url = f"postgresql://postgres@127.0.0.1:{pair.primary.port}/dropped"
    database = Database.on_postgres(url, 2)

    async def serving() -> set[int]:
        """The processes of the server behind two connections of the pool."""
        async with database.reading() as one, database.reading() as other:
            return {
                (await each.execute(text("SELECT pg_backend_pid()"))).scalar_one() for each in (one, other)
            }

    async def change(connection: AsyncConnection) -> None:
        await connection.execute(text("CREATE TABLE IF NOT EXISTS written (number integer)"))
        await connection.execute(text("INSERT INTO written VALUES (1)"))

    async def is_refused() -> bool:
        """The server reads its settings again a moment after it was told to."""
        try:
            await database.write(change)
        except CatalogError as error:
            return error.retryable
        return False

    try:
        before = await serving()
        pair.primary.set("default_transaction_read_only", "on")
        await until(is_refused, "a write is refused")
        after = await serving()
    finally:
        pair.primary.set("default_transaction_read_only", "off")
        await database.close()
    assert len(before) == len(after) == 2
    assert before.isdisjoint(after)


async def test_new_primary_is_written_to_when_the_old_one_is_demoted(pair: PostgresPair) -> None:
    options = CatalogOptions(file=Path(), url=pair.url("demoted"), pool_size=2)
    catalog = await Catalog.open(options, MovableClock())
    identity, run = catalog.identity, await catalog.run()
    await asyncio.gather(*(catalog.create(new(f"before-{number}")) for number in range(4)))
    pair.catch_up()
    pair.demote()
    tries = 0

    async def is_elsewhere() -> bool:
        """The server reads its settings again a moment after it was told to."""
        nonlocal tries
        tries += 1
        with contextlib.suppress(CatalogError):  # refused
            await catalog.create(new(f"during-{tries}"))
        return await catalog.run() != run

    await until(is_elsewhere, "the new primary answers")
    # No connection of the pool is left that reads from the server before.
    runs = {str(one) for one in await asyncio.gather(*(catalog.run() for _ in range(4)))}
    await catalog.create(new("after"))
    again = await Catalog.open(options, MovableClock())
    same = again.identity
    await again.close()
    await catalog.close()
    assert runs.isdisjoint({run})
    assert len(runs) == 1
    assert same == identity
    assert pair.primary.ask("SELECT count(*) FROM documents WHERE id = 'after'", "demoted") == "1"
    assert pair.replica.ask("SELECT count(*) FROM documents WHERE id = 'after'", "demoted") == "0"


async def test_server_is_left_without_a_write_when_it_is_demoted(pair: PostgresPair) -> None:
    options = CatalogOptions(file=Path(), url=pair.url("only_read"), pool_size=1)
    catalog = await Catalog.open(options, MovableClock())
    run = await catalog.run()
    pair.catch_up()
    pair.demote()

    async def is_elsewhere() -> bool:
        return await catalog.run() != run

    try:
        await until(is_elsewhere, "the new primary is asked")
    finally:
        await catalog.close()


async def test_no_attempt_is_counted_when_the_only_server_refuses_writes(
    tmp_path: Path, pair: PostgresPair
) -> None:
    pair.url("refusing")
    url = f"postgresql://postgres@127.0.0.1:{pair.primary.port}/refusing"
    settings = QUIET | {"DATABASE_URL": url, "VAULT_SWEEP_INTERVAL": "1d", "JOB_MAX_ATTEMPTS": "1"}
    kinds = [kind for kind in UnitKind if kind not in (UnitKind.VAULT, UnitKind.CLASSIFY)]
    async with vault_at(tmp_path, kinds=kinds, **settings) as (one, vault):
        document_id = await add(vault, NOTE)
        await one.engine.wait(TEAM, conversion_job_id(TEAM, document_id), 60)
    pair.primary.set("default_transaction_read_only", "on")
    try:
        async with vault_at(tmp_path, **settings) as (one, vault):

            async def is_postponed() -> bool:
                return (await one.parts.queues.depth(UnitKind.VAULT))["delayed"] > 0

            await until(is_postponed, "a postponed unit")
            assert (await row_of(vault, document_id)).status is DocumentStatus.PENDING  # still answers
            pair.primary.set("default_transaction_read_only", "off")
            row = await settled(vault, document_id)
    finally:
        pair.primary.set("default_transaction_read_only", "off")
    assert (row.status, row.attempt, row.pages) == (DocumentStatus.COMPLETED, 1, 1)


async def test_connection_ends_by_itself_when_its_host_is_silent(pair: PostgresPair) -> None:
    """As far as one host can show it: the kernel is told when to give the connection up."""
    connection = await PostgresAddress.read(pair.url("silent")).connect()
    try:
        found = connection._transport.get_extra_info("socket")
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    finally:
        await connection.close()


async def test_certificates_are_checked_both_ways_when_the_address_names_them(
    tmp_path: Path, pair: PostgresPair
) -> None:
    made = {}
    for name in ("server", "client", "stranger"):
        (tmp_path / name).mkdir()
        made[name] = Certificate.make(tmp_path / name)
    door = PostgresDoor(pair.primary.port, made["server"], of_clients=made["client"])
    pair.url("hidden")

    async def greeted(root: str, own: str) -> bool:
        files = f"sslrootcert={made[root].file}&sslcert={made[own].file}&sslkey={made[own].key_file}"
        url = f"postgresql://postgres@127.0.0.1:{door.port}/hidden?sslmode=verify-full&{files}"
        catalog = None
        try:
            catalog = await Catalog.open(CatalogOptions(file=Path(), url=url), MovableClock())
            await catalog.ping()
        except CatalogError:
            return False
        finally:
            if catalog is not None:
                await catalog.close()
        return True

    try:
        answers = [await greeted(*one) for one in (("server", "client"), ("stranger", "client"))]
        answers.append(await greeted("server", "stranger"))
    finally:
        door.close()
    assert answers == [True, False, False]
