"""A copy of all objects of one store into another one, and the comparison of both.

An object is written atomically, so an interrupted copy continues with the objects that the target does not have.
Weakness: the sizes of all objects of the target are kept in memory meanwhile, about 200 bytes for each.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from quire.errors import MissingError, StateConflictError
from quire.objects.object_store import ObjectStore

_AT_ONCE = 8
_MOST_DIFFERENCES = 10
_MARKS = "migrations"


@dataclass(frozen=True, slots=True)
class ObjectCount:
    objects: int
    size_bytes: int


class StoreCopy:
    """Copies `source` to `target`. Every method may raise ObjectsError."""

    def __init__(self, source: ObjectStore, target: ObjectStore, migration: str) -> None:
        self._source = source
        self._target = target
        self._mark = f"{_MARKS}/{migration}"

    async def count(self) -> ObjectCount:
        """Returns how many objects the source has, and their bytes."""
        sizes = [size async for _key, size in self._source.listing()]
        return ObjectCount(len(sizes), sum(sizes))

    async def check_target(self) -> None:
        """Raises StateConflictError if the target has objects that this migration did not write."""
        if await self._target.size(self._mark) is not None:
            return
        async for _key, _size in self._target.listing():
            raise StateConflictError(
                "The object store at OBJECT_STORE is not empty. Give the copy a bucket or a prefix of its own."
            )

    async def mark_target(self) -> None:
        await self._target.put(self._mark, b"a migration is writing this store")

    async def unmark_target(self) -> None:
        await self._target.delete(self._mark)

    async def copy(self) -> int:
        """Writes the objects that the target does not have with the same size; returns how many."""
        present = await self._sizes_in_target()
        written = 0

        async def copy_one(key: str, size: int) -> None:
            nonlocal written
            if present.get(key) != size:
                async with self._source.local(key) as path:
                    await self._target.put_file(key, path)
                written += 1

        await _for_each(self._source.listing(), copy_one)
        return written

    async def differences(self) -> list[str]:
        """Compares number and content; returns a sentence for each difference, at most ten.

        An object of equal size and other content is written once more before it is reported.
        """
        present = await self._sizes_in_target()
        found: list[str] = []

        async def compare(key: str, _size: int) -> None:
            present.pop(key, None)
            wanted = await _digest(self._source, key)
            if wanted == await _digest(self._target, key):
                return
            async with self._source.local(key) as path:
                await self._target.put_file(key, path)
            if wanted != await _digest(self._target, key):
                found.append(f"the object {key} differs")

        await _for_each(self._source.listing(), compare)
        found += [f"the object {key} is only in the target" for key in sorted(present)]
        return found[:_MOST_DIFFERENCES]

    async def _sizes_in_target(self) -> dict[str, int]:
        found = {key: size async for key, size in self._target.listing()}
        found.pop(self._mark, None)
        return found


async def _digest(store: ObjectStore, key: str) -> str | None:
    whole = hashlib.sha256()
    try:
        async for piece in store.stream(key):
            whole.update(piece)
    except MissingError:
        return None
    return whole.hexdigest()


async def _for_each(
    objects: AsyncIterator[tuple[str, int]], work: Callable[[str, int], Awaitable[None]]
) -> None:
    """Runs `work` for every object, some at once; the first error ends it."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def limited(key: str, size: int) -> None:
        try:
            await work(key, size)
        finally:
            slots.release()

    try:
        async with asyncio.TaskGroup() as group:
            async for key, size in objects:
                await slots.acquire()
                group.create_task(limited(key, size))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
