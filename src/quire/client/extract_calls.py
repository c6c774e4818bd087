"""The call of `POST /extract`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quire.client.exceptions import UsageError
from quire.client.service_calls import ServiceCall, Source, given, idempotent, submitting

_HELD_LONGEST_S = 3_700.0
"""Longer than the longest EXTRACT_TIMEOUT."""


def extract_call(
    source: Source | None,
    stored: Mapping[str, str | None],
    wanted: Mapping[str, Any],
    reading: Mapping[str, Any],
    *,
    schema: Mapping[str, Any] | str | None,
    name: str | None,
) -> ServiceCall:
    """`stored` names a job or a document, `reading` has options for a source; a schema that is a text is a saved one.

    Raises UsageError.
    """
    if not schema:
        raise UsageError("extract needs a schema, or the name of a saved one.")
    field = "saved_schema" if isinstance(schema, str) else "schema"
    known = {key: value for key, value in stored.items() if value}
    if len(known) + (source is not None) != 1:
        raise UsageError("extract needs one of source, job_id and document_id.")
    if source is None:
        body = {**known, **given(wanted), field: schema}
        return ServiceCall("POST", "/extract", headers=idempotent(), json=body, quiet_s=_HELD_LONGEST_S)
    fields = {**wanted, **reading, field: schema if isinstance(schema, str) else json.dumps(schema)}
    call = submitting("/extract", source, name, fields, None)
    if call.json is not None:
        call = replace(call, json={**call.json, field: schema})
    return replace(call, quiet_s=_HELD_LONGEST_S)
