"""Stores the schemas that a team has saved under names, in the object plane; they are kept until they are deleted."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from quire.errors import MissingError, RequestError
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.parts import Parts

MOST_SCHEMAS = 500
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class SavedSchema:
    name: str
    schema: dict[str, Any]
    saved_at: float
    instructions: str = ""
    ungrounded: str = "null"

    @property
    def request(self) -> ExtractionRequest:
        return ExtractionRequest.of(self.schema, self.instructions, self.ungrounded)


class SavedSchemas:
    """The schemas of one team. A schema is one object, so a save replaces it whole or not at all."""

    def __init__(self, parts: Parts, team: str) -> None:
        self._objects = parts.objects
        self._clock = parts.clock
        self._prefix = f"schemas/{hashlib.sha256(team.encode()).hexdigest()[:32]}/"

    async def save(self, name: str, request: ExtractionRequest) -> tuple[SavedSchema, bool]:
        """Stores a schema that has been checked; returns it, and whether the name is new.

        Raises RequestError for a bad name, or if there are MOST_SCHEMAS.
        """
        key = self._key(name)
        names = await self.names()
        if name not in names and len(names) >= MOST_SCHEMAS:
            raise RequestError(f"There are {MOST_SCHEMAS} schemas. Delete one first.")
        kept = "keep" if request.keep_ungrounded else "null"
        saved = SavedSchema(name, request.schema, self._clock.now(), request.instructions, kept)
        packed = json.dumps(asdict(saved), ensure_ascii=False).encode("utf-8", "replace")
        await self._objects.put(key, packed)
        return saved, name not in names

    async def get(self, name: str) -> SavedSchema:
        """Raises MissingError."""
        try:
            raw = await self._objects.get(self._key(name))
        except (MissingError, RequestError):
            raise MissingError(f"There is no schema {name[:64]!r}.") from None
        return SavedSchema(**json.loads(raw))

    async def names(self) -> list[str]:
        """The names of all schemas, sorted."""
        return sorted(PurePosixPath(key).stem for key in await self._objects.keys(self._prefix))

    async def delete(self, name: str) -> None:
        """Raises MissingError."""
        await self.get(name)
        await self._objects.delete(self._key(name))

    def _key(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise RequestError("name: expected small letters, digits, - and _, at most 64.")
        return f"{self._prefix}{name}.json"
