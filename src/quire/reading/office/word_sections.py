"""Headers and footers of a Word document (DOCX).

Weakness: what a field shows (a page number) is what Word
showed when it last saved the document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

from quire.domain.element import ElementKind
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.ooxml_package import Package, Relation
from quire.reading.office.running_sections import DEFAULT, RunningSections

_KINDS = {
    "headerReference": ElementKind.RUNNING_HEADER,
    "footerReference": ElementKind.RUNNING_FOOTER,
}


class WordSections:
    """`text_of` gives the text of a header's or footer's part as Markdown in one line."""

    def __init__(
        self, package: Package, part: str, relations: dict[str, Relation], text_of: Callable[[str], str]
    ) -> None:
        self._package = package
        self._relations = relations
        self._text_of = text_of
        settings = package.tree(package.related(part, "settings"), "settings")
        self._has_even = package.is_on(package.child(settings, "evenAndOddHeaders"))
        self._lines = RunningSections()
        self._texts: dict[str, str] = {}

    def end(self, section: Element | None) -> None:
        """A section ends, of which these are the properties."""
        if section is None:
            return
        package = self._package
        for one in section:
            kind = _KINDS.get(package.local[one.tag])
            found = self._relations.get(package.attribute(one, "id")) if kind else None
            if kind and found is not None and found.target in package.archive:
                self._lines.name(kind, package.attribute(one, "type", DEFAULT), self._text(found.target))
        has_first = package.is_on(package.child(section, "titlePg"))
        self._lines.end(has_first=has_first, has_even=self._has_even)

    def _text(self, part: str) -> str:
        """The text of a part, which is read once, however many sections have it."""
        if part not in self._texts:
            self._texts[part] = self._text_of(part)
        return self._texts[part]

    def begin(self, page: int) -> None:
        """A section begins on that page, counted from 0."""
        self._lines.begin(page)

    def placed(self, pages: Sequence[OfficePage]) -> list[OfficePage]:
        """The pages with their headers and footers."""
        return self._lines.placed(pages)
