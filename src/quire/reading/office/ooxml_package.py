"""An Office Open XML package: parts that refer to each other by relationships. Also names without their namespaces.

The same format exists under two sets of namespaces (transitional and strict); local names are the same in both.

XML from a stranger. Documents that declare entities are refused, so none can be expanded or fetched.

Whatever encoding the text claims, it is turned into UTF-8 here, from a short list: an encoding in which `<!DOCTYPE` is
spelt differently would get past the check. What precedes the root is not given to the parser at all.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.embedded_files import EmbeddedFiles
from quire.reading.office.zip_container import ZipContainer, resolve

MAX_DEPTH = 200
"""No real document nests elements as deep as this. What walks them may recurse."""

_PROLOG_BYTES = 1 << 16
_PIECE_BYTES = 1 << 16
_DECLARED = re.compile(rb"\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")
_BEFORE_ROOT = re.compile(
    rb"(?>\xef\xbb\xbf)?(?>\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*>)*+(?=<[^!?\s])",
    re.DOTALL | re.IGNORECASE,
)
_ALLOWED = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"})


def parse(data: bytes, what: str) -> Element:
    """The root of a document that is held whole. Raises DamagedError; `what` names the part in it.

    However deep it is, the parser does not mind; a caller that walks the tree by recursion has Python's own limit.
    """
    parser = ElementTree.XMLParser()  # noqa: S314 - declarations are refused before it sees anything
    try:
        for piece in _safe([data], what):
            parser.feed(piece)
        root: Element = parser.close()
    except ElementTree.ParseError as error:
        raise _damaged(what) from error
    return root


def events(pieces: Iterable[bytes], what: str) -> Iterator[tuple[int, str, Element]]:
    """(depth, "start" or "end", element) of a document that may be large; the root has depth 1.

    The caller removes elements that it is done with. Raises DamagedError.
    """
    depth = 0
    parser: Any = ElementTree.XMLPullParser(("start", "end"))
    try:
        for piece in _safe(pieces, what):
            parser.feed(piece)
            for kind, element in parser.read_events():
                if kind == "start":
                    depth += 1
                    if depth > MAX_DEPTH:
                        raise DamagedError(f"The document's {what} is nested too deep to be real.")
                    yield depth, kind, element
                else:
                    yield depth, kind, element
                    depth -= 1
        parser.close()
    except ElementTree.ParseError as error:
        raise _damaged(what) from error


def _safe(pieces: Iterable[bytes], what: str) -> Iterator[bytes]:
    """The text as UTF-8 from its root on, which no declaration of an entity precedes."""
    rest = iter(pieces)
    head = b""
    for piece in rest:
        head += piece
        if len(head) >= _PROLOG_BYTES:
            break
    decoder = _decoder(head, what)
    if decoder is not None:
        head = decoder.decode(head).encode()
    before = _BEFORE_ROOT.match(head)
    if before is None:
        if re.search(rb"<!(?:DOCTYPE|ENTITY)", head, re.IGNORECASE):
            raise DamagedError(f"The document's {what} declares entities of its own, which is not allowed.")
        raise _damaged(what)
    head = head[before.end() :]
    for at in range(0, len(head), _PIECE_BYTES):
        yield head[at : at + _PIECE_BYTES]
    for piece in rest:
        yield piece if decoder is None else decoder.decode(piece).encode()


def _decoder(head: bytes, what: str) -> codecs.IncrementalDecoder | None:
    """None for UTF-8, which the parser checks by itself."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        name = "utf-16"
    elif b"\x00" in head[:4]:
        name = "utf-16-be" if head[0] == 0 else "utf-16-le"
    else:
        declared = _DECLARED.match(head.removeprefix(b"\xef\xbb\xbf"), 0, 200)
        name = declared[1].decode() if declared else "utf-8"
    try:
        found = codecs.lookup(name).name
    except LookupError as error:
        raise _damaged(what) from error
    if found not in _ALLOWED:
        raise DamagedError(f"The document's {what} is written in {found}, which is not allowed here.")
    return None if found == "utf-8" else codecs.getincrementaldecoder(found)("replace")


def _damaged(what: str) -> DamagedError:
    return DamagedError(
        f"The document is damaged: its {what} can't be read. Open it, save it anew, and send that copy."
    )


_HELD_WHOLE_BYTES = 24 << 20


class _LocalNames(dict[str, str]):
    """Of elements and attributes; each is taken apart once."""

    def __missing__(self, name: str) -> str:
        self[name] = found = name.rpartition("}")[2]
        return found


@dataclass(frozen=True, slots=True)
class Relation:
    """`kind` is the last word of its type; `target` a member's name, or an address if `external`."""

    kind: str
    target: str
    external: bool


