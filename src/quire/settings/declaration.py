"""How one setting is declared; the sections are made of these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from quire.settings import kinds
from quire.settings.kinds import Kind

T = TypeVar("T")


@dataclass(frozen=True)
class Declaration:
    """One setting: where it lives (`section`, `attribute`), how it is read, what it means."""

    name: str
    default: str
    kind: Kind[Any]
    description: str
    section: str = ""
    attribute: str = ""


def setting(name: str, default: str, kind: Kind[T], description: str) -> T:
    declaration = Declaration(name, default, kind, description)
    # A URL may carry a password, so it stays out of `repr` like any other secret.
    shown = not kind.secret and kind.write is not kinds.without_password
    return field(default=kind.read(default), repr=shown, metadata={"declaration": declaration})
