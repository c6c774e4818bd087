"""Every failure Quire reports, with its code, its retry policy and a text a user can act on.

QuireError
├── SettingsError            a setting is unknown or malformed; the start stops
├── RequestError             the caller can mend it
│   ├── UnsupportedTypeError
│   ├── TooLargeError
│   ├── TooManyPagesError
│   ├── LinkRefusedError
│   ├── CredentialsError
│   ├── MissingError
│   ├── StateConflictError
│   │   └── NotReadyError
│   └── DocumentError        the document itself can't be read
│       ├── DamagedError
│       ├── EmptyError
│       ├── PasswordRequiredError
│       └── PasswordWrongError
├── PageError                one page could not be read; the others are not affected
│   ├── PageCrashedError
│   ├── PageTimeoutError
│   └── PageMemoryError
├── DownloadError            a link could not be fetched; worth another try unless said otherwise
├── ExtractionError          a model could not answer a question about values; worth another try unless said otherwise
├── EmbeddingError           a text could not be turned into a vector; worth another try unless said otherwise
├── OverloadedError          the service is over its bound; come back later
├── NotStartedError          no worker started the job in time; worth another try
├── CancelledError           the job was cancelled while this was running
├── CoordinationCommandError the coordination server refused a command or a script failed: a defect, never retried
└── PlaneError               a plane is out of reach; worth another try
    ├── CoordinationError
    ├── ObjectsError
    │   └── DiskFullError    a disk of this host is full; it takes no new work until there is room
    ├── CatalogError
    └── DataDirInUseError    another process owns the data directory; not worth another try

Callers branch on the class, never on the text. `public` is safe to show to the caller.
"""

from __future__ import annotations

from typing import Any


class QuireError(Exception):
    """The root. `code` is a stable slug, `retryable` says whether the same call may succeed later."""

    code = "internal"
    retryable = False

    def __init__(
        self, public: str, *, retry_after_s: float | None = None, retryable: bool | None = None
    ) -> None:
        super().__init__(public)
        self.public = public
        self.retry_after_s = retry_after_s
        if retryable is not None:
            self.retryable = retryable

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross the border of the child pool; keyword arguments would be lost by the default.
        return (_rebuild, (type(self), self.public, self.retry_after_s, self.retryable))

    def as_dict(self) -> dict[str, Any]:
        """The one shape in which errors are stored and shown (without the request id)."""
        shown: dict[str, Any] = {"error": self.public, "code": self.code, "retryable": self.retryable}
        if self.retry_after_s is not None:
            shown["retry_after_seconds"] = self.retry_after_s
        return shown


def _rebuild(kind: type[QuireError], public: str, retry_after_s: float | None, retryable: bool) -> QuireError:
    return kind(public, retry_after_s=retry_after_s, retryable=retryable)


class SettingsError(QuireError):
    code = "bad_setting"


class RequestError(QuireError):
    code = "bad_request"


class UnsupportedTypeError(RequestError):
    code = "unsupported_type"


class TooLargeError(RequestError):
    code = "too_large"


class TooManyPagesError(RequestError):
    code = "too_many_pages"


class LinkRefusedError(RequestError):
    code = "link_refused"


class CredentialsError(RequestError):
    code = "unauthorized"


class MissingError(RequestError):
    code = "not_found"


class StateConflictError(RequestError):
    code = "conflict"


class NotReadyError(StateConflictError):
    code = "not_ready"
    retryable = True


class DocumentError(RequestError):
    code = "unreadable_document"


class DamagedError(DocumentError):
    code = "damaged_document"


class EmptyError(DocumentError):
    code = "empty_document"


class PasswordRequiredError(DocumentError):
    code = "password_required"


class PasswordWrongError(DocumentError):
    code = "password_wrong"


class PageError(QuireError):
    code = "page_failed"


class PageCrashedError(PageError):
    code = "page_crashed"


class PageTimeoutError(PageError):
    code = "page_timeout"


class PageMemoryError(PageError):
    code = "page_memory"


class DownloadError(QuireError):
    code = "download_failed"
    retryable = True


class ExtractionError(QuireError):
    """`cause` is the code of what happened: a provider's error, or why its answer was rejected."""

    code = "extraction_failed"
    retryable = True

    def __init__(
        self,
        public: str,
        *,
        retry_after_s: float | None = None,
        retryable: bool | None = None,
        cause: str = "extraction_failed",
    ) -> None:
        super().__init__(public, retry_after_s=retry_after_s, retryable=retryable)
        self.cause = cause


class EmbeddingError(QuireError):
    code = "embedding_failed"
    retryable = True


class OverloadedError(QuireError):
    code = "busy"
    retryable = True


class NotStartedError(QuireError):
    code = "not_started"
    retryable = True


class CancelledError(QuireError):
    code = "cancelled"


class PlaneError(QuireError):
    code = "plane_unavailable"
    retryable = True


class CoordinationError(PlaneError):
    code = "coordination_unavailable"


class CoordinationCommandError(QuireError):
    """The server answered, and the answer is an error: a defect in a script, or a key of another type."""

    code = "internal_error"


class ObjectsError(PlaneError):
    code = "objects_unavailable"


class DiskFullError(ObjectsError):
    code = "disk_full"


class CatalogError(PlaneError):
    code = "catalog_unavailable"


class DataDirInUseError(PlaneError):
    code = "data_dir_in_use"
    retryable = False
