"""`quire.read`: reads a document from synchronous code, for notebooks and data engines.

Reader processes are children that can be killed; they are started at the first call and kept for the next ones.
A reader has an event loop of its own in a thread, so it also works where a loop is running already.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from quire.domain.page_ranges import PageRanges
from quire.errors import DamagedError
from quire.reading.document_reading import (
    DocumentOptions,
    DocumentReading,
    ReadPage,
    read_document,
    unreadable,
)
from quire.reading.local_reader import LocalLimits, LocalOptions
from quire.reading.ocr.page_ocr import OcrOptions, available
from quire.reading.pool.cage import CageOptions
from quire.reading.pool.child_pool import ChildPool, PoolOptions


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """What one reader process may use: memory, and CPU time for one page by text extraction and by OCR."""

    processes: int = 1
    memory_bytes: int = 1 << 30
    page_timeout_s: float = 20.0
    ocr_timeout_s: float = 60.0
    max_pages: int = 20_000


class SyncReader:
    """Reads documents in reader processes of its own. Usable from several threads; close it, or use it in a `with`."""

    def __init__(self, limits: ReaderLimits | None = None) -> None:
        self._limits = limits or ReaderLimits()
        self._spool = Path(tempfile.mkdtemp(prefix="quire-read-"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="quire-read", daemon=True)
        self._thread.start()
        (self._spool / "documents").mkdir(mode=0o700)
        cage = CageOptions(str(self._spool / "temporary"))
        options = PoolOptions(
            processes=self._limits.processes,
            memory_bytes=self._limits.memory_bytes,
            cage=cage,
            slow_processes=0,
        )
        self._pool = ChildPool(options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the reader processes. The reader can't be used again."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._pool.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self.remove_spool()

    def remove_spool(self) -> None:
        """Removes the folder of this reader, as far as it still exists."""
        shutil.rmtree(self._spool, ignore_errors=True)

    def read(
        self,
        document: str | os.PathLike[str] | bytes,
        *,
        password: str | None = None,
        pages: str | None = None,
        ocr: bool = True,
        ocr_languages: str = "eng",
    ) -> list[ReadPage]:
        """Returns the pages of a document: the path of a file, or its bytes.

        Never raises for a document: a page that can't be read has an `error`, and a document that can't be opened is
        one page 0 with an `error`. Raises RequestError where `pages` is not understood.
        """
        return list(
            self.read_whole(
                document, password=password, pages=pages, ocr=ocr, ocr_languages=ocr_languages
            ).pages
        )

    def read_whole(
        self,
        document: str | os.PathLike[str] | bytes,
        *,
        password: str | None = None,
        pages: str | None = None,
        ocr: bool = True,
        ocr_languages: str = "eng",
    ) -> DocumentReading:
        """Returns the pages as `read` does, with what is known of the document."""
        PageRanges.parse(pages)
        limits = LocalLimits(self._limits.page_timeout_s, self._limits.ocr_timeout_s)
        local = LocalOptions(limits=limits, ocr=OcrOptions(languages=ocr_languages))
        options = DocumentOptions(local, ocr and available(), pages, self._limits.max_pages)
        with _spooled(document, self._spool / "documents") as path:
            if path is None:
                return unreadable(
                    DamagedError("The file can't be read: check that it exists and its permissions.")
                )
            reading = read_document(self._pool, str(path), options, password=password)
            return asyncio.run_coroutine_threadsafe(reading, self._loop).result()


@contextlib.contextmanager
def _spooled(document: str | os.PathLike[str] | bytes, folder: Path) -> Iterator[Path | None]:
    """A name of the document in the folder that reader processes may read; None if there is no such file."""
    handle, name = tempfile.mkstemp(dir=folder)
    path = Path(name)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - it is open already
            if isinstance(document, bytes):
                file.write(document)
        if isinstance(document, bytes) or _place(Path(document), path):
            yield path
        else:
            yield None
    finally:
        path.unlink(missing_ok=True)


def _place(source: Path, target: Path) -> bool:
    """A hard link where the file system allows one, otherwise a copy."""
    try:
        found = source.resolve(strict=True)
        if not found.is_file():  # a pipe or a device may never end
            return False
        target.unlink()
        try:
            target.hardlink_to(found)
        except OSError:
            shutil.copyfile(found, target)
    except OSError:
        return False
    return True


def shared_reader(limits: ReaderLimits | None = None) -> SyncReader:
    """Returns the reader of this process with these limits; it is made at the first call and kept."""
    return _shared(os.getpid(), limits or ReaderLimits())


@functools.cache
def _shared(pid: int, limits: ReaderLimits) -> SyncReader:
    """The reader of this process: after a fork the child has one of its own.

    Its reader processes end when this process does; only its folder has to be removed.
    """
    reader = SyncReader(limits)
    atexit.register(lambda: reader.remove_spool() if os.getpid() == pid else None)
    return reader


def read(
    document: str | os.PathLike[str] | bytes,
    *,
    password: str | None = None,
    pages: str | None = None,
    ocr: bool = True,
    ocr_languages: str = "eng",
    limits: ReaderLimits | None = None,
) -> list[ReadPage]:
    """Reads a document with the reader of this process; see `SyncReader.read`."""
    return shared_reader(limits).read(
        document, password=password, pages=pages, ocr=ocr, ocr_languages=ocr_languages
    )
