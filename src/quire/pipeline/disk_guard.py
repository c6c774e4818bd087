"""The free space of the disks that a worker writes to. A worker with a full disk takes no units until there is room.

Weakness: free space is read at most once a second, so a unit that has just started may still meet a full disk. Its
error is reported here, and the unit waits for another worker or for room.
"""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from quire.clock import Clock
from quire.settings import Settings

_LOG = logging.getLogger(__name__)
_STEP_BACK, _COME_BACK = 16, 8
"""The parts of MIN_FREE_DISK: below the first a worker takes no units, from the second on it takes them again."""
_READ_EVERY_S = 1.0
_REPORTED_S = 15.0
"""How long the disk counts as full after a write was refused: a quota or used-up inodes don't show as free space."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


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
        """Whether the worker must not take units now."""
        now = self._clock.monotonic()
        if now >= self._read_again_at:
            self._read_again_at = now + _READ_EVERY_S
            free = min(map(_free_bytes, self._folders))
            share = _COME_BACK if self._is_full else _STEP_BACK
            self._note(now < self._refused_until or free < self._least_bytes // share, free)
        return self._is_full

    def report_full(self) -> None:
        """Call it when a write was refused because the disk is full."""
        self._refused_until = self._clock.monotonic() + _REPORTED_S
        self._note(True, min(map(_free_bytes, self._folders)))

    def _note(self, is_full: bool, free_bytes: int) -> None:
        if is_full and not self._is_full:
            _LOG.warning(
                "the worker takes no units: its disk is full (MIN_FREE_DISK)",
                extra={"free_bytes": free_bytes},
            )
        elif self._is_full and not is_full:
            _LOG.warning("the worker takes units again: its disk has room", extra={"free_bytes": free_bytes})
        self._is_full = is_full


def _free_bytes(folder: Path) -> int:
    """Of the folder, or of the first one above it that exists; all where that can't be read."""
    for path in (folder, *folder.parents):
        try:
            return shutil.disk_usage(path).free
        except FileNotFoundError:
            continue
        except OSError:
            break
    return 1 << 62
