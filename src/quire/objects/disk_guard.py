"""The free space of the disks that a process writes to. With a full disk it takes no new work until there is room: no
units, no uploads, no images.

Weakness: free space is read at most once a second, so what has just started may still meet a full disk. Its error is
reported here; a unit then waits for another worker or for room, and a caller is asked to come back.
"""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from quire.clock import Clock
from quire.errors import DiskFullError, QuireError
from quire.settings import Settings

_LOG = logging.getLogger(__name__)
_STEP_BACK, _COME_BACK = 16, 8
"""The parts of MIN_FREE_DISK: below the first a process takes no work, from the second on it takes work again."""
_READ_EVERY_S = 1.0
_REPORTED_S = 15.0
"""How long the disk counts as full after a write was refused: a quota or used-up inodes don't show as free space."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSAL = (
    "The disk of this host is full. It takes no new documents or images until there is room; try again later."
)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, says that a local disk has no room."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


class DiskGuard:
    def __init__(self, folders: Sequence[Path], least_bytes: int, clock: Clock) -> None:
        self._folders = folders
        self._least_bytes = least_bytes
        self._clock = clock
        self._is_full = False
        self._refused_until = self._read_again_at = float("-inf")

    @classmethod
    def of(cls, settings: Settings, clock: Clock) -> DiskGuard:
        """The guard of DATA_DIR, and of OBJECT_STORE where that is a folder."""
        folders = [settings.general.data_dir.absolute()]
        if "://" not in settings.objects_location:
            folders.append(Path(settings.objects_location).absolute())
        return cls(folders, settings.general.min_free_disk_bytes, clock)

    @property
    def is_full(self) -> bool:
        """Whether the process must not take work now."""
        now = self._clock.monotonic()
        if now >= self._read_again_at:
            self._read_again_at = now + _READ_EVERY_S
            free = min(map(free_bytes, self._folders))
            share = _COME_BACK if self._is_full else _STEP_BACK
            self._note(now < self._refused_until or free < self._least_bytes // share, free)
        return self._is_full

    def refuse_if_full(self) -> None:
        """Call it before something new is accepted. Raises DiskFullError."""
        if self.is_full:
            raise DiskFullError(_REFUSAL, retry_after_s=_REPORTED_S)

    def note_error(self, error: BaseException) -> bool:
        """Whether an error says that the disk is full; then it counts as full for a while."""
        if not is_disk_full(error):
            return False
        self.report_full()
        return True

    def for_caller(self, error: QuireError) -> QuireError:
        """The error to answer with: DiskFullError instead of one whose cause is a full disk."""
        return DiskFullError(_REFUSAL, retry_after_s=_REPORTED_S) if self.note_error(error) else error

    def report_full(self) -> None:
        """Call it when a write was refused because the disk is full."""
        self._refused_until = self._clock.monotonic() + _REPORTED_S
        self._note(True, min(map(free_bytes, self._folders)))

    def _note(self, is_full: bool, free_bytes: int) -> None:
        if is_full and not self._is_full:
            _LOG.warning(
                "no new work is taken: the disk is full (MIN_FREE_DISK)",
                extra={"free_bytes": free_bytes},
            )
        elif self._is_full and not is_full:
            _LOG.warning("work is taken again: the disk has room", extra={"free_bytes": free_bytes})
        self._is_full = is_full


def free_bytes(folder: Path) -> int:
    """Of the folder, or of the first one above it that exists; all where that can't be read."""
    for path in (folder, *folder.parents):
        try:
            return shutil.disk_usage(path).free
        except FileNotFoundError:
            continue
        except OSError:
            break
    return 1 << 62
