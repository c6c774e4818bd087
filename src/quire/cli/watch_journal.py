"""What `quire watch` has done, kept beside its results: one line of JSON for each step, on the disk before it counts.

A document is known by its content and its name. Before something appears in the output folder a line says so; after
a crash that line tells whether it did.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quire.cli.exit_codes import CommandUsageError
from quire.cli.watch_inbox import Look

NAME = ".quire-watch.jsonl"
_STATES = ("writing", "done", "failing", "failed")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """The latest that is known of one document.

    `writing` and `failing` announce a result, or a move aside; `done` and `failed` say that it happened.
    """

    state: str
    name: str
    sha256: str
    target: str
    """The result within the output folder, or the file within the folder for failures."""
    look: Look
    result_sha256: str = ""
    attempt: int = 1


class Journal:
    """Read at the start, then only added to. One process at a time has it."""

    def __init__(self, folder: Path) -> None:
        """Raises CommandUsageError if another process works on the same output folder, OSError if it can't be used."""
        self._path = folder / NAME
        self._latest: dict[str, JournalEntry] = {}
        self._owner: dict[str, str] = {}
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._fd)
            raise CommandUsageError(f"Another `quire watch` already writes to {folder}.") from error
        self._read()

    def close(self) -> None:
        """Lets others have it. Nothing may be added any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def of(self, name: str) -> JournalEntry | None:
        """The latest about the document of this name, whatever its content was."""
        return self._latest.get(name)

    def unfinished(self) -> list[JournalEntry]:
        """What was announced and not confirmed: the process died in between."""
        return [entry for entry in self._latest.values() if entry.state in ("writing", "failing")]

    def is_free(self, target: str, name: str) -> bool:
        """Whether a result may have this name: no other document's has it."""
        return self._owner.get(target, name) == name

    def reserve(self, target: str, name: str) -> None:
        """Keeps a result's name for this document, until the process ends or an entry says the same."""
        self._owner[target] = name

    def add(self, entry: JournalEntry) -> None:
        """On the disk when this returns. Blocking. Raises OSError."""
        line = json.dumps(_packed(entry), ensure_ascii=False, separators=(",", ":")) + "\n"
        view = memoryview(line.encode())
        while view:
            view = view[os.write(self._fd, view) :]
        os.fsync(self._fd)
        self._note(entry)

    def _note(self, entry: JournalEntry) -> None:
        self._latest[entry.name] = entry
        if entry.state in ("writing", "done"):
            self._owner[entry.target] = entry.name

    def _read(self) -> None:
        raw = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
        whole = raw.rfind(b"\n") + 1
        for line in raw[:whole].splitlines():
            entry = _unpacked(line)
            if entry is not None:
                self._note(entry)
        if whole < len(raw):
            # The process died while it wrote the last line, so what it announced has not happened.
            os.ftruncate(self._fd, whole)
        os.fsync(self._fd)
        sync_folder(self._path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names in a folder outlive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _packed(entry: JournalEntry) -> dict[str, Any]:
    look = entry.look
    found: dict[str, Any] = {
        "state": entry.state,
        "name": entry.name,
        "sha256": entry.sha256,
        "target": entry.target,
        "look": [look.size, look.mtime_ns, look.inode],
        "attempt": entry.attempt,
    }
    return found | ({"result_sha256": entry.result_sha256} if entry.result_sha256 else {})


def _unpacked(line: bytes) -> JournalEntry | None:
    """None for a line that is none of ours: a journal that was edited by hand must not stop the watch."""
    try:
        found = json.loads(line)
        if found["state"] not in _STATES:
            return None
        return JournalEntry(
            state=found["state"],
            name=str(found["name"]),
            sha256=str(found["sha256"]),
            target=str(found["target"]),
            look=Look(*(int(one) for one in found["look"])),
            result_sha256=str(found.get("result_sha256", "")),
            attempt=int(found.get("attempt", 1)),
        )
    except (ValueError, KeyError, TypeError):
        return None
