"""Request bodies: received into memory while the budget lasts, else written to the object plane.

PARSE_MEMORY bounds all bodies in memory. A body that stays in memory after it was made durable is only a copy, so
that the replica that accepted the request does not have to read it back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from quire.batching.image_head import HEAD_BYTES
from quire.errors import RequestError, TooLargeError
from quire.objects.object_store import ObjectStore, ObjectWriter

Bytes = bytes | bytearray

SPILL_BYTES = 4 << 20
"""Larger bodies are written to the object plane while they are received."""


class BodyMemory:
    """The bodies in this process and the memory reserved for them."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bodies: dict[str, Bytes] = {}
        self._held_bytes = 0
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._bodies)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._bodies

    def reserve(self, size: int) -> bool:
        """Reserves memory; False if the budget is used up. `release` gives it back."""
        if self.used_bytes + size > self._max_bytes:
            return False
        self.used_bytes += size
        return True

    def release(self, size: int) -> None:
        self.used_bytes -= size

    def hold(self, request_id: str, data: Bytes) -> None:
        """Keeps a body whose size is reserved. A quarter of the budget stays free for bodies being received."""
        if self._held_bytes + len(data) > self._max_bytes * 3 // 4:
            self.release(len(data))
            return
        self._held_bytes += len(data)
        self._bodies[request_id] = data

    def get(self, request_id: str) -> Bytes | None:
        return self._bodies.get(request_id)

    def unused(self, waited_for: Container[str], in_hand: Callable[[str], bool]) -> list[str]:
        """Returns the ids of bodies that have no waiting caller and no batch in this process."""
        return [one for one in self._bodies if one not in waited_for and not in_hand(one)]

    def drop(self, request_id: str) -> None:
        data = self._bodies.pop(request_id, None)
        if data is not None:
            self._held_bytes -= len(data)
            self.release(len(data))


@dataclass(frozen=True, slots=True)
class Body:
    """A complete body: either its bytes (reserved in the memory), or the object that holds them."""

    request_id: str
    size: int
    head: Bytes
    data: Bytes | None
    object_key: str = ""


class BodyReceiver:
    """Receives one body. If the block ends before `finish`, the memory and the object are released."""

    def __init__(
        self,
        memory: BodyMemory,
        objects: ObjectStore,
        max_bytes: int,
        object_key: Callable[[], Awaitable[str]],
    ) -> None:
        self._memory = memory
        self._objects = objects
        self._max_bytes = max_bytes
        self._object_key = object_key
        self._pieces: list[Bytes] = []
        self._reserved = 0
        self._head = b""
        self._stack = AsyncExitStack()
        self._writer: ObjectWriter | None = None
        self._key = ""
        self._finished = False
        self.size = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._finished:
            return
        self._memory.release(self._reserved)
        self._pieces.clear()
        if self._writer is not None:
            leaving = error or RequestError("The body was not received completely.")
            await self._stack.__aexit__(type(leaving), leaving, trace)

    async def take(self, piece: Bytes) -> None:
        """Raises TooLargeError."""
        if not piece:
            return
        self.size += len(piece)
        if self.size > self._max_bytes:
            raise too_large(self._max_bytes)
        if self._writer is None and self.size <= SPILL_BYTES and self._memory.reserve(len(piece)):
            self._reserved += len(piece)
            self._pieces.append(piece)
            return
        await self._spill(piece)

    async def finish(self, request_id: str) -> Body:
        """Returns the complete body. Raises RequestError if it is empty."""
        if self.size == 0:
            raise RequestError("The image is empty.")
        if self._writer is not None:
            await self._stack.__aexit__(None, None, None)
            self._finished = True
            return Body(request_id, self.size, self._head, None, self._key)
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._finished = True
        return Body(request_id, self.size, data, data)

    async def _spill(self, piece: Bytes) -> None:
        if self._writer is None:
            self._key = await self._object_key()
            self._writer = await self._stack.enter_async_context(self._objects.writer(self._key))
            pieces, self._pieces = self._pieces, []
            self._memory.release(self._reserved)
            self._reserved = 0
            for one in pieces:
                await self._write(one)
        await self._write(piece)

    async def _write(self, piece: Bytes) -> None:
        if self._writer is not None:
            if len(self._head) < HEAD_BYTES:
                self._head += piece[: HEAD_BYTES - len(self._head)]
            await self._writer.write(bytes(piece))


def too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"The image is larger than the {max_bytes / (1 << 20):g} MB allowed (MAX_REQUEST_SIZE)."
    )