class Package:
    """`local` gives the local name of any tag or attribute, `embedded` the lines of the files inside."""

    def __init__(self, archive: ZipContainer) -> None:
        self.archive = archive
        self.local = _LocalNames()
        self.embedded = EmbeddedFiles(archive)
        self._relations: dict[str, dict[str, Relation]] = {}

    def main_part(self, usual: str) -> str:
        """Raises DamagedError where the document's main part is missing."""
        named = [one.target for one in self.relations("").values() if one.kind == "officeDocument"]
        for name in (*named, usual):
            if name in self.archive:
                return name
        raise DamagedError(
            "The document is damaged: its main part is missing. Save it anew and send that copy."
        )

    def relations(self, part: str) -> dict[str, Relation]:
        """What a part refers to, by id."""
        if part not in self._relations:
            folder, _, name = part.rpartition("/")
            rels = f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels"
            self._relations[part] = self._read_relations(part, rels) if rels in self.archive else {}
        return self._relations[part]

    def related(self, part: str, kind: str) -> str:
        """The first part of that kind that `part` refers to, "" if there is none."""
        found = (one.target for one in self.relations(part).values() if one.kind == kind and not one.external)
        return next((target for target in found if target in self.archive), "")

    def file_line(self, part: str, element: Element) -> str:
        """The line of the file that an element of the part embeds; "" for one that is only linked."""
        keys = (value for key, value in element.attrib.items() if key.startswith("{") and key.endswith("}id"))
        found = self.relations(part).get(next(keys, ""))
        return "" if found is None or found.external else self.embedded.line(found.target)

    def _read_relations(self, part: str, rels: str) -> dict[str, Relation]:
        found: dict[str, Relation] = {}
        for element in parse(self.archive.read(rels), "list of parts"):
            external = element.get("TargetMode") == "External"
            target = element.get("Target", "")
            kind = element.get("Type", "").rpartition("/")[2]
            found[element.get("Id", "")] = Relation(
                kind, target if external else resolve(part, target.replace("\\", "/")), external
            )
        return found

    def tree(self, part: str, what: str) -> Element | None:
        """A part that is small enough to be held whole; None if it is not there."""
        return parse(self.archive.read(part), what) if part and part in self.archive else None

    def blocks(self, part: str, parent: str, what: str) -> Iterator[Element]:
        """The children of the part's top-level elements called `parent`, one by one. Raises DamagedError.

        A part of some size is never whole in memory; a smaller one is, because that is four times as fast.
        """
        local = self.local
        if self.archive.size(part) <= _HELD_WHOLE_BYTES:
            for top in parse(self.archive.read(part), what):
                if local[top.tag] == parent:
                    yield from top
            return
        holder: Element | None = None
        for depth, kind, element in events(self.archive.pieces(part), what):
            if kind == "start":
                if depth == 2:
                    holder = element if local[element.tag] == parent else None
            elif depth == 3 and holder is not None:
                yield element
                holder.clear()
            elif depth == 2:
                element.clear()

    def top(self, part: str, what: str) -> Iterator[Element]:
        """The children of the part's root, in the same way."""
        if self.archive.size(part) <= _HELD_WHOLE_BYTES:
            yield from parse(self.archive.read(part), what)
            return
        root: Element | None = None
        for depth, kind, element in events(self.archive.pieces(part), what):
            if depth == 1 and kind == "start":
                root = element
            elif depth == 2 and kind == "end":
                yield element
                if root is not None:
                    root.clear()

    def attribute(self, element: Element, name: str, default: str = "") -> str:
        """An attribute by its local name."""
        local = self.local
        for key, value in element.attrib.items():
            if local[key] == name:
                return value
        return default

    def child(self, element: Element | None, name: str) -> Element | None:
        if element is not None:
            local = self.local
            for one in element:
                if local[one.tag] == name:
                    return one
        return None

    def children(self, element: Element | None, name: str) -> list[Element]:
        local = self.local
        return [] if element is None else [one for one in element if local[one.tag] == name]

    def descendants(self, element: Element, name: str) -> Iterator[Element]:
        local = self.local
        return (one for one in element.iter() if local[one.tag] == name)

    def outside(self, element: Element, name: str) -> Iterator[Element]:
        """The element and its descendants in their order, but for what is in those called `name`."""
        left = [element]
        while left:
            one = left.pop()
            yield one
            if self.local[one.tag] != name:
                left += reversed(one)

    def chosen(self, choice: Element) -> Element | None:
        """What is said for newer programs of a thing that is also said for older ones, else what is said for those."""
        found = self.child(choice, "Choice")
        return found if found is not None else self.child(choice, "Fallback")

    def texts(self, element: Element, name: str = "t") -> str:
        return "".join(one.text or "" for one in self.descendants(element, name))

    def is_on(self, element: Element | None) -> bool:
        """Whether a switch like `<w:b/>` is there and not switched off."""
        return element is not None and self.attribute(element, "val", "1") not in ("0", "false", "off")

    def credits(self) -> tuple[str | None, str | None]:
        """Title and author as the document's properties have them."""
        part = self.related("", "core-properties")
        root = None
        try:
            root = self.tree(part, "properties")
        except DamagedError:  # a courtesy: broken properties must not cost the document
            return None, None
        title = self.child(root, "title")
        author = self.child(root, "creator")
        return _tidy(title), _tidy(author)


def _tidy(element: Element | None) -> str | None:
    text = "" if element is None else " ".join((element.text or "").split())
    return "".join(c for c in text if c.isprintable())[:500] or None
