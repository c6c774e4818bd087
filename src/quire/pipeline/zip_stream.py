"""A zip that is written while it is sent."""

from __future__ import annotations

import time
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO, cast

from quire.objects.object_store import in_thread
from quire.pipeline.open_streams import closing


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """One member. `packed` is False for data that is compressed already, as most originals are."""

    name: str
    body: AsyncIterator[bytes]
    packed: bool = True


class _Outgoing:
    """A write-only file whose bytes are taken and sent."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class ZipStream:
    """Writes a zip while it is sent: one piece in memory at a time."""

    def __init__(self, now_s: float) -> None:
        self._made = time.gmtime(now_s)[:6]

    async def stream(self, entries: AsyncIterator[ZipEntry]) -> AsyncIterator[bytes]:
        """Yields the bytes of the zip. Compression runs in a thread."""
        out = _Outgoing()
        with zipfile.ZipFile(cast(IO[bytes], out), "w", allowZip64=True) as archive:
            async with closing(entries):
                async for entry in entries:
                    info = zipfile.ZipInfo(entry.name, self._made)
                    info.compress_type = zipfile.ZIP_DEFLATED if entry.packed else zipfile.ZIP_STORED
                    async with closing(entry.body):
                        with archive.open(info, "w", force_zip64=True) as member:
                            async for piece in entry.body:
                                await in_thread(member.write, piece)
                                if ready := out.taken():
                                    yield ready
        yield out.taken()
