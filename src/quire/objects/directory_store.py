"""The object store in a directory. Temporary files are in `.incoming`, on the same file system."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import ParamSpec, TypeVar

from quire.errors import QuireError
from quire.objects.object_store import (
    BLOCK_BYTES,
    PIECE_BYTES,
    ObjectStore,
    ObjectWriter,
    SignedUpload,
    checked_key,
    in_thread,
    missing,
    unusable,
)
from quire.objects.temporary_files import TemporaryFile, make_private_folder, sweep

P = ParamSpec("P")
T = TypeVar("T")

_INCOMING = ".incoming"


class DirectoryStore(ObjectStore):
    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / _INCOMING

    async def prepare(self) -> None:
        with contextlib.suppress(OSError):
            await in_thread(self._root.mkdir, mode=0o700, parents=True, exist_ok=True)

    def writer(self, key: str) -> ObjectWriter:
        return _FileWriter(self._root, self._path(key))

    async def put(self, key: str, data: bytes) -> None:
        await self._in_thread(self._put, self._path(key), data)

    async def get(self, key: str) -> bytes:
        content = await self._in_thread(_read, self._path(key))
        if content is None:
            raise self._absent(key)
        return content

    async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        file = await self._in_thread(_open, self._path(key))
        if file is None:
            raise self._absent(key)
        with file:
            file.seek(start)
            left = max(0, end - start) if end is not None else None
            while left != 0:
                wanted = PIECE_BYTES if left is None else min(PIECE_BYTES, left)
                piece = await self._in_thread(file.read, wanted)
                if not piece:
                    return
                if left is not None:
                    left -= len(piece)
                yield piece

    def _absent(self, key: str) -> QuireError:
        """An object is not there; or nothing is, because the folder is on a disk that is away."""
        return missing(key) if self._root.is_dir() else unusable(str(self._root), "the folder is not there")

    async def size(self, key: str) -> int | None:
        return await self._in_thread(_size, self._path(key))

    async def delete(self, key: str) -> None:
        await self._in_thread(self._delete, self._path(key))

    async def delete_prefix(self, prefix: str) -> int:
        return await self._in_thread(self._delete_tree, self._path(prefix.rstrip("/")))

    async def keys(self, prefix: str) -> list[str]:
        return await self._in_thread(self._keys_below, self._path(prefix.rstrip("/")))

    async def listing(self) -> AsyncIterator[tuple[str, int]]:
        walk = os.walk(self._root)
        while (step := await self._in_thread(next, walk, None)) is not None:
            folder, folders, files = step
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                path = Path(folder, name)
                size = None if name.startswith(".") else await self._in_thread(_size, path)
                if size is not None:
                    yield path.relative_to(self._root).as_posix(), size

    async def put_file(self, key: str, path: Path) -> None:
        async with self.writer(key) as out:
            with path.open("rb") as file:
                while block := await self._in_thread(file.read, BLOCK_BYTES):
                    await out.write(block)

    async def copy(self, key: str, target: str) -> None:
        if not await self._in_thread(self._copy, self._path(key), self._path(target)):
            raise self._absent(key)

    async def upload_link(self, key: str, for_s: float, size: int) -> SignedUpload | None:
        checked_key(key)
        return None

    @contextlib.asynccontextmanager
    async def local(self, key: str) -> AsyncIterator[Path]:
        path = self._path(key)
        if await self._in_thread(_size, path) is None:
            raise self._absent(key)
        yield path

    async def link(self, key: str, for_s: float) -> str | None:
        checked_key(key)
        return None

    def url(self, key: str) -> str:
        return self._path(key).as_uri()

    async def check(self) -> None:
        await self._in_thread(self._probe)

    async def sweep_temporaries(self) -> int:
        return await self._in_thread(sweep, self._incoming)

    async def close(self) -> None:
        """Does nothing: no file is kept open."""

    def _path(self, key: str) -> Path:
        return self._root / checked_key(key)

    def _put(self, path: Path, data: bytes) -> None:
        temporary = TemporaryFile(self._incoming)
        try:
            temporary.write(data)
            temporary.sync()
            temporary.move_to(path)
        finally:
            temporary.discard()

    def _copy(self, path: Path, target: Path) -> bool:
        """False if there is no such file. A second name is a copy: a file is replaced as a whole, never changed."""
        if _size(path) is None:
            return False
        second = self._incoming / secrets.token_hex(16)
        make_private_folder(self._incoming)
        try:
            try:
                second.hardlink_to(path)
            except OSError:  # a file system without second names
                shutil.copyfile(path, second)
            make_private_folder(target.parent)
            second.replace(target)
        finally:
            second.unlink(missing_ok=True)
        return True

    def _delete(self, path: Path) -> None:
        if path.is_file():  # a prefix is not an object
            path.unlink(missing_ok=True)
            self._prune(path.parent)

    def _delete_tree(self, top: Path) -> int:
        removed = 0
        for folder, _folders, files in os.walk(top, topdown=False):
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    (Path(folder) / name).unlink()
                    removed += 1
            with contextlib.suppress(OSError):  # another writer has just used it
                Path(folder).rmdir()
        self._prune(top.parent)
        return removed

    def _keys_below(self, top: Path) -> list[str]:
        found = (Path(folder) / name for folder, _folders, files in os.walk(top) for name in files)
        return [path.relative_to(self._root).as_posix() for path in found]

    def _prune(self, folder: Path) -> None:
        """Removes empty folders from `folder` upwards."""
        while folder != self._root and self._root in folder.parents:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            folder = folder.parent

    def _probe(self) -> None:
        temporary = TemporaryFile(self._incoming)
        try:
            temporary.write(b"quire")
        finally:
            temporary.discard()

    async def _in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with _translated(self._root):
            return await in_thread(function, *args, **kwargs)


class _FileWriter(ObjectWriter):
    def __init__(self, root: Path, target: Path) -> None:
        super().__init__()
        self._root = root
        self._target = target
        self._file: TemporaryFile | None = None

    async def _open(self) -> None:
        with _translated(self._root):
            self._file = TemporaryFile(self._root / _INCOMING)

    def _append(self, block: bytearray) -> None:
        if self._file is not None:
            with _translated(self._root):
                self._file.write(block)

    async def _finish(self) -> None:
        if self._file is not None:
            with _translated(self._root):
                await in_thread(_place, self._file, self._target)

    async def _discard(self) -> None:
        if self._file is not None:
            with _translated(self._root):
                self._file.discard()


def _place(file: TemporaryFile, target: Path) -> None:
    file.sync()
    file.move_to(target)


def _open(path: Path) -> FileIO | None:
    try:
        return FileIO(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _read(path: Path) -> bytes | None:
    file = _open(path)
    if file is None:
        return None
    with file:
        return file.readall()


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


@contextlib.contextmanager
def _translated(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unusable(str(root), error.strerror or type(error).__name__) from error
