"""Builds a submission from the fields of a request. Every error names its field and never repeats a value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from quire.api.http.flag_words import is_false, is_true
from quire.domain.delivery import Delivery, Destination
from quire.domain.job import JobOptions, JobPriority, JobSecrets, Mode, ReadingEffort
from quire.errors import RequestError
from quire.pipeline.intake.upload_intake import Submission

LONGEST_KEY = 255
LONGEST_TIMEOUT_S = 7 * 86_400.0
TIERS = ("primary", "secondary", "fast")

_ENGINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LANGUAGES = re.compile(r"[A-Za-z0-9_]{2,40}(?:\+[A-Za-z0-9_]{2,40})*")


@dataclass(frozen=True, slots=True)
class Fields:
    """The caller's fields, parsed but not yet checked by the engine."""

    options: JobOptions
    secrets: JobSecrets
    force: bool
    result_to: str = ""
    """Where the result is written as well; the engine checks it."""


def read_fields(given: Mapping[str, Any]) -> Fields:
    """Raises RequestError. JSON gives numbers and booleans, a form gives texts; both are understood.

    Null and the empty text count as not given: that is what an untouched form sends.
    """
    for name in given:
        if name not in _READERS:
            known = ", ".join(_READERS)
            raise RequestError(f"{name[:60]!r} is not a field of this request. There are: {known}.")
    read = {name: _READERS[name](name, value) for name, value in given.items() if value not in (None, "")}
    return Fields(
        JobOptions(
            mode=read.get("mode", Mode.AUTO),
            engine=read.get("engine"),
            model_tier=read.get("model_tier"),
            pages=read.get("pages"),
            timeout_s=read.get("timeout_seconds"),
            priority=read.get("priority", JobPriority.NORMAL),
            force_ocr=read.get("force_ocr", False),
            ocr_languages=read.get("ocr_languages"),
            reading_effort=read.get("reading_effort"),
            version_of=read.get("version_of"),
        ),
        JobSecrets(
            password=read.get("password"),
            prompt=read.get("prompt"),
            source_url=read.get("source"),
            callback_url=read.get("callback_url"),
        ),
        read.get("force", False),
        read.get("result_to", ""),
    )


def refuse_version(fields: Fields) -> None:
    """Raises RequestError where a request that makes no document of the vault names the version before."""
    if fields.options.version_of:
        raise RequestError("version_of: is for POST /documents.")


def read_key(header: str | None) -> str | None:
    """The Idempotency-Key header. Raises RequestError unless it is 1 to 255 printable ASCII characters."""
    if header is None:
        return None
    if not 0 < len(header) <= LONGEST_KEY or not header.isascii() or not header.isprintable():
        raise RequestError(f"Idempotency-Key: expected 1 to {LONGEST_KEY} printable ASCII characters.")
    return header


def submission(team: str, fields: Fields, filename: str, key: str | None) -> Submission:
    return Submission(
        team=team,
        options=fields.options,
        secrets=fields.secrets,
        filename=filename,
        force=fields.force,
        idempotency_key=key,
        delivery=Delivery(Destination.PREFIX, result_to=fields.result_to) if fields.result_to else None,
    )


def _text(most: int) -> Callable[[str, Any], str]:
    def read(name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise RequestError(f"{name}: expected a text.")
        if len(value) > most:
            raise RequestError(f"{name}: at most {most} characters are allowed.")
        # No later part can store a NUL or half of a surrogate pair (which JSON can contain).
        if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise RequestError(f"{name}: has characters that are not allowed.")
        return value

    return read


def _mode(name: str, value: Any) -> Mode:
    try:
        return Mode(_text(20)(name, value))
    except ValueError:
        raise RequestError(f"{name}: expected one of {', '.join(Mode)}.") from None


def _priority(name: str, value: Any) -> JobPriority:
    try:
        return JobPriority(_text(20)(name, value))
    except ValueError:
        raise RequestError(f"{name}: expected one of {', '.join(JobPriority)}.") from None


def _effort(name: str, value: Any) -> ReadingEffort:
    try:
        return ReadingEffort(_text(20)(name, value))
    except ValueError:
        raise RequestError(f"{name}: expected one of {', '.join(ReadingEffort)}.") from None


def read_languages(name: str, value: Any) -> str:
    """The languages of OCR, as in `eng+deu`. Raises RequestError that names the field."""
    text = _text(200)(name, value)
    if not _LANGUAGES.fullmatch(text):
        raise RequestError(f"{name}: expected names of languages joined with +, as in eng+deu.")
    return text


def _engine(name: str, value: Any) -> str:
    text = _text(64)(name, value)
    if not _ENGINE.fullmatch(text):
        raise RequestError(f"{name}: expected a name of letters, digits, dots and dashes.")
    return text


def _tier(name: str, value: Any) -> str:
    text = _text(20)(name, value)
    if text not in TIERS:
        raise RequestError(f"{name}: expected one of {', '.join(TIERS)}.")
    return text


def _seconds(name: str, value: Any) -> float:
    problem = RequestError(
        f"{name}: expected a number of seconds, above 0 and at most {LONGEST_TIMEOUT_S:.0f}."
    )
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise problem
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        raise problem from None
    if not math.isfinite(seconds) or not 0 < seconds <= LONGEST_TIMEOUT_S:
        raise problem
    return seconds


def _flag(name: str, value: Any) -> bool:
    if is_true(value) or is_false(value):
        return is_true(value)
    raise RequestError(f"{name}: expected true or false.")


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "source": _text(8_192),
    "mode": _mode,
    "engine": _engine,
    "model_tier": _tier,
    "prompt": _text(20_000),
    "pages": _text(10_000),
    "password": _text(1_024),
    "timeout_seconds": _seconds,
    "callback_url": _text(8_192),
    "priority": _priority,
    "force": _flag,
    "force_ocr": _flag,
    "ocr_languages": read_languages,
    "reading_effort": _effort,
    "result_to": _text(2_048),
    "version_of": _text(200),
}
