"""Control words of RTF: what they stand for, which groups are left out; and pictures and files of a document."""

from __future__ import annotations

import re

from quire.reading.files.attachment_notes import AttachmentNote
from quire.reading.office.embedded_files import linked_object_note
from quire.reading.office.inline_markdown import BOLD, ITALIC, RAISED, STRIKE

TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z\r\n])|([{}])"
    rb"|[\r\n]+|\\[\r\n]+|([^\\{}\r\n]+)"
)
TEXTS = {
    "tab": " ", "line": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’",
    "ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ", "softline": "\n",
}  # fmt: skip
SIGNS = {"~": " ", "_": "-", "-": "", "\n": "", "\r": "", "{": "{", "}": "}", "\\": "\\"}
LOOKS = {"b": BOLD, "i": ITALIC, "strike": STRIKE, "striked": STRIKE, "super": RAISED}
SKIPPED = frozenset({
    "colortbl", "filetbl", "listtable", "listoverridetable", "rsidtbl", "generator", "themedata",
    "colorschememapping", "datastore", "latentstyles", "xmlnstbl", "wgrffmtfilter", "mmathPr", "nonshppict",
    "objclass", "listpicture", "pgptbl", "userprops", "docvar", "fchars", "lchars", "private", "xe", "tc",
    "bkmkstart", "bkmkend", "atnid", "atnref", "atntime", "atnparent", "atrfstart", "atrfend",
    "nonesttables", "fldtype", "datafield", "background", "sp",
})  # fmt: skip
KEPT_OPTIONAL = frozenset(["fldinst", "shppict", "pn", "shpinst", "shptxt"])
"""Destinations that a reader may leave out, but that hold text or lead to it."""
CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip


_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_MOST_FILES, _MOST_OBJECT_BYTES = 1_000, 16 << 20


def is_number(marker: str) -> bool:
    """Whether what marks an item is a number or a letter, no bullet."""
    return bool(_NUMBERS.fullmatch(marker)) or (marker[-1:] in ".)" and bool(marker[:-1].strip("(")))


class RtfFiles:
    """The files of embedded objects, whose pictures are in the text."""

    def __init__(self) -> None:
        self.notes: list[AttachmentNote] = []

    def hold(self, digits: str) -> None:
        digits = "".join(digits.split())
        if len(self.notes) >= _MOST_FILES or len(digits) > 2 * _MOST_OBJECT_BYTES:
            return
        try:
            note = linked_object_note(bytes.fromhex(digits))
        except ValueError:
            return
        self.notes += [note] if note is not None else []


class RtfPictures:
    """Pictures of the document by their number."""

    def __init__(self) -> None:
        self._found: list[bytes] = []

    def hold(self, digits: str) -> str:
        try:
            self._found.append(bytes.fromhex("".join(digits.split())))
        except ValueError:
            return ""
        return str(len(self._found) - 1)

    def get(self, ref: str) -> bytes:
        return self._found[int(ref)] if ref.isdigit() and int(ref) < len(self._found) else b""
