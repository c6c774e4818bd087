"""The options of docling-serve: which are obeyed, which are ignored, and how a wrong one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quire.api.http.flag_words import is_false, is_true
from quire.domain.job import JobOptions
from quire.errors import RequestError

FORMATS = ("md", "json", "html", "html_split_page", "text", "doctags")
_TARGETS = ("inbody", "zip")


class OptionError(RequestError):
    """An option with a wrong value; answered as docling-serve does, with the place and what is expected there."""

    code = "bad_option"

    def __init__(self, name: str, expected: str) -> None:
        super().__init__(f"{name}: expected {expected}.")
        self.name = name
        self.expected = expected


@dataclass(frozen=True, slots=True)
class DoclingOptions:
    """What Quire obeys of the options. All others are ignored: they choose models that Quire does not have."""

    formats: tuple[str, ...] = ("md",)
    page_break: str = ""
    as_zip: bool = False
    job: JobOptions = field(default_factory=JobOptions)

    @property
    def between(self) -> str:
        """What is between two pages of Markdown."""
        return f"\n\n{self.page_break}\n\n" if self.page_break else "\n\n"

    def view(self) -> dict[str, Any]:
        """What a task keeps to show its result later."""
        return {"formats": list(self.formats), "page_break": self.page_break, "as_zip": self.as_zip}

    @classmethod
    def of_view(cls, view: Mapping[str, Any]) -> DoclingOptions:
        return cls(tuple(view.get("formats", ("md",))), view.get("page_break", ""), bool(view.get("as_zip")))


def read_options(given: Mapping[str, Any], prefix: str = "") -> DoclingOptions:
    """The options of a form (lists of texts) or of JSON. Raises OptionError."""

    def one(name: str, default: Any = None) -> Any:
        value = given.get(prefix + name, default)
        return value[-1] if isinstance(value, list) and value else value

    formats = _formats(_listed(given.get(f"{prefix}to_formats")))
    page_break = one("md_page_break_placeholder") or ""
    if not isinstance(page_break, str) or len(page_break) > 200:
        raise OptionError("md_page_break_placeholder", "a text of at most 200 characters")
    target = one("target_type", given.get("target_type")) or "inbody"
    target = target[-1] if isinstance(target, list) else target
    if target == "presigned_url":
        # In these words, by which docling's own client goes on with `inbody`.
        raise RequestError(
            "The target presigned_url needs artifact storage to be configured, which Quire does not have."
        )
    if target not in _TARGETS:
        raise OptionError(
            "target", f"one of {', '.join(_TARGETS)}; `put` and `s3` where sources are converted"
        )
    job = JobOptions(
        pages=_pages(_listed(given.get(f"{prefix}page_range"))),
        timeout_s=_timeout(one("document_timeout")),
        text_only=is_false(one("do_ocr")) and not is_true(one("force_ocr")),
        force_ocr=is_true(one("force_ocr")),
    )
    return DoclingOptions(formats, page_break, target == "zip", job)


def _listed(value: Any) -> list[Any]:
    """A value of JSON is a list or one value; a form repeats the field, or has commas in it."""
    found = value if isinstance(value, list) else [] if value in (None, "") else [value]
    return [part for item in found for part in (item.split(",") if isinstance(item, str) else [item])]


def _formats(found: list[Any]) -> tuple[str, ...]:
    names = [one.strip() if isinstance(one, str) else "" for one in found]
    if any(name not in FORMATS for name in names):
        raise OptionError("to_formats", f"some of {', '.join(FORMATS)}")
    return tuple(dict.fromkeys(names)) or ("md",)


def _pages(found: list[Any]) -> str | None:
    if not found:
        return None
    try:
        numbers = [int(one) for one in found]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1]:
        raise OptionError("page_range", "two page numbers, the first not after the last")
    if numbers[1] >= 1 << 30:  # docling's default is the largest integer
        return None if numbers[0] == 1 else f"{numbers[0]}-"
    return f"{numbers[0]}-{numbers[1]}"


def _timeout(value: Any) -> float | None:
    if value in (None, ""):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds <= 7 * 86_400:
        raise OptionError("document_timeout", "a number of seconds, at most a week")
    return seconds
