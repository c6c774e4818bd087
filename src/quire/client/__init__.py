"""A service from Python: `Quire` for ordinary code and notebooks, `AsyncQuire` for code that awaits.



with Quire("http://127.0.0.1:8080") as quire:
    print(quire.convert("report.pdf").markdown)
"""

from quire.client.async_client import AsyncQuire
from quire.client.async_documents import Filters, Options
from quire.client.batch_calls import Batch
from quire.client.exceptions import (
    BusyError,
    ClientError,
    ConflictError,
    InvalidError,
    JobFailedError,
    NotFoundError,
    RefusedError,
    TookTooLongError,
    UnauthorizedError,
    UnreachableError,
    UnreadableError,
    UsageError,
)
from quire.client.sync_client import Quire
from quire.client.transport import Retrying

__all__ = [
    "AsyncQuire",
    "Batch",
    "BusyError",
    "ClientError",
    "ConflictError",
    "Filters",
    "InvalidError",
    "JobFailedError",
    "NotFoundError",
    "Options",
    "Quire",
    "RefusedError",
    "Retrying",
    "TookTooLongError",
    "UnauthorizedError",
    "UnreachableError",
    "UnreadableError",
    "UsageError",
]
