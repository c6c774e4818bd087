"""Bulk runs: a lake of documents in, Parquet with one row a page out.

`read_documents` is for data engines; it is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quire.bulk.engine_adapters import read_documents

__all__ = ["read_documents"]


def __getattr__(name: str) -> object:
    if name == "read_documents":
        from quire.bulk.engine_adapters import read_documents

        return read_documents
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
