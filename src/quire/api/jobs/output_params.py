"""The options of a reading and of its result in the query of a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from quire.domain.included_details import IncludedDetails
from quire.domain.output_options import MOST_BREAK_CHARS, FigureForm, HeaderForm, OutputOptions, TableForm

OUTPUT_NAMES = frozenset({"page_break", "front_matter", "tables", "headers", "figures", "join_tables"})


# Asynchronous although it waits for nothing: FastAPI would send a plain function to a thread for every request.
async def _options(
    page_break: Annotated[
        str | None,
        Query(
            max_length=MOST_BREAK_CHARS,
            description="What Markdown has between pages; `{page}` is the number of the next one.",
        ),
    ] = None,
    front_matter: Annotated[
        bool, Query(description="Begins Markdown with what is known of the document, as YAML.")
    ] = False,
    tables: Annotated[
        TableForm,
        Query(
            description="Tables in Markdown; `auto` is HTML where a pipe table would lose cells over several rows."
        ),
    ] = TableForm.MARKDOWN,
    headers: Annotated[
        HeaderForm, Query(description="Whether running headers, footers and page numbers are written.")
    ] = HeaderForm.DROP,
    figures: Annotated[
        FigureForm,
        Query(
            description="Figures in Markdown: nothing, a comment, the picture itself, or a link to its file."
        ),
    ] = FigureForm.NONE,
    *,
    join_tables: Annotated[
        bool,
        Query(
            description="Writes a table that goes on over page breaks once in Markdown, on the page where it begins."
        ),
    ] = False,
) -> OutputOptions:
    return OutputOptions(page_break, front_matter, tables, headers, figures, join_tables)


OutputDep = Annotated[OutputOptions, Depends(_options)]


async def _included(
    include: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Details in JSON, separated by commas: `lines` and `words` of elements with their boxes; "
            "`links`, `outline`, `form_fields`, `embedded_files`, `hidden_text` and `changes` of the file in "
            "`details`.",
            examples=["words,links"],
        ),
    ] = None,
) -> IncludedDetails:
    return IncludedDetails.parse(include)


IncludedDep = Annotated[IncludedDetails, Depends(_included)]


READING_NAMES = frozenset({"force_ocr", "ocr_languages", "reading_effort"})


async def _reading(
    force_ocr: Annotated[str | None, Query(max_length=8, description="As the field of the body.")] = None,
    ocr_languages: Annotated[
        str | None, Query(max_length=200, description="As the field of the body.")
    ] = None,
    reading_effort: Annotated[
        str | None, Query(max_length=20, description="As the field of the body.")
    ] = None,
) -> dict[str, str]:
    languages = ocr_languages and ocr_languages.replace(" ", "+")  # in an address a plus is a space
    given = {"force_ocr": force_ocr, "ocr_languages": languages, "reading_effort": reading_effort}
    return {name: value for name, value in given.items() if value is not None}


ReadingDep = Annotated[dict[str, str], Depends(_reading)]
"""Options of the reading that the query has, as fields of the body; what the body has itself counts instead."""
