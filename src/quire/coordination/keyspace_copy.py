"""A copy of all keys of one server into another one, and the comparison of both.

Keys are copied by their type, not by DUMP and RESTORE: another server may not understand the embedded server's format.
Entries that a worker had claimed are copied as waiting ones: a doubled entry is dropped when its unit is claimed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis.exceptions import RedisError, ResponseError

from quire.coordination import keys
from quire.coordination.connection import Arg
from quire.coordination.server_address import ServerAccess, make_client
from quire.errors import CoordinationError, StateConflictError

Items = Sequence[Any]
Client = Any
"""A client whose replies are bytes; redis-py's types say text or bytes everywhere."""

_AT_ONCE = 500
_KEYS_AT_ONCE = 32
_MOST_DIFFERENCES = 10
_MARK_TTL_S = 30 * 86_400
_TTL_TOLERANCE_MS = 60_000
"""How far two times to live may differ: the clocks of two servers are not the same, and comparing takes time."""


class KeyspaceCopy:
    """Copies the keys of the server at `source` to the server at `target`.

    Every method raises CoordinationError if a server does not answer or refuses a command.
    """

    def __init__(self, source: str, target: str, access: ServerAccess) -> None:
        self._source: Client = make_client(source, ServerAccess(), decodes=False)
        self._target: Client = make_client(target, access, decodes=False)

    async def close(self) -> None:
        await self._source.aclose()
        await self._target.aclose()

    async def count(self) -> int:
        """Returns how many keys the source has."""
        with _translated():
            return int(await self._source.dbsize())

    async def check_target(self, migration: str) -> None:
        """Raises StateConflictError if the target has keys that this migration did not write."""
        with _translated():
            found = await self._target.get(keys.MIGRATION)
            filled = await self._target.dbsize()
        if filled and (found is None or found.decode() != migration):
            raise StateConflictError(
                "The Redis at REDIS_URL is not empty. Give the copy a server or a database of its own."
            )

    async def mark_target(self, migration: str) -> None:
        with _translated():
            await self._target.set(keys.MIGRATION, migration, ex=_MARK_TTL_S)

    async def unmark_target(self) -> None:
        with _translated():
            await self._target.delete(keys.MIGRATION)

    async def copy(self) -> int:
        """Writes every key of the source anew and returns their number."""
        copied = 0
        with _translated():
            async for some in self._batches():
                copied += sum(await asyncio.gather(*map(self._copy_key, some)))
        return copied

    async def differences(self) -> list[str]:
        """Returns a sentence for each difference, at most ten. A key that has expired since is none."""
        found: list[str] = []
        with _translated():
            async for some in self._batches():
                found += [one for one in await asyncio.gather(*map(self._difference, some)) if one]
                if len(found) >= _MOST_DIFFERENCES:
                    return found[:_MOST_DIFFERENCES]
            ours, theirs = await self._source.dbsize(), await self._target.dbsize() - 1  # without the mark
            if theirs > ours:
                found.append(f"the target has {theirs} keys, the source {ours}")
        return found

    async def _batches(self) -> AsyncIterator[list[bytes]]:
        some: set[bytes] = set()
        async for key in self._source.scan_iter(count=_AT_ONCE):
            some.add(key)
            if len(some) == _KEYS_AT_ONCE:
                yield list(some)
                some.clear()
        yield list(some)

    async def _difference(self, key: bytes) -> str | None:
        ours, theirs = await _digest(self._source, key), await _digest(self._target, key)
        if ours != theirs:
            return (
                f"the key {key.decode(errors='replace')} differs" if await self._source.exists(key) else None
            )
        ttl_ms, copied_ms = await self._source.pttl(key), await self._target.pttl(key)
        if abs(ttl_ms - copied_ms) > _TTL_TOLERANCE_MS:
            return f"the key {key.decode(errors='replace')} expires at another time"
        return None

    async def _copy_key(self, key: bytes) -> bool:
        """Returns false for a key that has expired meanwhile."""
        kind = (await self._source.type(key)).decode()
        if kind == "none":
            return False
        await self._target.delete(key)
        async for items in _items(self._source, key, kind):
            if items:
                for command in _writing(kind, key, items):
                    await self._target.execute_command(*command)
        if kind == "stream":
            for group in await _groups(self._source, key):
                await self._target.xgroup_create(key, group, id="0", mkstream=True)
        ttl_ms = await self._source.pttl(key)
        if ttl_ms >= 0:
            await self._target.pexpire(key, max(ttl_ms, 1))
        return True


