"""Validates values with a JSON Schema. Runs in a child process: a pattern of the caller's may take for ever."""

from __future__ import annotations

import json
from dataclasses import dataclass

from quire.errors import RequestError

_MOST_PROBLEMS = 100
_MESSAGE_CHARS = 300


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    path: list[str | int]
    message: str


def check_schema(schema: str) -> None:
    """Raises RequestError for what is no valid JSON Schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        raise RequestError(f"schema: {error.message[:_MESSAGE_CHARS]}") from error


def schema_problems(schema: str, values: str) -> list[SchemaProblem]:
    """What is wrong with the values; the schema has no references to other documents."""
    from jsonschema import Draft202012Validator, FormatChecker

    validator = Draft202012Validator(
        json.loads(schema), format_checker=FormatChecker(["date", "time", "email"])
    )
    found: list[SchemaProblem] = []
    for error in validator.iter_errors(json.loads(values)):
        # A leaf is `null or the caller's rules`: the rules say what is wrong.
        inner = error.context[-1] if error.validator == "anyOf" and error.context else error
        found.append(SchemaProblem(list(error.absolute_path), inner.message[:_MESSAGE_CHARS]))
        if len(found) >= _MOST_PROBLEMS:
            break
    return found
