"""Owns the published shape of elements: the models behind OpenAPI and the JSON Schema of `/formats`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from quire.domain.element import ElementKind

PageBox = tuple[float, float, float, float]


class CellView(BaseModel):
    row: int = Field(ge=0)
    column: int = Field(ge=0)
    row_span: int = Field(ge=1)
    column_span: int = Field(ge=1)
    is_head: bool
    text: str
    markdown: str = Field(description="The text with its links and emphasis; empty where it has none.")


class TableView(BaseModel):
    rows: int = Field(ge=0)
    columns: int = Field(ge=0)
    cells: list[CellView]


class FileFactsView(BaseModel):
    name: str
    size: int | None = Field(description="In bytes; null where it is not known.")
    type: str = Field(description="By the content of the file, never by its name.")


class ElementLineView(BaseModel):
    start: int = Field(ge=0, description="Where the line begins in the element's text.")
    box: PageBox


class ElementWordView(BaseModel):
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    box: PageBox


class DocumentElementView(BaseModel):
    """One element. Fields with a default are left out where they do not apply."""

    id: str
    kind: ElementKind
    order: int = Field(ge=0, description="The place in reading order.")
    parent: str | None = Field(
        description="The id of the element of this page that holds it: of an inner item the item around it, of a "
        "caption its figure or table, of what is in an item or a quotation that one. Headings hold nothing."
    )
    box: PageBox | None = Field(
        description="`[x0, y0, x1, y1]` in points of the upright page, origin at the top left."
    )
    text: str
    confidence: float | None = Field(ge=0, le=1)
    grounded: bool | None = Field(
        description="False: the page's own words do not support this text of a model. Null: nothing to compare with."
    )
    reader: str | None
    repeated: bool = Field(False, description="Running lines that Markdown leaves out.")
    level: int | None = Field(None, ge=1, description="Of a heading.")
    marker: str | None = Field(None, description="Of a list item, a footnote, or an attachment in a list.")
    depth: int | None = Field(None, ge=1, description="Of a list item that is inside another.")
    latex: str | None = None
    language: str | None = Field(None, description="Of code.")
    markdown: str | None = Field(None, description="The text with its links and emphasis.")
    name: str | None = Field(None, description="Of a form field.")
    file: FileFactsView | None = Field(None, description="Of an attachment.")
    table: TableView | None = None
    continues: str | None = Field(
        None, description="Of a table that goes on after a page break: the id of its part on the page before."
    )
    lines: list[ElementLineView] | None = Field(None, description="Only with `include=lines`.")
    words: list[ElementWordView] | None = Field(None, description="Only with `include=words`.")


class ElementsPageView(BaseModel):
    """What is said of a page wherever its elements are given."""

    page_number: int
    width: float | None = Field(description="Of the upright page in points; null where there are no pages.")
    height: float | None
    reader: str | None
    turned: int = Field(0, description="By how many degrees a scan was turned to the left to be read.")
    elements: list[DocumentElementView] = Field(description="In reading order.")


class DocumentPageView(ElementsPageView):
    """A page of a document."""

    note: str | None = Field(
        None, description="Only of a page without elements: what the Markdown has in its place."
    )


class FileLinkView(BaseModel):
    page: int
    box: PageBox
    address: str | None = None
    to_page: int | None = None


class OutlineEntryView(BaseModel):
    level: int
    title: str
    page: int | None


class FormFieldView(BaseModel):
    page: int
    box: PageBox
    name: str
    value: str


class EmbeddedFileView(BaseModel):
    name: str
    size: int | None = None
    description: str | None = None
    page: int | None = Field(None, description="Of a file that is attached to a place.")
    job_id: str | None = Field(None, description="Of a file that was converted.")


class HiddenTextView(BaseModel):
    page: int
    box: PageBox | None = Field(None, description="Only of a PDF.")
    text: str
    reason: Literal["invisible", "transparent", "outside", "tiny", "covered", "white", "hidden"] = Field(
        description="The text layer of a scan is `invisible` or `covered`; `hidden` is what an office file hides."
    )


class ChangeView(BaseModel):
    """A tracked change or a comment of an office file."""

    page: int
    kind: Literal["insertion", "deletion", "moved_from", "moved_to", "comment"]
    text: str
    author: str | None
    date: str | None = Field(description="As the file has it, which is often without a time zone.")


class FileDetailsView(BaseModel):
    """What the file has beside its visible text; each list only if `include` has its name."""

    links: list[FileLinkView] | None = None
    outline: list[OutlineEntryView] | None = None
    form_fields: list[FormFieldView] | None = None
    embedded_files: list[EmbeddedFileView] | None = None
    hidden_text: list[HiddenTextView] | None = Field(None, description="Text that can't be seen.")
    changes: list[ChangeView] | None = Field(
        None, description="Tracked changes and comments, in their order."
    )
    truncated: list[str] | None = Field(
        None,
        description="The lists that are not complete: cut after 10,000 entries, or at a damaged part of the file.",
    )


class DocumentElementsView(BaseModel):
    """A document as elements in reading order, page by page."""

    job_id: str
    filename: str | None
    schema_version: int
    details: FileDetailsView | None = Field(None, description="Only if `include` asks for some of them.")
    pages: list[DocumentPageView]


class PageElementsView(ElementsPageView):
    """A page alone."""

    job_id: str
    schema_version: int
