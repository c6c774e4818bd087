"""Local copies of remote objects, for parsers that need a real file."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from quire.objects.temporary_files import TemporaryFile, make_private_folder, remove_if_left_over

Fetch = Callable[[TemporaryFile], Awaitable[None]]


@dataclass(slots=True)
class _Copy:
    task: asyncio.Task[int]  # makes the copy and returns its size
    path: Path
    users: int = 0
    size: int = 0
    dropped: bool = False


class Scratch:
    """The copies of one process: each is made once, and the least recently used are evicted above `max_bytes`.

    Every process has its own folder below `copies` and holds the lock of a file of the same name below `lives`;
    `sweep` deletes the folders whose lock is free, because their process has ended.
    """

    def __init__(self, parent: Path, max_bytes: int) -> None:
        self._lives = parent / "lives"
        self._all_copies = parent / "copies"
        self._max_bytes = max_bytes
        self._life: TemporaryFile | None = None
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._count = 0

    def temporary(self) -> TemporaryFile:
        """Returns a new temporary file. Blocking."""
        return TemporaryFile(self._folder())

    @contextlib.asynccontextmanager
    async def copy(self, key: str, fetch: Fetch) -> AsyncIterator[Path]:
        """Yields the path of a copy, which `fetch` writes if there is none; it exists while the block runs."""
        copy = self._copies.get(key)
        if copy is None:
            path = self._next_path(key)
            task = asyncio.create_task(self._make(path, fetch), name="object-download")
            copy = self._copies[key] = _Copy(task, path)
        copy.users += 1
        self._copies.move_to_end(key)
        try:
            # Shielded: other callers may wait for the same copy when this one is cancelled.
            copy.size = await asyncio.shield(copy.task)
            self._evict()
            yield copy.path
        finally:
            copy.users -= 1
            if copy.task.done() and (copy.task.cancelled() or copy.task.exception() is not None):
                if self._copies.get(key) is copy:
                    del self._copies[key]
            elif copy.dropped:
                self._remove(copy)
            else:
                self._evict()

    def adopt(self, key: str, file: TemporaryFile, size: int) -> None:
        """Keeps a finished file as the copy of `key`; must be called within the event loop."""
        self.forget(key)
        path = self._next_path(key)
        file.move_to(path)
        task = asyncio.create_task(_known(size), name="object-known")
        self._copies[key] = _Copy(task, path, size=size)
        self._evict()

    def forget(self, key: str) -> None:
        """Drops the copy of `key`; its file is deleted once it is not used."""
        copy = self._copies.pop(key, None)
        if copy is not None:
            copy.dropped = True
            self._remove(copy)

    def forget_below(self, prefix: str) -> None:
        for key in [key for key in self._copies if key.startswith(prefix)]:
            self.forget(key)

    async def close(self) -> None:
        for copy in self._copies.values():
            copy.task.cancel()
        await asyncio.gather(*(copy.task for copy in self._copies.values()), return_exceptions=True)
        self._copies.clear()
        if self._life is not None:
            folder = self._folder()
            self._life.discard()
            self._life = None
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def sweep(self) -> int:
        """Deletes the folders of ended processes; returns the number of files in them. Blocking."""
        removed = 0
        for folder in self._all_copies.glob("*"):
            if remove_if_left_over(self._lives / folder.name):
                removed += sum(1 for _ in folder.iterdir())
                shutil.rmtree(folder, ignore_errors=True)
        return removed

    async def _make(self, path: Path, fetch: Fetch) -> int:
        file = self.temporary()
        try:
            await fetch(file)
            size = file.path.stat().st_size
            file.move_to(path)
        finally:
            file.discard()
        return size

    def _folder(self) -> Path:
        if self._life is None:
            self._life = TemporaryFile(self._lives)
            make_private_folder(self._all_copies / self._life.path.name)
        return self._all_copies / self._life.path.name

    def _next_path(self, key: str) -> Path:
        self._count += 1
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        return self._folder() / f"{name}-{self._count}{PurePosixPath(key).suffix}"

    def _evict(self) -> None:
        total = sum(copy.size for copy in self._copies.values())
        for key, copy in list(self._copies.items()):
            if total <= self._max_bytes:
                return
            if copy.users == 0 and copy.task.done():
                total -= copy.size
                self.forget(key)

    def _remove(self, copy: _Copy) -> None:
        if copy.users == 0 and copy.task.done():
            copy.path.unlink(missing_ok=True)


async def _known(size: int) -> int:
    return size
