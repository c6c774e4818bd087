"""Logs: JSON lines, or readable lines on a terminal. Secrets and document text are redacted.

Other modules log with `logging.getLogger(__name__)` and `extra={...}`; the extra fields become JSON fields.
Only this module knows structlog, because importing it costs a tenth of a second.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from quire.errors import QuireError
from quire.settings import LoggingSettings
from quire.telemetry.axiom_sink import AxiomHandler
from quire.telemetry.log_files import SharedFileHandler

REDACTED = "[redacted]"

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_SERVER_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access")
# At debug level these write out bodies, headers, every chunk of a picture or every step of a database call.
_CHATTY_LOGGERS = (
    *("PIL", "aiohttp", "aiosqlite", "anthropic", "asyncio", "httpcore", "httpx", "multipart", "openai"),
    *("python_multipart", "redis", "urllib3"),
)

_LONGEST_TEXT = 4_000
_DEEPEST = 6
_MOST_ITEMS = 100

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# A secret wherever the word occurs (`web_password`, `authorization_header`) …
_SECRET_WORDS = frozenset(
    {"password", "passwords", "passwd", "passphrase", "secret", "secrets", "token", "tokens", "authorization"}
    | {"cookie", "cookies", "credential", "credentials", "apikey", "apikeys"}
)
# … and what documents and users say only where it ends the name: `page_text`, but not `text_only`.
_CONTENT_WORDS = frozenset(
    {"prompt", "prompts", "text", "texts", "markdown", "content", "contents", "body", "html"}
)
_SECRET_PAIRS = frozenset({("api", "key"), ("api", "keys"), ("private", "key"), ("secret", "key")})

_URL = re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.-]*://)(?:[^\s/?#\"'<>]*@)?([^\s?#\"'<>]*)(?:[?#][^\s\"'<>]*)?")
_PATH_WITH_QUERY = re.compile(r"(?<![\w/])(/[^\s?\"']*)\?[^\s\"']*")
_AUTH_SCHEME = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_KNOWN_TOKEN = re.compile(r"\b(?:sk|pk|rk|xoxb|ghp|gho|hf)[-_][A-Za-z0-9_-]{8,}|\bAKIA[A-Z0-9]{12,}")
_ASSIGNED = re.compile(
    r"(?i)\b((?:[\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key|authorization))[\"']?\s*[=:]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)"
)
_REPR_OF_EXCEPTION = re.compile(r"exception=([\w.]+)\(.*\)", re.DOTALL)


class _Ours(logging.Handler):
    """Told apart from handlers that others put on the root logger."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Says that a line was lost; the standard way would print its arguments, unredacted."""
        with contextlib.suppress(OSError, ValueError):  # standard error may be closed, or its disk full
            sys.stderr.write(f"A log line of {record.name} could not be written: {sys.exc_info()[0]}\n")


class _StreamHandler(_Ours, logging.StreamHandler[TextIO]):
    pass


class _FileHandler(_Ours, SharedFileHandler):
    pass


class _AxiomHandler(_Ours, AxiomHandler):
    pass


def configure(settings: LoggingSettings, stream: TextIO | None = None) -> Callable[[], None]:
    """Sends everything logged in this process to `stream` (stderr) and, if so set, to a rotated file and to Axiom.

    Replaces what an earlier call set up. Takes over uvicorn's loggers, so uvicorn is to be started with
    `log_config=None`. Returns a function that takes it all down again, after the last lines were sent. Raises OSError
    when the log file can't be opened, SettingsError when Axiom can't be used as it is set.
    """
    target = stream or sys.stderr
    pretty = settings.pretty == "true" or (settings.pretty == "auto" and target.isatty())
    readable: Processor = structlog.dev.ConsoleRenderer(colors=target.isatty())
    lines: Processor = structlog.processors.JSONRenderer(ensure_ascii=False)

    handlers: list[logging.Handler] = [_StreamHandler(target)]
    handlers[0].setFormatter(_formatter(readable if pretty else lines))
    if settings.file is not None:
        handlers.append(_FileHandler(settings))
    if settings.send_to_axiom:
        handlers.append(_AxiomHandler(settings))
    for handler in handlers[1:]:
        handler.setFormatter(_formatter(lines))

    level = _LEVELS[settings.level]
    root = logging.getLogger()
    _remove([handler for handler in root.handlers if isinstance(handler, _Ours)])
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    for name in _SERVER_LOGGERS:
        server = logging.getLogger(name)
        server.handlers.clear()
        server.propagate = True
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(max(level, logging.INFO))
    logging.captureWarnings(True)
    hooks = sys.excepthook, threading.excepthook
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread

    def take_down() -> None:
        _remove(handlers)
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook = hooks

    return take_down