def _writing(kind: str, key: bytes, items: Items) -> list[tuple[Arg, ...]]:
    """Returns the commands that add the items to a key of this type."""
    if kind == "string":
        return [("SET", key, items[0])]
    if kind == "hash":
        return [("HSET", key, *(word for pair in items for word in pair))]
    if kind == "zset":
        return [("ZADD", key, *(word for member, score in items for word in (repr(score), member)))]
    if kind == "set":
        return [("SADD", key, *items)]
    if kind == "list":
        return [("RPUSH", key, *items)]
    return [
        ("XADD", key, entry, *(word for pair in fields.items() for word in pair)) for entry, fields in items
    ]


async def _items(client: Client, key: bytes, kind: str) -> AsyncIterator[Items]:
    """Yields the content of a key, some of it at a time."""
    if kind == "string":
        value = await client.get(key)
        yield [] if value is None else [value]
    elif kind in ("hash", "set"):
        async for items in _scanned(client.hscan if kind == "hash" else client.sscan, key):
            yield items
    elif kind == "zset":
        async for items in _ranges(lambda at: client.zrange(key, at, at + _AT_ONCE - 1, withscores=True)):
            yield items
    elif kind == "list":
        async for items in _ranges(lambda at: client.lrange(key, at, at + _AT_ONCE - 1)):
            yield items
    elif kind == "stream":
        start = b"-"
        while items := await client.xrange(key, min=start, count=_AT_ONCE):
            yield items
            start = b"(" + items[-1][0]
    else:
        raise CoordinationError(f"The source has a key of the unknown type {kind}.", retryable=False)


async def _scanned(scan: Callable[..., Awaitable[Any]], key: bytes) -> AsyncIterator[Items]:
    cursor = 0
    while True:
        cursor, found = await scan(key, cursor=cursor, count=_AT_ONCE)
        yield list(found.items()) if isinstance(found, dict) else list(found)
        if cursor == 0:
            return


async def _ranges(read: Callable[[int], Awaitable[Items]]) -> AsyncIterator[Items]:
    at = 0
    while items := await read(at):
        yield items
        at += len(items)


async def _groups(client: Client, key: bytes) -> list[bytes]:
    return sorted(one["name"] for one in await client.xinfo_groups(key))


async def _digest(client: Client, key: bytes) -> str:
    """A hash of the type and content; a scan may return a member twice and in any order."""
    kind = (await client.type(key)).decode()
    if kind == "none":
        return ""
    ordered = kind in ("zset", "list", "stream", "string")
    whole, seen = hashlib.sha256(kind.encode()), set[bytes]()
    async for items in _items(client, key, kind):
        for item in items:
            one = hashlib.sha256(repr(item).encode()).digest()
            if ordered:
                whole.update(one)
            else:
                seen.add(one)
    for one in sorted(seen):
        whole.update(one)
    if kind == "stream":
        whole.update(repr(await _groups(client, key)).encode())
    return whole.hexdigest()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ResponseError as error:
        code = str(error).split(" ", 1)[0][:40]
        raise CoordinationError(
            f"A coordination server refused a command of the copy ({code}).", retryable=False
        ) from error
    except (RedisError, OSError) as error:
        raise CoordinationError(
            f"A coordination server did not answer ({type(error).__name__}). Run the command again."
        ) from error
