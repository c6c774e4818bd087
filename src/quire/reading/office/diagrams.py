"""Diagrams (SmartArt) of Office documents: the words of their boxes, in their order."""

from __future__ import annotations

from quire.errors import DamagedError
from quire.reading.office.inline_markdown import Run, render
from quire.reading.office.office_pages import MarkdownBlock
from quire.reading.office.ooxml_package import Package


def diagram_blocks(package: Package, part: str) -> list[MarkdownBlock]:
    """An item for each box that has words; nothing where the part can't be read."""
    try:
        root = package.tree(part, "diagram")
    except DamagedError:  # the document is worth more than one of its diagrams
        return []
    texts = [] if root is None else [package.texts(one) for one in package.descendants(root, "pt")]
    return [MarkdownBlock(f"- {render([Run(text)])}", tight=True) for text in texts if text.strip()]
