"""XML from a stranger. Documents that declare entities are refused, so none can be expanded or fetched.

Whatever encoding the text claims, it is turned into UTF-8 here, from a short list: an encoding in which `<!DOCTYPE` is
spelt differently would get past the check. What stands before the root is not given to the parser at all.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from quire.errors import DamagedError

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

    However deep it is, the parser does not mind; whoever walks the tree by recursion has Python's own limit.
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

    Whoever reads removes what is done with. Raises DamagedError.
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
