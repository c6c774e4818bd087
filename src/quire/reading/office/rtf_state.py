"""What an RTF reader remembers between control words: of the group, of the paragraph, of the table's row."""

from __future__ import annotations

from dataclasses import dataclass, field

from quire.reading.office.flow_text import CellPlace


@dataclass(slots=True)
class RtfState:
    """What a group inherits from the group around it."""

    destination: str = "text"
    begun: str = ""
    """The destination that began in this very group, and ends with it."""
    shown_destination: str = "skipped"
    """Of a text that is written twice, for older readers and in Unicode: the destination of the second."""
    look: int = 0
    is_hidden: bool = False
    is_deleted: bool = False
    """By a tracked change."""
    encoding: str = "cp1252"
    replaced: int = 1
    """How many characters follow a Unicode one for readers that don't know it."""


@dataclass(slots=True)
class RtfMarks:
    """Properties of the paragraph that is being read."""

    in_table: bool = False
    table_depth: int = 1
    style: int = -1
    outline: int = 9
    depth: int = 0
    breaks_before: bool = False


@dataclass(slots=True)
class RtfRow:
    """The definition of a row."""

    cells: list[CellPlace] = field(default_factory=list)
    merged: bool = False
    goes_on: bool = False
    left: int = 0
    """Where its first cell begins."""
