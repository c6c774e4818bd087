"""Inputs for fuzzing our own parsers: documents and protocol texts with changes that keep most of their structure.

A changed member is packed into its archive again, a changed stream into its compound file, so that the changes reach
the parser behind the container. Elements of XML, groups of RTF and values of JSON are nested, repeated and removed.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

NONSENSE = (
    *(b"<w:tbl>", b"</w:p>", b"<a", b"&x;", b"<![CDATA[", b"--b\r\n", b"=?utf-8?q?=ff?=", b"\xff\xfe", b"\0"),
    *(b'r="99999999999"', b"&#0;", b"]]>", b"<!DOCTYPE x [", b"<tr><td colspan=99999>", b"9" * 400, b"-1"),
)
NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
RTF_WORDS = (
    *(
        b"\\trowd\\cellx99999999999 ",
        b"\\row ",
        b"\\cell ",
        b"\\intbl\\itap9 ",
        b"\\u-1?",
        b"\\u99999999 ",
        b"\\uc0 ",
    ),
    *(
        b"\\bin99999999 ",
        b"\\'zz",
        b"{\\fonttbl{\\f0\\fcharset999 x;}}",
        b"{\\*\\unknown ",
        b"\\ls9999 ",
        b"}",
        b"{",
    ),
    *(
        b"\\pntext ",
        b"\\footnote ",
        b"\\field{\\*\\fldinst HYPERLINK ",
        b"\\fldrslt ",
        b"\\deff-1 ",
        b"\\ansicpg99 ",
    ),
)
_TAG = re.compile(rb"<[^<>]{1,200}>")
_RTF_WORD = re.compile(rb"\\[a-z]+-?\d*|[{}]")


@st.composite
def mutations(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few changes: bytes replaced, removed, repeated, or marked-up nonsense put in."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(changed)))
        length = draw(st.integers(0, 40))
        kind = draw(st.integers(0, 4))
        piece = bytes(changed[at : at + length])
        new = (
            draw(st.binary(max_size=20)),
            b"",
            piece * draw(st.integers(2, 50)),
            draw(st.sampled_from(NONSENSE)),
            bytes(len(piece)),
        )[kind]
        changed[at : at + (0 if kind == 3 else length)] = new
    return bytes(changed)


@st.composite
def records(draw: st.DrawFn, content: bytes) -> bytes:
    """Binary records of the same length, with numbers at their borders: lengths, offsets, counts, kinds."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 8))):
        form = draw(st.sampled_from(["<B", "<H", "<I"]))
        size = struct.calcsize(form)
        at = draw(st.integers(0, max(0, len(changed) - size)))
        number = draw(st.one_of(st.sampled_from(NUMBERS), st.integers(0, 0xFFFFFFFF)))
        changed[at : at + size] = struct.pack(form, number & (256**size - 1))
    return bytes(changed[: draw(st.integers(0, len(changed)))] if draw(st.integers(0, 9)) == 0 else changed)


@st.composite
def marked_up(draw: st.DrawFn, content: bytes, token: re.Pattern[bytes] = _TAG) -> bytes:
    """Whole tokens (tags of XML, words and braces of RTF) removed, repeated, moved, or nested deeply."""
    changed = content
    for _ in range(draw(st.integers(1, 5))):
        places = [(one.start(), one.end()) for one in token.finditer(changed)]
        if not places:
            return changed
        start, end = draw(st.sampled_from(places))
        other_start, other_end = draw(st.sampled_from(places))
        first, last = min(start, other_start), max(end, other_end)
        kind = draw(st.integers(0, 4))
        if kind == 0:
            changed = changed[:start] + changed[end:]
        elif kind == 1:
            changed = changed[:start] + changed[start:end] * draw(st.integers(2, 3_000)) + changed[end:]
        elif kind == 2:
            changed = changed[:other_start] + changed[start:end] + changed[other_start:]
        elif kind == 3:
            changed = changed[:last] + changed[first:last] * draw(st.integers(1, 30)) + changed[last:]
        else:
            changed = changed[:first] + changed[last:]
        changed = changed[:300_000]
    return draw(mutations(changed)) if draw(st.booleans()) else changed


@st.composite
def rich_texts(draw: st.DrawFn, content: bytes) -> bytes:
    changed = draw(marked_up(content, _RTF_WORD))
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(changed)))
        word = draw(st.sampled_from(RTF_WORDS)) * draw(st.sampled_from((1, 1, 2, 500)))
        changed = changed[:at] + word + changed[at:]
    return changed


