"""Log lines to Axiom: batched, sent by a thread, bounded in memory, with the loss counted.

`axiom-py` is the extra `quire[axiom]`. Its own logging handler sends within the log call; here only its client is used.
Lines below `info` are never sent. While Axiom can't be reached the newest lines are kept and the oldest dropped.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import threading
from collections import deque
from typing import Any, Protocol

from quire.errors import SettingsError
from quire.settings import LoggingSettings

MOST_WAITING = 10_000
"""Lines that wait to be sent; with the next one the oldest is dropped."""

_MOST_IN_A_BATCH = 1_000
_INTERVAL_S = 1.0
_LONGEST_PAUSE_S = 60.0
_CLOSE_S = 5.0
_CALL_S = 10.0


class _Ingest(Protocol):
    def ingest_events(self, dataset: str, events: list[dict[str, Any]]) -> Any: ...


class AxiomHandler(logging.Handler):
    """Takes formatted JSON lines. Raises SettingsError when the extra or the key is missing."""

    def __init__(self, settings: LoggingSettings) -> None:
        super().__init__(level=logging.INFO)
        self._client = _client(settings)
        self._dataset = f"{settings.axiom_dataset}_aidispatcher"
        self._waiting: deque[str] = deque()
        self._in_hand: list[str] = []
        """Lines of the call that is under way."""
        self._changed = threading.Condition()
        self._closing = False
        self.sent = 0
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="axiom", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            self._waiting.append(line)
            if len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
                self.lost += 1
            if len(self._waiting) >= _MOST_IN_A_BATCH:
                self._changed.notify()

    def close(self) -> None:
        """Sends what waits, for a few seconds at most; lines that Axiom has not confirmed then count as lost."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout=_CLOSE_S)
        with self._changed:
            self.lost += len(self._waiting) + len(self._in_hand)
            self._waiting.clear()
            self._in_hand = []
            lost = self.lost
        if lost:
            _say(f"{lost} log lines could not be sent to Axiom.")
        super().close()

    def _run(self) -> None:
        pause_s = _INTERVAL_S
        while True:
            with self._changed:
                if not self._closing:
                    self._changed.wait(pause_s)
                size = min(_MOST_IN_A_BATCH, len(self._waiting))
                self._in_hand = [self._waiting.popleft() for _ in range(size)]
                closing = self._closing
            if self._in_hand and not self._send(self._in_hand):
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
                if closing:
                    return
                continue
            pause_s = 0.0 if self._waiting else _INTERVAL_S
            if closing and not self._waiting:
                return

    def _send(self, batch: list[str]) -> bool:
        """Sends a batch and counts it, or puts it back. A batch that `close` has given up changes nothing."""
        try:
            self._client.ingest_events(self._dataset, [_event(line) for line in batch])
            ok = True
        except Exception:  # whatever a foreign client raises must not end the thread
            ok = False
        with self._changed:
            if self._in_hand is not batch:
                return ok
            self._in_hand = []
            if ok:
                self.sent += len(batch)
            else:
                self._put_back(batch)
        return ok

    def _put_back(self, batch: list[str]) -> None:
        room = MOST_WAITING - len(self._waiting)
        kept = batch[len(batch) - room :] if room < len(batch) else batch
        self.lost += len(batch) - len(kept)
        self._waiting.extendleft(reversed(kept))


def _event(line: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(line)
    event["_time"] = event.pop("timestamp", None)
    return event


def _client(settings: LoggingSettings) -> _Ingest:
    if not settings.axiom_api_key:
        raise SettingsError(
            "SEND_LOGS_TO_AXIOM is on and AXIOM_API_KEY is not set: set it, or switch sending off."
        )
    try:
        from axiom_py import Client
    except ImportError as error:
        raise SettingsError(
            "SEND_LOGS_TO_AXIOM is on and axiom-py is missing: pip install 'quire[axiom]'."
        ) from error
    # Its HTTP libraries log each request, which would be sent in turn.
    for name in ("urllib3", "requests", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    client = Client(
        token=settings.axiom_api_key, org_id=settings.axiom_org_id or None, url=settings.axiom_url
    )
    # The client sets no timeout: a server that accepts and never answers would hold the thread for ever.
    client.session.request = functools.partial(client.session.request, timeout=_CALL_S)
    ingest: _Ingest = client
    return ingest


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
    except (OSError, ValueError):  # closed, or its disk is full
        return
