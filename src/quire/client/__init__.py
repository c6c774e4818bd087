"""A service from Python: `Quire` for ordinary code and notebooks, `AsyncQuire` for code that awaits.

from quire.client import Quire

with Quire("http://127.0.0.1:8080") as quire:
    print(quire.convert("report.pdf").markdown)
"""

from quire.client.aio import AsyncQuire
from quire.client.documents import Filters, Options
from quire.client.errors import (
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
from quire.client.retrying import Retrying
from quire.client.sync import Quire

__all__ = [
    "AsyncQuire",
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