@st.composite
def archives(draw: st.DrawFn, content: bytes) -> bytes:
    """An archive with one of its members changed, or its bytes themselves."""
    if draw(st.integers(0, 9)) == 0:
        return draw(mutations(content))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given_archive:
        names = given_archive.namelist()
        chosen = draw(st.sampled_from(names))
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
            for name in names:
                member = given_archive.read(name)
                change = marked_up(member) if draw(st.booleans()) else mutations(member)
                made.writestr(name, draw(change) if name == chosen else member)
    return out.getvalue()


@st.composite
def compound_files(draw: st.DrawFn, content: bytes, pack: Callable[[Mapping[str, Any]], bytes]) -> bytes:
    """A compound file with one of its streams changed, or its own sectors and tables."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.one_of(records(content), mutations(content)))
    tree = _streams(content)
    places = [
        (holder, name) for holder in _storages(tree) for name, one in holder.items() if isinstance(one, bytes)
    ]
    for _ in range(draw(st.integers(1, 2))):
        holder, name = draw(st.sampled_from(places))
        holder[name] = draw(st.one_of(records(holder[name]), mutations(holder[name])))
    return pack(tree)


def _streams(content: bytes) -> dict[str, Any]:
    import olefile  # type: ignore[import-untyped]

    tree: dict[str, Any] = {}
    with olefile.OleFileIO(io.BytesIO(content)) as file:
        for path in file.listdir(streams=True):
            holder = tree
            for name in path[:-1]:
                holder = holder.setdefault(name, {})
            holder[path[-1]] = file.openstream(path).read()
    return tree


def _storages(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree, *(found for one in tree.values() if isinstance(one, dict) for found in _storages(one))]


# ---- protocols -------------------------------------------------------------------------------------------------

_NAMES = st.sampled_from(
    (
        b"Host",
        b"Content-Length",
        b"Content-Type",
        b"Transfer-Encoding",
        b"Expect",
        b"Connection",
        b"X-A",
        b"X-API-Key",
    )
)
_VALUES = st.one_of(
    st.sampled_from(
        (b"5", b"+5", b"05", b"5, 5", b"-1", b"99999999999999999999", b"chunked", b"100-continue", b"")
    ),
    st.sampled_from((b"image/png", b"close", b"a\r\n b", b"\xff", b"a" * 70_000)),
    st.binary(max_size=30),
)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """Heads of requests with fields doubled, contradictory, folded and oversized."""
    line = draw(
        st.sampled_from(
            (b"POST /parse", b"POST /parse?a=%00", b"POST //parse", b"PUT /parse", b"POST http://h/parse")
        )
    )
    version = draw(st.sampled_from((b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2", b"")))
    fields = draw(st.lists(st.tuples(_NAMES, _VALUES), max_size=8))
    colon = draw(st.sampled_from((b": ", b":", b" : ")))
    text = b"".join(name + colon + value + b"\r\n" for name, value in fields)
    return line + b" " + version + b"\r\n" + text + b"\r\n" + draw(st.binary(max_size=20))


_JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def json_texts(draw: st.DrawFn) -> bytes:
    """Whole JSON values, sometimes nested beyond what a reader follows, sometimes damaged."""
    text = json.dumps(draw(_JSON_VALUES), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    depth = draw(st.sampled_from((0, 0, 0, 5, 3_000, 200_000)))
    text = (
        b'{"a":' * depth + text + b"}" * depth if draw(st.booleans()) else b"[" * depth + text + b"]" * depth
    )
    return draw(mutations(text)) if draw(st.booleans()) else text


@st.composite
def parse_bodies(draw: st.DrawFn) -> bytes:
    """Bodies of POST /parse: the long field in any place, doubled, escaped, padded wrongly, or of another type."""
    image = draw(
        st.sampled_from(
            ("aGVsbG8gd29ybGQ=", "aGVsbG8", "data:image/png;base64,aGVsbG8=", "a\\u0047Vs", "*", "")
        )
    )
    pairs = [
        (json.dumps(name), json.dumps(value))
        for name, value in draw(st.dictionaries(st.text(max_size=9), _JSON_VALUES, max_size=4)).items()
    ]
    for _ in range(draw(st.integers(0, 2))):
        value = draw(st.sampled_from((f'"{image}"', f'"{image * 60}"', "null", "{}", "1e999")))
        name = draw(st.sampled_from(('"image_data"', '"image\\u005fdata"', '"filename"')))
        pairs.insert(draw(st.integers(0, len(pairs))), (name, value))
    gap = draw(st.sampled_from(("", " ", "\n", "\t\r\n")))
    text = "{" + ",".join(f"{gap}{name}{gap}:{gap}{value}" for name, value in pairs) + gap + "}"
    whole = text.encode("utf-8", "surrogatepass")
    return draw(mutations(whole)) if draw(st.booleans()) else whole
