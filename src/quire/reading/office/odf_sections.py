"""Headers and footers of an OpenDocument text: once for each run of pages where they differ, on its first page.

They belong to master pages, which the style of a paragraph or a table can begin. What a field shows (a page number) is
what the program showed when it last saved the document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element

from quire.domain.element import ElementKind
from quire.reading.office.odf_styles import OdfStyles
from quire.reading.office.office_pages import OfficePage, Pager, RunningText
from quire.reading.office.ooxml_package import Package

_PARTS = {
    ElementKind.RUNNING_HEADER: ("header-first", "header", "header-left"),
    ElementKind.RUNNING_FOOTER: ("footer-first", "footer", "footer-left"),
}
_DEFAULT = "Standard"
_MOST_MASTERS = 20


class OdfSections:
    """Ends pages of `pager` where a style says so; `text_of` gives the words of a header in one line."""

    def __init__(
        self, package: Package, styles: OdfStyles, pager: Pager, text_of: Callable[[Element], str]
    ) -> None:
        self._package = package
        self._styles = styles
        self._pager = pager
        self._text_of = text_of
        root = package.tree("styles.xml", "styles") if "styles.xml" in package.archive else None
        found = package.children(package.child(root, "master-styles"), "master-page")
        self._masters = {package.attribute(one, "name"): one for one in found}
        self._found: dict[int, tuple[RunningText, ...]] = {}
        self._shown: tuple[RunningText, ...] = ()
        self._begun = False

    def before(self, style: str) -> None:
        """A paragraph or a table of that style begins."""
        master = self._styles.masters.get(style, "")
        if master or style in self._styles.breaks_before:
            self._pager.end_page()
        if master or not self._begun:
            self._begin(master or _DEFAULT)

    def after(self, style: str) -> None:
        """It has ended."""
        if style in self._styles.breaks_after:
            self._pager.end_page()

    def placed(self, pages: Sequence[OfficePage]) -> list[OfficePage]:
        """The pages with their headers and footers."""
        return [
            replace(page, running=self._found[at]) if at in self._found else page
            for at, page in enumerate(pages)
        ]

    def _begin(self, master: str) -> None:
        self._begun = True
        lines: list[RunningText] = []
        for name in self._following(master):
            lines += self._lines(self._masters[name])
        ordered = tuple(one for kind in _PARTS for one in dict.fromkeys(lines) if one.kind is kind)
        if ordered != self._shown:
            at = len(self._pager.pages)
            self._found[at] = tuple(dict.fromkeys((*self._found.get(at, ()), *ordered)))
            self._shown = ordered

    def _following(self, master: str) -> list[str]:
        """The master page and those that its pages go on with by themselves."""
        names: list[str] = []
        while master in self._masters and master not in names and len(names) < _MOST_MASTERS:
            names.append(master)
            master = self._package.attribute(self._masters[master], "next-style-name")
        return names

    def _lines(self, master: Element) -> list[RunningText]:
        package = self._package
        found: list[RunningText] = []
        for kind, parts in _PARTS.items():
            for name in parts:
                part = package.child(master, name)
                if part is not None and package.attribute(part, "display", "true") != "false":
                    found.append(RunningText(kind, self._text_of(part)))
        return [one for one in found if one.text]
