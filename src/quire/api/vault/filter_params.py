"""The filters that lists, searches and exports of the vault have in common."""

from __future__ import annotations

import datetime
import re
from typing import Annotated

from fastapi import Depends, Query

from quire.domain.vault_document import DocumentFilters, DocumentState
from quire.errors import RequestError

_MOST_TAGS = 20
_KIND = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,63}")
_LANGUAGE = re.compile(r"[a-zA-Z]{2,3}(-[A-Za-z0-9]{2,8}){0,2}")


async def filters_of(
    *,
    status: Annotated[DocumentState | None, Query(description="Only documents that are seen so.")] = None,
    tag: Annotated[list[str] | None, Query(description="All of these tags.")] = None,
    type: Annotated[list[str] | None, Query(description="Any of these types: `pdf`, `png`, …")] = None,
    language: Annotated[str | None, Query(description="An ISO 639-1 code.", max_length=35)] = None,
    date_from: Annotated[str | None, Query(description="The document's date, YYYY-MM-DD.")] = None,
    date_to: Annotated[str | None, Query(description="The document's date, YYYY-MM-DD, included.")] = None,
) -> DocumentFilters:
    """Raises RequestError that names the field."""
    tags = tuple(one.strip() for one in tag or () if one.strip())
    if len(tags) > _MOST_TAGS or any(len(one) > 100 for one in tags):
        raise RequestError(f"tag: at most {_MOST_TAGS} of at most 100 characters.")
    kinds = tuple(one.strip().lower() for one in type or () if one.strip())
    if len(kinds) > _MOST_TAGS or not all(map(_KIND.fullmatch, kinds)):
        raise RequestError("type: expected short words such as pdf or docx.")
    if language and not _LANGUAGE.fullmatch(language):
        raise RequestError("language: expected a code such as en or de.")
    _refuse_nul("tag", *tags)
    return DocumentFilters(
        state=status,
        tags=tags,
        kinds=kinds,
        language=language.lower() if language else None,
        date_from=_date("date_from", date_from),
        date_to=_date("date_to", date_to),
    )


Filters = Annotated[DocumentFilters, Depends(filters_of)]


def read_query(name: str, given: str | None) -> str:
    text = (given or "").strip()
    _refuse_nul(name, text)
    return text


def _refuse_nul(name: str, *texts: str) -> None:
    if any("\x00" in one or any("\ud800" <= c <= "\udfff" for c in one) for one in texts):
        raise RequestError(f"{name}: has characters that are not allowed.")


def _date(name: str, given: str | None) -> str | None:
    if not given:
        return None
    try:
        found = datetime.date.fromisoformat(given)
    except ValueError:
        raise RequestError(f"{name}: expected a date as YYYY-MM-DD.") from None
    return found.isoformat()
