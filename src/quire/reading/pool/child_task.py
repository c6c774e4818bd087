"""One task of the pool: the call that a child gets, and the files that go with it."""

from __future__ import annotations

import asyncio
import functools
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from quire.reading.pool.child_folders import ChildFolder
from quire.reading.pool.fair_slots import ReaderShare

OnSpent = Callable[[float], object]


@dataclass(frozen=True, slots=True)
class ChildTask:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    timeout_s: float
    share: ReaderShare
    on_spent: OnSpent

    async def payload(self, folder: ChildFolder | None) -> bytes:
        """The call as the child gets it. Its document is shown to the child first. Raises OSError."""
        arguments = list(self.arguments)
        if folder is not None:
            places = _file_arguments(self.function)
            if "path" in places:
                arguments[places["path"]] = await folder.show(arguments[places["path"]])
            if "target" in places:
                arguments[places["target"]] = folder.result
        return pickle.dumps((self.function, arguments), pickle.HIGHEST_PROTOCOL)

    async def deliver(self, folder: ChildFolder, added_bytes: int) -> None:
        """Copies the file that the child wrote, if the task writes one, to where the caller wants it.

        Raises OSError, and RefusedFileError for a file that is not what a task writes.
        """
        at = _file_arguments(self.function).get("target")
        if at is not None:
            await asyncio.to_thread(folder.deliver, self.arguments[at], added_bytes)


@functools.cache
def _file_arguments(function: Callable[..., Any]) -> Mapping[str, int]:
    """Which arguments are files that a caged child finds elsewhere: the document `path`, and `target`, to write."""
    names = list(signature(function).parameters)
    return {name: at for at, name in enumerate(names) if name == "target" or (name == "path" and at == 0)}
