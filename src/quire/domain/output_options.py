"""Owns the options of a result: how its Markdown looks. HTTP, the command line and the client have the same names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quire.errors import RequestError

MOST_BREAK_CHARS = 200


class TableForm(StrEnum):
    """`auto` is HTML where a table has cells over several rows or columns, which a pipe table would lose."""

    MARKDOWN = "markdown"
    HTML = "html"
    AUTO = "auto"


class HeaderForm(StrEnum):
    DROP = "drop"
    KEEP = "keep"


class FigureForm(StrEnum):
    """`none` writes the words of a figure only; `placeholder` its place, `embedded` its picture, `files` a link."""

    NONE = "none"
    PLACEHOLDER = "placeholder"
    EMBEDDED = "embedded"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """`page_break` goes between pages, with `{page}` for the number of the page that follows. Raises RequestError."""

    page_break: str | None = None
    front_matter: bool = False
    tables: TableForm = TableForm.MARKDOWN
    headers: HeaderForm = HeaderForm.DROP
    figures: FigureForm = FigureForm.NONE
    join_tables: bool = False
    """Writes a table that goes on over page breaks once, on the page where it begins."""

    def __post_init__(self) -> None:
        if self.page_break is not None and len(self.page_break) > MOST_BREAK_CHARS:
            raise RequestError(f"page_break: at most {MOST_BREAK_CHARS} characters are allowed.")

    @property
    def is_default(self) -> bool:
        return self == OutputOptions()

    @property
    def keeps_stored_pages(self) -> bool:
        """Whether the pages' own Markdown is as it is stored; only what is around it differs."""
        plain = (TableForm.MARKDOWN, HeaderForm.DROP, FigureForm.NONE)
        return not self.join_tables and (self.tables, self.headers, self.figures) == plain
