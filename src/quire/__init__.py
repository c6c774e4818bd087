"""Quire turns documents into Markdown and never loses a page.

`quire.read` reads a document on this machine; it is loaded when it is first used, so that `import quire` stays light.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quire.reading.document_reading import ReadPage as Page
    from quire.reading.sync_reader import ReaderLimits, SyncReader, read

# onnxruntime otherwise keeps a device id and events in the home folder, and sends them to Microsoft.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

__version__ = "0.1.0"
__all__ = ["Page", "ReaderLimits", "SyncReader", "__version__", "read"]


def __getattr__(name: str) -> object:
    if name == "Page":
        from quire.reading.document_reading import ReadPage

        return ReadPage
    if name in ("read", "ReaderLimits", "SyncReader"):
        from quire.reading import sync_reader

        return getattr(sync_reader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
