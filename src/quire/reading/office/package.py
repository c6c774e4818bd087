"""An Office Open XML package: parts that refer to each other by relationships. Also names without their namespaces.

The same format exists under two sets of namespaces (transitional and strict); local names are the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.archive import Archive, resolve
from quire.reading.office.markup import events, parse

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
    """`local` gives the local name of any tag or attribute."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.local = _LocalNames()
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
