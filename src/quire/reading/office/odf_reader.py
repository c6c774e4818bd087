"""OpenDocument texts, sheets and slides (ODT, ODS, ODP) as Markdown.

The text is as if all tracked changes were accepted; the changes and hidden parts are beside it.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from quire.errors import DamagedError, TooLargeError
from quire.reading.office.odf_sections import OdfSections
from quire.reading.office.odf_sheets import read_sheet
from quire.reading.office.odf_slides import read_slide
from quire.reading.office.odf_styles import OdfStyles, read_styles
from quire.reading.office.odf_writer import OdfWriter
from quire.reading.office.office_pages import OfficePage, Pager
from quire.reading.office.office_source import Opened
from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_marks import ReviewMarks
from quire.reading.office.zip_container import OfficeLimits, ZipContainer

_CONTENT = "content.xml"
_MOST_BYTES = 128 << 20


def open_document(path: str, limits: OfficeLimits) -> Opened:
    """An ODT file. Raises DocumentError or TooLargeError."""
    return _open(path, limits, "odt", "text")


def open_spreadsheet(path: str, limits: OfficeLimits) -> Opened:
    """An ODS file. Raises DocumentError or TooLargeError."""
    return _open(path, limits, "ods", "spreadsheet")


def open_presentation(path: str, limits: OfficeLimits) -> Opened:
    """An ODP file. Raises DocumentError or TooLargeError."""
    return _open(path, limits, "odp", "presentation")


def _open(path: str, limits: OfficeLimits, reader: str, kind: str) -> Opened:
    archive = ZipContainer(path, limits)
    try:
        if _CONTENT not in archive:
            raise DamagedError(
                "The document is damaged: its content is missing. Save it anew and send that copy."
            )
        if archive.size(_CONTENT) > _MOST_BYTES:
            raise TooLargeError(
                f"The document has more than {_MOST_BYTES >> 20} MB of text. Send it in parts."
            )
        package = Package(archive)
        root = package.tree(_CONTENT, "content")
        body = package.child(package.child(root, "body"), kind)
        styles = read_styles(package, root)
        title, author = _credits(package)
        pages = _pages(package, styles, body, kind) if body is not None else []
    except BaseException:
        archive.close()
        raise
    return Opened(reader, pages, title, author, archive.read, archive.close, files=package.embedded.by_line)


def _credits(package: Package) -> tuple[str | None, str | None]:
    """Title and author as the document's properties have them."""
    try:
        root = package.tree("meta.xml", "properties")
    except DamagedError:  # a courtesy: broken properties must not cost the document
        return None, None
    meta = package.child(root, "meta")
    found = []
    for names in (("title",), ("initial-creator", "creator")):
        texts = [one.text or "" for name in names for one in package.children(meta, name)]
        clean = " ".join("".join(c for c in " ".join(texts[:1]) if c.isprintable() or c == " ").split())[:500]
        found.append(clean or None)
    return found[0], found[1]


def _pages(package: Package, styles: OdfStyles, body: Element, kind: str) -> list[OfficePage]:
    if kind == "presentation":
        return [read_slide(package, styles, page) for page in package.children(body, "page")]
    if kind == "spreadsheet":
        sheets = package.children(body, "table")
        return [page for one in sheets for page in read_sheet(OdfWriter(package, styles, ReviewMarks()), one)]
    pager = Pager()
    writer = OdfWriter(package, styles, pager.marks)
    sections = OdfSections(package, styles, pager, lambda one: " ".join(writer.line_of(one).split()))
    writer.sections = sections
    writer.add_blocks(body, pager.add, 0)
    return sections.placed(pager.finish())
