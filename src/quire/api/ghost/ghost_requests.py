"""Maps the fields of a GhostServer request onto a submission. An error names the field, never its value.

Unknown fields are ignored, as GhostServer's own service does, and listed in the response.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from quire.api.http.flag_words import is_false, is_true
from quire.api.jobs.submission_fields import Fields, read_fields, submission
from quire.domain.delivery import Destination
from quire.domain.job import Mode
from quire.errors import RequestError
from quire.objects.buckets import Address, in_bucket
from quire.pipeline.ghost_service import GhostRequest
from quire.pipeline.intake.upload_intake import Submission
from quire.settings import Settings

UPLOAD = "upload"
_PROVIDERS = {"openaiengine": "openai", "juniorengine": "openai", "claudeengine": "anthropic"}
_MARK = re.compile(r"[._-]original$", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LINKS = ("http://", "https://")
_FLAGS = ("force_fast", "text_only", "fast_upload")
_TEXTS = (
    "file_path",
    "file_url",
    "user_name",
    "user_id",
    "ai_engine",
    "ai_provider",
    "processing_mode",
    "source",
)
_PASSED_ON = {"password": "password", "ai_prompt": "prompt", "model_tier": "model_tier"}
_OPTIONS = ("pages", "timeout_seconds", "callback_url", "force", "mode", "priority")
_LONGEST = {"file_path": 2_048, "file_url": 8_192}
_LONGEST_TEXT = 256


@dataclass(frozen=True, slots=True)
class GhostSubmission:
    """A request and the submission that it became."""

    submission: Submission
    ghost: GhostRequest
    ignored: tuple[str, ...]


def provider_of(ai_engine: str) -> str | None:
    """Returns the provider of an engine's name, in any case; None for an unknown name."""
    return _PROVIDERS.get(ai_engine.lower())


def file_id_of(path: str) -> str:
    """Returns the file id in a path: its last part without the extension and without the mark of an original.

    `in/4711.pdf`, `in/4711_original.pdf` and `in/4711/original.pdf` are all 4711.
    """
    parts = [part for part in path.split("/") if part]
    if not parts:
        return ""
    stem, dot, _extension = parts[-1].rpartition(".")
    name = stem if dot and stem else parts[-1]
    if name.lower() == "original" and len(parts) > 1:
        return parts[-2]
    return _MARK.sub("", name) or name


def read_request(
    given: Mapping[str, Any],
    settings: Settings,
    *,
    team: str,
    key: str | None,
    ahead: int,
    filename: str | None = None,
) -> GhostSubmission:
    """Returns the submission. `filename` is that of an upload; without one the request must have an address.

    Raises RequestError.
    """
    texts = {name: _text(name, given.get(name)) for name in _TEXTS}
    flags = {name: _flag(name, given.get(name)) for name in _FLAGS}
    options = _options(given.get("options"))
    place = _place(texts, settings, uploaded=filename is not None)
    fields = _fields(given, options, flags, place)
    provider = _provider(texts, settings)
    shown = filename or "" if filename is not None else _shown(place)
    ghost = GhostRequest(
        file_id=file_id_of(shown)[:_LONGEST_TEXT],
        file_path=shown,
        destination=_destination(place, texts["source"]),
        user=texts["user_name"] or texts["user_id"],
        source=UPLOAD if filename is not None else texts["source"] or "api",
        ai_engine=texts["ai_engine"],
        ai_provider=provider,
        fast_upload=flags["fast_upload"],
        ahead=ahead,
    )
    fields = replace(
        fields,
        options=replace(fields.options, engine=provider, text_only=flags["text_only"]),
    )
    asked = submission(team, fields, filename or "", key)
    known = {*_TEXTS, *_FLAGS, *_PASSED_ON, "options"}
    ignored = [name[:60] for name in given if name not in known]
    ignored += [f"options.{name[:60]}" for name in options if name not in _OPTIONS]
    return GhostSubmission(replace(asked, delivery=ghost.as_delivery()), ghost, tuple(ignored[:50]))


def _fields(
    given: Mapping[str, Any], options: Mapping[str, Any], flags: Mapping[str, bool], place: str
) -> Fields:
    """Returns the fields under their names at POST /convert, so that its parser reads them."""
    named: dict[str, Any] = {name: options[name] for name in _OPTIONS if name in options}
    named |= {ours: given.get(theirs) for theirs, ours in _PASSED_ON.items()}
    if flags["force_fast"]:
        named["model_tier"] = "fast"
    if flags["text_only"] or flags["fast_upload"]:
        named["mode"] = Mode.LOCAL.value
    if place:
        named["source"] = place
    return read_fields(named)


def _place(texts: Mapping[str, str], settings: Settings, *, uploaded: bool) -> str:
    """Returns the address of the document; a bare key is in the bucket of AWS_S3_BUCKET."""
    if uploaded:
        return ""
    name = "file_path" if texts["file_path"] else "file_url"
    given = texts[name]
    if not given:
        raise RequestError(
            "file_path: missing. Give file_path or file_url, or send the file itself as a form."
        )
    if in_bucket(given):
        Address.parse(given)
        return given
    if _SCHEME.match(given):
        if not given.startswith((*_LINKS, "file://")):
            raise RequestError(f"{name}: expected a key, s3://bucket/key or an https:// link.")
        return given
    if not settings.aws.bucket:
        raise RequestError(
            f"{name}: a bare key needs the operator to set AWS_S3_BUCKET. Give s3://bucket/key."
        )
    return str(Address.parse(f"s3://{settings.aws.bucket}/{given.lstrip('/')}"))


def _destination(place: str, source: str) -> Destination:
    """Next to the original if that is in a bucket and the caller did not call it an upload."""
    return Destination.BUCKET if in_bucket(place) and source != UPLOAD else Destination.LOCAL


def _shown(place: str) -> str:
    """Returns the address without the parts of a link that may be secret: credentials and the query."""
    if not place.startswith(_LINKS):
        return place
    scheme, _, rest = place.partition("://")
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _provider(texts: Mapping[str, str], settings: Settings) -> str:
    """Returns the engine's provider; without a known engine, `ai_provider` or else the primary engine."""
    return provider_of(texts["ai_engine"]) or texts["ai_provider"] or settings.ai.primary_engine or "openai"


def _options(value: Any) -> dict[str, Any]:
    """Returns the object; a form sends it as JSON text."""
    if value in (None, ""):
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise RequestError("options: expected a JSON object.") from None
    if not isinstance(value, dict):
        raise RequestError("options: expected an object.")
    return value


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and name == "user_id":
        value = str(value)
    most = _LONGEST.get(name, _LONGEST_TEXT)
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise RequestError(f"{name}: expected a text of at most {most} printable characters.")
    return value.strip()


def _flag(name: str, value: Any) -> bool:
    if value in (None, ""):
        return False
    if is_true(value) or is_false(value):
        return is_true(value)
    raise RequestError(f"{name}: expected true or false.")
