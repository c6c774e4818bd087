"""Where a document has left something: in Redis, among the objects, in the catalog."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import redis.asyncio

from quire.bootstrap import Runtime
from quire.coordination import keys
from tests.support.stored_files import files_below


async def in_redis(one: Runtime, *traces: str) -> list[str]:
    """Keys whose name or value has one of the words. Left out are entries with only a random object name:
    a worker that holds the document may still write an object, and the housekeeper has to delete it."""
    client = _client(one.connection.url)
    try:
        found = []
        for key in await _all_keys(client):
            if key == keys.EXPIRY.encode() or key.startswith(keys.vault_deleted("").encode()):
                continue
            dumped = key + b" " + await _value(client, key)
            if any(trace.encode() in dumped for trace in traces):
                found.append(key.decode())
        return found
    finally:
        await client.aclose()


def in_files(folder: Path, *traces: str) -> list[str]:
    return [
        str(path)
        for path, content in files_below(folder).items()
        if any(trace in str(path) or trace.encode() in content for trace in traces)
    ]


async def in_catalog(one: Runtime, *traces: str) -> list[str]:
    """Tables, those behind the full text included, with rows that hold one of the words."""
    url = one.parts.settings.catalog.database_url
    if url:
        rows = await _rows_of_postgres(url)
    else:
        rows = _rows_of_sqlite(one.parts.settings.general.data_dir / "catalog.db")
    return [table for table, text in rows if any(trace in text for trace in traces)]


def _client(url: str) -> Any:
    """One that leaves values as they are: some are no text."""
    parts = urlsplit(url)
    if parts.scheme == "redis+cluster":
        plain = urlunsplit(parts._replace(scheme="redis"))
        return redis.asyncio.RedisCluster.from_url(plain, protocol=2)
    return redis.asyncio.Redis.from_url(url)


async def _all_keys(client: Any) -> list[bytes]:
    if isinstance(client, redis.asyncio.RedisCluster):
        return list(await client.keys("*", target_nodes=redis.asyncio.RedisCluster.PRIMARIES))
    return list(await client.keys("*"))


async def _value(client: Any, key: bytes) -> bytes:
    kind = (await client.type(key)).decode()
    read: dict[str, tuple[Any, ...]] = {
        "string": ("GET", key),
        "hash": ("HGETALL", key),
        "set": ("SMEMBERS", key),
        "zset": ("ZRANGE", key, 0, -1),
        "list": ("LRANGE", key, 0, -1),
        "stream": ("XRANGE", key, "-", "+"),
    }
    return repr(await client.execute_command(*read[kind])).encode() if kind in read else b""


def _rows_of_sqlite(file: Path) -> list[tuple[str, str]]:
    found = []
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            try:
                rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
            except sqlite3.OperationalError:  # a virtual table that can't be read as a whole
                continue
            found += [(table, " ".join(map(_text, row))) for row in rows]
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "ignore") if isinstance(value, bytes) else str(value)


async def _rows_of_postgres(url: str) -> list[tuple[str, str]]:
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        found = []
        for (table,) in tables:
            rows = await connection.fetch(f'SELECT one::text FROM "{table}" AS one')
            found += [(table, str(text)) for (text,) in rows]
        return found
    finally:
        await connection.close()
