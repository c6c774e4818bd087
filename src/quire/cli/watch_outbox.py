"""The output folders of `quire watch`: results in one, documents that could not be converted in another.

Every file appears whole or not at all, and the journal records it before it appears.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from quire.cli.exit_codes import printable
from quire.cli.watch_inbox import InboxFile, Look, digest_of, fitting, look_at, result_names
from quire.cli.watch_journal import Journal, JournalEntry, sync_folder
from quire.objects.object_store import in_thread

_PART = ".quire-watch-"
REASON_ENDING = ".error.txt"


class Outbox:
    """`out` gets the results, `failed` the documents that have none, each with its sub-folder kept."""

    def __init__(self, out: Path, failed: Path, journal: Journal, suffix: str) -> None:
        self._out = out
        self._failed = failed
        self._journal = journal
        self._suffix = suffix

    def target_of(self, name: str) -> Path:
        """Where the result of a document goes: never over another document's result or a file of the user."""
        known = self._journal.of(name)
        if known is not None and known.state in ("writing", "done"):
            return self._out / known.target
        for wanted in result_names(name, self._suffix):
            if self._journal.is_free(wanted, name) and not os.path.lexists(self._out / wanted):
                self._journal.reserve(wanted, name)
                return self._out / wanted
        raise AssertionError("result_names never ends")

    async def publish(
        self, found: InboxFile, sha256: str, attempt: int, target: Path, pieces: AsyncIterator[bytes]
    ) -> bool:
        """Writes the result; False, and nothing written, if the document was changed meanwhile. Raises OSError."""
        part = target.with_name(f"{_PART}{secrets.token_hex(6)}.part")
        digest = hashlib.sha256()
        await in_thread(target.parent.mkdir, parents=True, exist_ok=True)
        try:
            file = await in_thread(part.open, "wb")
            try:
                async for piece in pieces:
                    digest.update(piece)
                    await in_thread(file.write, piece)
                await in_thread(_synced, file)
            finally:
                await in_thread(file.close)
            entry = JournalEntry(
                state="writing",
                name=found.name,
                sha256=sha256,
                target=target.relative_to(self._out).as_posix(),
                look=found.look,
                result_sha256=digest.hexdigest(),
                attempt=attempt,
            )
            return await in_thread(self._appear, entry, part, target, found)
        finally:
            await in_thread(part.unlink, missing_ok=True)

    def _appear(self, entry: JournalEntry, part: Path, target: Path, found: InboxFile) -> bool:
        if look_at(found.path) != found.look:
            return False
        self._journal.add(entry)
        part.replace(target)
        sync_folder(target.parent)
        self._journal.add(replace(entry, state="done"))
        return True

    def put_aside(self, found: InboxFile, sha256: str, attempt: int, reason: str) -> Path | None:
        """Moves a document to the failures, with the reason beside it; None if it was changed meanwhile.

        Blocking. Raises OSError.
        """
        known = self._journal.of(found.name)
        begun = known is not None and known.state == "failing" and known.sha256 == sha256
        target = self._failed / (known.target if known is not None and begun else self._free(found.name))
        if look_at(found.path) != found.look:
            return None
        entry = JournalEntry(
            state="failing",
            name=found.name,
            sha256=sha256,
            target=target.relative_to(self._failed).as_posix(),
            look=found.look,
            attempt=attempt,
        )
        self._journal.add(entry)
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(_reason_of(target), f"{printable(found.name)}: {reason}\n".encode())
        _move(found.path, target)
        self._journal.add(replace(entry, state="failed"))
        return target

    def recover(self, inbox: Path) -> None:
        """Finds out what a process that died had still done. Blocking. Raises OSError."""
        for entry in self._journal.unfinished():
            if entry.state == "writing":
                target = self._out / entry.target
                if look_at(target) is not None and digest_of(target)[0] == entry.result_sha256:
                    self._journal.add(replace(entry, state="done"))
            else:
                source, target = inbox / entry.name, self._failed / entry.target
                moved = look_at(target) is not None and digest_of(target)[0] == entry.sha256
                if moved and _is_same(source, entry):
                    source.unlink()  # it was copied or linked; only the last step is missing
                if moved:
                    self._journal.add(replace(entry, state="failed"))
        for folder, _folders, files in chain(os.walk(self._out), os.walk(self._failed)):
            for name in files:
                if name.startswith(_PART):
                    (Path(folder) / name).unlink(missing_ok=True)

    def _free(self, name: str) -> str:
        """A name among the failures that nothing has, neither a document nor a reason."""
        path, number, wanted = PurePosixPath(name), 1, name
        while any(os.path.lexists(one) for one in (self._failed / wanted, _reason_of(self._failed / wanted))):
            number += 1
            wanted = str(path.with_name(fitting(path.stem, f"-{number}{path.suffix}")))
        return wanted


def _reason_of(target: Path) -> Path:
    """Beside the document, named after it; of a name that must be cut, what was cut off still tells it apart."""
    whole = target.with_name(target.name + REASON_ENDING)
    if whole.name == fitting(target.name, REASON_ENDING):
        return whole
    mark = hashlib.sha256(target.name.encode()).hexdigest()[:8]
    return target.with_name(fitting(target.name, f"-{mark}{REASON_ENDING}"))


def _synced(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def touched(entry: JournalEntry, look: Look) -> JournalEntry:
    """The same document, of which only the time was changed."""
    return replace(entry, look=look)


def _is_same(source: Path, entry: JournalEntry) -> bool:
    return look_at(source) is not None and digest_of(source)[0] == entry.sha256


def _write_whole(path: Path, data: bytes) -> None:
    part = path.with_name(f"{_PART}{secrets.token_hex(6)}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            _synced(file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _move(source: Path, target: Path) -> None:
    """Moves a file without ever overwriting one, also to another file system."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        if not source.samefile(target):
            raise
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        part = target.with_name(f"{_PART}{secrets.token_hex(6)}.part")
        try:
            shutil.copy2(source, part, follow_symlinks=False)
            with part.open("rb") as copied:
                os.fsync(copied.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    sync_folder(target.parent)
    source.unlink()
    sync_folder(source.parent)
