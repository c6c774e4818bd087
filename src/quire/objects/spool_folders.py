"""Temporary folders of processes that may be killed: the owner holds a lock, so that orphans can be removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_LOCK = ".lock"
_UNLOCKED_KEPT_S = 3600.0


class SpoolFolder:
    """A private folder with a prefix in its name. Folders of dead owners with the same prefix are removed first."""

    def __init__(self, prefix: str) -> None:
        sweep_spools(prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._fd = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Removes the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def sweep_spools(prefix: str) -> int:
    """Removes the folders of owners that are gone; returns their number."""
    return sum(_remove_if_orphan(one) for one in Path(tempfile.gettempdir()).glob(f"{prefix}*"))


def _remove_if_orphan(folder: Path) -> bool:
    try:
        fd = os.open(folder / _LOCK, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # it is being made, or its owner died in that moment
        with contextlib.suppress(OSError):
            status = folder.stat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _UNLOCKED_KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)
                return True
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        shutil.rmtree(folder, ignore_errors=True)
        return True
    finally:
        os.close(fd)
