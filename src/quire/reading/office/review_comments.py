"""Comments that readers of a workbook or a presentation left in it, as items of a list.

A thread's comments come in their order, each with its author. The copy of a thread that Excel keeps for its older
versions is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.inline_markdown import plain
from quire.reading.office.office_pages import MarkdownBlock, cell
from quire.reading.office.ooxml_package import Package


def sheet_comments(package: Package, workbook: str, sheet: str) -> Iterator[MarkdownBlock]:
    """The notes and comments of a sheet."""
    people = {
        package.attribute(one, "id"): package.attribute(one, "displayName")
        for one in _children(package, package.related(workbook, "person"), "person")
    }
    threads: set[str] = set()
    threaded: list[MarkdownBlock] = []
    for one in _children(package, package.related(sheet, "threadedComment"), "threadedComment"):
        place = package.attribute(one, "ref")
        author = people.get(package.attribute(one, "personId"), "")
        threads.add(place)
        threaded += comment_item(f"Note at {place}", author, package.texts(one, "text"))
    root = _root(package, package.related(sheet, "comments"))
    authors = [one.text or "" for one in package.children(package.child(root, "authors"), "author")]
    for one in package.children(package.child(root, "commentList"), "comment"):
        place = package.attribute(one, "ref")
        if place not in threads:
            number = package.attribute(one, "authorId")
            author = authors[int(number)] if number.isdigit() and int(number) < len(authors) else ""
            yield from comment_item(f"Note at {place}", author, package.texts(one))
    yield from threaded


def slide_comments(package: Package, show: str, slide: str) -> Iterator[MarkdownBlock]:
    """The comments of a slide: those of PowerPoint before 2021, and those since."""
    authors: dict[str, str] = {}
    for kind in ("commentAuthors", "authors"):
        for name in ("cmAuthor", "author"):
            for one in _children(package, package.related(show, kind), name):
                authors[package.attribute(one, "id")] = package.attribute(one, "name")
    root = _root(package, package.related(slide, "comments"))
    for one in package.children(root, "cm"):
        yield from _slide_comment(package, one, authors)


def _slide_comment(package: Package, one: Element, authors: Mapping[str, str]) -> Iterator[MarkdownBlock]:
    author = authors.get(package.attribute(one, "authorId"), "")
    own = package.child(one, "text")
    body = package.child(one, "txBody")
    text = (own.text or "") if own is not None else package.texts(body) if body is not None else ""
    yield from comment_item("Comment", author, text)
    for reply in package.children(package.child(one, "replyLst"), "reply"):
        yield from _slide_comment(package, reply, authors)


def column_letters(number: int) -> str:
    """The name of a column: 28 is "AB"."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def comment_item(what: str, author: str, text: str) -> list[MarkdownBlock]:
    """A comment as an item of a list; nothing where it has no text. `what` says what it is, and where."""
    words, name = cell(text), cell(author)
    by = f" by {name}" if name else ""
    return [MarkdownBlock(f"- **{plain(what)}{by}**: {words}", tight=True)] if words else []


def _root(package: Package, part: str) -> Element | None:
    try:
        return package.tree(part, "comments")
    except DamagedError:  # the document is worth more than its comments
        return None


def _children(package: Package, part: str, name: str) -> list[Element]:
    return package.children(_root(package, part), name)