def redact(value: Any, key: str = "", depth: int = 0) -> Any:
    """The value as it may be logged: secrets and document text gone, the rest made of plain JSON types.

    Numbers and booleans are kept under any name, so that `prompt_tokens=812` stays readable.
    """
    shown: Any
    if value is None or isinstance(value, bool | int | float):
        shown = value
    elif _is_private(key):
        shown = REDACTED
    elif isinstance(value, bytes | bytearray | memoryview):
        shown = f"[{len(value)} bytes]"
    elif isinstance(value, Mapping | list | tuple | set | frozenset) and depth >= _DEEPEST:
        shown = "[…]"
    elif isinstance(value, Mapping):
        items = itertools.islice(value.items(), _MOST_ITEMS)
        shown = {_shown_key(str(name)): redact(one, str(name), depth + 1) for name, one in items}
    elif isinstance(value, list | tuple | set | frozenset):
        shown = [redact(one, "", depth + 1) for one in itertools.islice(value, _MOST_ITEMS)]
    elif isinstance(value, BaseException):
        shown = _error_text(value) or type(value).__name__
    else:
        shown = redact_text(str(value))
    return shown


def redact_text(text: str) -> str:
    """The text without credentials, query strings, tokens or what an exception quoted; cut when very long."""
    text = _URL.sub(r"\1\2", text[: 2 * _LONGEST_TEXT])
    text = _PATH_WITH_QUERY.sub(r"\1", text)
    text = _AUTH_SCHEME.sub(rf"\1 {REDACTED}", text)
    text = _KNOWN_TOKEN.sub(REDACTED, text)
    text = _ASSIGNED.sub(rf"\1{REDACTED}", text)
    text = _REPR_OF_EXCEPTION.sub(r"exception=\1(…)", text)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


@functools.lru_cache(maxsize=1024)
def _shown_key(key: str) -> str:
    """Field names are few and come again with every line."""
    return redact_text(key)


@functools.lru_cache(maxsize=1024)
def _is_private(key: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words:
        return False
    if words[-1] in _CONTENT_WORDS or not _SECRET_WORDS.isdisjoint(words):
        return True
    return not _SECRET_PAIRS.isdisjoint(itertools.pairwise(words))


def _formatter(renderer: Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ExtraAdder(),
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _describe_exception,
            _redact_event,
            renderer,
        ],
    )


def _describe_exception(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Replaces the exception by its class, its code and the places it went through.

    A foreign exception's own text is left out, because it may quote a document, a key or a request.
    """
    given = event.pop("exc_info", None)
    event.pop("stack_info", None)
    event.pop("color_message", None)  # uvicorn's twin of the message, with terminal codes
    error = given[1] if isinstance(given, tuple) else given
    if not isinstance(error, BaseException):
        return event
    event["error_class"] = type(error).__name__
    if isinstance(error, QuireError):
        event["error_code"] = error.code
    said = _error_text(error)
    if said:
        event["error"] = said
    frames = traceback.extract_tb(error.__traceback__)
    event["where"] = [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in frames]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        event["caused_by"] = type(cause).__name__
    return event


def _redact_event(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {_shown_key(key): redact(value, key) for key, value in event.items()}


def _error_text(error: BaseException) -> str:
    """What may be repeated of an error: our own public text, or the system's words for a system error."""
    if isinstance(error, QuireError):
        return redact_text(error.public)
    if isinstance(error, OSError) and error.strerror:
        return redact_text(error.strerror)
    return ""


def _remove(handlers: list[logging.Handler]) -> None:
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("quire").critical("Stopped by an uncaught error", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        name = args.thread.name if args.thread else "unknown"
        trace = args.exc_type, args.exc_value, args.exc_traceback
        logging.getLogger("quire").critical("The thread %s was stopped by an error", name, exc_info=trace)
