"""Server-sent events, put together from the pieces in which they come."""

from __future__ import annotations

import json

from quire.client.errors import UnreadableError
from quire.client.records import Event

_LONGEST_EVENT = 8 << 20


class EventReader:
    """Takes bytes, gives events. Holds only the event that is not whole yet."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Event]:
        """The events that are whole now. Raises UnreadableError for what no service of ours sends."""
        *blocks, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._rest) > _LONGEST_EVENT:
            raise UnreadableError("The service sent an event without an end.")
        return [event for block in blocks if (event := _event(block)) is not None]


def _event(block: bytes) -> Event | None:
    """None for a comment, which only keeps the connection alive."""
    fields: dict[str, str] = {}
    for line in block.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
    if "data" not in fields:
        return None
    try:
        data = json.loads(fields["data"])
    except ValueError as error:
        raise UnreadableError("The service sent an event that can't be understood.") from error
    if not isinstance(data, dict):
        raise UnreadableError("The service sent an event that can't be understood.")
    return Event(fields.get("id", ""), fields.get("event", "message"), data)
