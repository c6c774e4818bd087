"""Restores what Redis has of document batches: when their objects are deleted, and which callbacks are due."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from quire.coordination.batch_callbacks import BatchCallbacks
from quire.pipeline.document_batches import DocumentBatches
from quire.pipeline.object_keys import batch_key, due_callback_key
from quire.pipeline.parts import Parts

_BATCH, _DUE = posixpath.basename(batch_key("x")), posixpath.basename(due_callback_key("x"))


class BatchRecovery:
    """Raises CoordinationError. Every call may be repeated: what Redis has is left as it is."""

    def __init__(self, parts: Parts, pending: BatchCallbacks) -> None:
        self._batches = DocumentBatches(parts)
        self._pending = pending

    async def run(self, names: Mapping[str, set[str]]) -> int:
        """Restores the batches among these folders of objects; returns how many callbacks Redis did not have."""
        restored = 0
        for batch_id, found in sorted(names.items()):
            if _BATCH in found:
                await self._batches.register(batch_id)
                restored += _DUE in found and await self._pending.restore(batch_id)
        return restored
