"""What has been gathered of a paragraph of a Word document (DOCX)."""

from __future__ import annotations

from dataclasses import dataclass, field

from quire.reading.office.caption_pictures import CaptionParts
from quire.reading.office.drawn_texts import DrawnTexts
from quire.reading.office.inline_markdown import RAW, Run
from quire.reading.office.office_pages import MarkdownBlock


@dataclass(slots=True)
class WordLine:
    """`href` is the address that the text being read links to."""

    runs: list[Run] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)
    aside: list[MarkdownBlock] = field(default_factory=list)
    """Charts and diagrams: they follow the paragraph that they are anchored in, and so do text boxes."""
    boxes: list[DrawnTexts] = field(default_factory=list)
    breaks: bool = False
    href: str = ""
    field: str | None = None
    form: str = ""
    """The value of the form field that is being read, and the place of its first run."""
    form_at: int = 0

    @property
    def has_only_formulas(self) -> bool:
        """Whether formulas are all that it has: then they are set apart, not inside a text."""
        return bool(self.formulas) and not any(run.text.strip() and not run.look & RAW for run in self.runs)

    def set_apart(self, parts: CaptionParts) -> None:
        """The pictures of a caption, which are a block of their own, are no longer in the line."""
        if parts.above is not None or parts.below is not None:
            self.runs, self.pictures = parts.runs, []
        if parts.below is not None:
            self.aside.insert(0, parts.below)
