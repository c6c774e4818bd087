"""What a file is, decided by its first bytes and never by its name. Standard library only.

Also tells whether lines of text are rows of a table, and their delimiter.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import dataclass

_DELIMITERS = ",;\t|"
_LEAST_ALIKE = 0.9
_LONGEST_CELL = 80
_QUOTED = re.compile(r'(?:(?<=[,;\t|\n])|\A)"(?:[^"]|"")*+"')


def delimiter_of(sample: str) -> str:
    """The character between the fields, "" if the text does not look like a table.

    In a table every row has the same number of them; a few rows may differ.
    """
    lines = _rows(sample)
    best, best_count = "", 0
    for delimiter in _DELIMITERS:
        counts = Counter(line.count(delimiter) for line in lines)
        if not counts:
            continue
        count, times = counts.most_common(1)[0]
        if count > best_count and times >= _LEAST_ALIKE * len(lines):
            best, best_count = delimiter, count
    return best


def is_table(sample: str) -> bool:
    """Whether there is no doubt: several rows, several columns, and no fields as long as sentences."""
    delimiter = delimiter_of(sample)
    lines = _rows(sample)
    if not delimiter or delimiter == "|" or len(lines) < 3:
        return False
    columns = lines[0].count(delimiter) + 1
    if columns < (2 if delimiter == "\t" else 3):
        return False
    return sum(map(len, lines)) / (len(lines) * columns) <= _LONGEST_CELL


def _rows(sample: str) -> list[str]:
    """Lines without fields in quotation marks, which may have line breaks inside; the last may be cut off."""
    lines = _QUOTED.sub("", sample).splitlines()
    return [line for line in (lines[:-1] if len(lines) > 3 else lines) if line.strip()][:200]


SNIFF_BYTES = 65_536
"""How much of a file's beginning `sniff` wants: enough for zip member names and a fair sample of text."""

_PDF_MARKER_WITHIN = 1024


@dataclass(frozen=True, slots=True)
class FileKind:
    """A type of file. `label` is for people, `supported` says whether Quire reads it."""

    mime: str
    label: str
    supported: bool = False
    fence: str = ""
    """For source code: what its language is called at a code fence."""

    @property
    def is_pdf(self) -> bool:
        return self.mime == "application/pdf"

    @property
    def is_image(self) -> bool:
        return self.mime.startswith("image/")


EMPTY = FileKind("application/x-empty", "empty file")
PDF = FileKind("application/pdf", "PDF document", True)
JPEG = FileKind("image/jpeg", "JPEG image", True)
PNG = FileKind("image/png", "PNG image", True)
WEBP = FileKind("image/webp", "WebP image", True)
GIF = FileKind("image/gif", "GIF image", True)
TIFF = FileKind("image/tiff", "TIFF image", True)
BMP = FileKind("image/bmp", "BMP image", True)
TEXT = FileKind("text/plain", "plain text", True)
MARKDOWN = FileKind("text/markdown", "Markdown text", True)
HTML = FileKind("text/html", "HTML page", True)
CSV = FileKind("text/csv", "table in a text file", True)
EML = FileKind("message/rfc822", "e-mail message", True)
MSG = FileKind("application/vnd.ms-outlook", "Outlook message", True)
HEIC = FileKind("image/heic", "HEIC image", True)
AVIF = FileKind("image/avif", "AVIF image", True)
XML = FileKind("application/xml", "XML document", True, fence="xml")
JSON = FileKind("application/json", "JSON document", True, fence="json")
JATS = FileKind("application/jats+xml", "JATS article", True)
SVG = FileKind("image/svg+xml", "SVG image")
RTF = FileKind("application/rtf", "RTF document", True)
DOC = FileKind("application/msword", "Word document of before 2007", True)
XLS = FileKind("application/vnd.ms-excel", "Excel workbook of before 2007", True)
PPT = FileKind("application/vnd.ms-powerpoint", "PowerPoint presentation of before 2007", True)
ZIP = FileKind("application/zip", "ZIP archive")
OLE = FileKind("application/x-ole-storage", "older Microsoft Office document")
DOUBTFUL_ZIP = FileKind("application/zip", "ZIP archive", True)
"""A zip file whose beginning does not show what it is; only the whole file does."""
DOUBTFUL_OLE = FileKind("application/x-ole-storage", "older Microsoft Office document", True)
"""The same for the format that Outlook's messages share with old office files."""
UNKNOWN = FileKind("application/octet-stream", "unknown binary file")

DOCX = FileKind(
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "Word document", True
)
XLSX = FileKind("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "Excel workbook", True)
PPTX = FileKind(
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "PowerPoint presentation",
    True,
)
EPUB = FileKind("application/epub+zip", "EPUB book", True)
ODT = FileKind("application/vnd.oasis.opendocument.text", "OpenDocument text", True)
ODS = FileKind("application/vnd.oasis.opendocument.spreadsheet", "OpenDocument spreadsheet", True)
ODP = FileKind("application/vnd.oasis.opendocument.presentation", "OpenDocument presentation", True)
_JAR = FileKind("application/java-archive", "Java archive")

_SIGNATURES: tuple[tuple[int, bytes, FileKind], ...] = (
    (0, b"\xff\xd8\xff", JPEG),
    (0, b"\x89PNG\r\n\x1a\n", PNG),
    (0, b"GIF87a", GIF),
    (0, b"GIF89a", GIF),
    (0, b"II*\x00", TIFF),
    (0, b"MM\x00*", TIFF),
    (0, b"II+\x00", TIFF),
    (0, b"MM\x00+", TIFF),
    (0, b"{\\rtf", RTF),
    (0, b"\x1f\x8b", FileKind("application/gzip", "gzip archive")),
    (0, b"BZh", FileKind("application/x-bzip2", "bzip2 archive")),
    (0, b"\xfd7zXZ\x00", FileKind("application/x-xz", "xz archive")),
    (0, b"\x28\xb5\x2f\xfd", FileKind("application/zstd", "Zstandard archive")),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind("application/x-7z-compressed", "7-Zip archive")),
    (0, b"Rar!\x1a\x07", FileKind("application/vnd.rar", "RAR archive")),
    (257, b"ustar", FileKind("application/x-tar", "tar archive")),
    (0, b"\x7fELF", FileKind("application/x-elf", "Linux program")),
    (0, b"\xcf\xfa\xed\xfe", FileKind("application/x-mach-binary", "macOS program")),
    (0, b"\xca\xfe\xba\xbe", FileKind("application/x-java-class", "Java class or macOS program")),
    (0, b"\x00asm", FileKind("application/wasm", "WebAssembly module")),
    (0, b"SQLite format 3\x00", FileKind("application/vnd.sqlite3", "SQLite database")),
    (0, b"%!PS", FileKind("application/postscript", "PostScript document")),
    (0, b"\xc5\xd0\xd3\xc6", FileKind("application/postscript", "encapsulated PostScript")),
    (0, b"AT&TFORM", FileKind("image/vnd.djvu", "DjVu document")),
    (0, b"\x00\x00\x00\x0cjP  \r\n\x87\n", FileKind("image/jp2", "JPEG 2000 image")),
    (0, b"\xff\x4f\xff\x51", FileKind("image/jp2", "JPEG 2000 codestream")),
    (0, b"\xff\x0a", FileKind("image/jxl", "JPEG XL image")),
    (0, b"8BPS", FileKind("image/vnd.adobe.photoshop", "Photoshop image")),
    (0, b"\x00\x00\x01\x00", FileKind("image/vnd.microsoft.icon", "icon")),
    (0, b"OggS", FileKind("application/ogg", "Ogg audio or video")),
    (0, b"fLaC", FileKind("audio/flac", "FLAC audio")),
    (0, b"ID3", FileKind("audio/mpeg", "MP3 audio")),
    (0, b"\xff\xfb", FileKind("audio/mpeg", "MP3 audio")),
    (0, b"\x1aE\xdf\xa3", FileKind("video/webm", "Matroska or WebM video")),
    (0, b"FLV\x01", FileKind("video/x-flv", "Flash video")),
    (0, b"wOFF", FileKind("font/woff", "web font")),
    (0, b"wOF2", FileKind("font/woff2", "web font")),
    (0, b"OTTO", FileKind("font/otf", "OpenType font")),
    (0, b"PAR1", FileKind("application/vnd.apache.parquet", "Parquet table")),
)

_RIFF: dict[bytes, FileKind] = {
    b"WEBP": WEBP,
    b"WAVE": FileKind("audio/wav", "WAV audio"),
    b"AVI ": FileKind("video/x-msvideo", "AVI video"),
}

_ISO_BRANDS: dict[bytes, FileKind] = {
    b"heic": HEIC,
    b"heix": HEIC,
    b"heim": HEIC,
    b"heis": HEIC,
    b"hevc": HEIC,
    b"mif1": HEIC,
    b"msf1": HEIC,
    b"avif": AVIF,
    b"avis": AVIF,
    b"qt  ": FileKind("video/quicktime", "QuickTime video"),
    b"M4A ": FileKind("audio/mp4", "MPEG-4 audio"),
}
_MP4 = FileKind("video/mp4", "MP4 video")

_ZIP_MEMBERS: tuple[tuple[bytes, FileKind], ...] = (
    (b"word/", DOCX),
    (b"xl/", XLSX),
    (b"ppt/", PPTX),
    (b"META-INF/MANIFEST.MF", _JAR),
)
_ZIP_MIMETYPES: tuple[tuple[bytes, FileKind], ...] = (
    (b"mimetypeapplication/epub+zip", EPUB),
    (b"mimetypeapplication/vnd.oasis.opendocument.text", ODT),
    (b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet", ODS),
    (b"mimetypeapplication/vnd.oasis.opendocument.presentation", ODP),
)

OLE_MARK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
OLE_STREAMS: tuple[tuple[str, FileKind], ...] = (
    ("__properties_version1.0", MSG),
    ("WordDocument", DOC),
    ("Workbook", XLS),
    ("PowerPoint Document", PPT),
    ("EncryptedPackage", FileKind("application/x-ole-storage", "Office document protected by a password")),
)
"""What the streams of an OLE file are called, and so what it is."""

_MARKDOWN_MARKS = re.compile(
    r"^(?:#{1,6} \S|```|[-*+] \S|>\s?\S|\|.+\||\d+\. \S|!?\[[^\]\n]+\]\([^)\n]+\))", re.MULTILINE
)
_HTML_START = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
# Sniffing runs on the event loop, so no part of a pattern may give back what it has matched: texts of an attacker that
# almost match would take for ever.
_JATS_START = re.compile(
    r"\s*+(?:(?><\?.*?\?>)\s*+)*+(?:(?><!--.*?-->)\s*+)*+"
    r"(?:<!DOCTYPE\s++article\s(?=[^>]*+>)(?>[^>]*?JATS[^>]*+>).*?<article\b"
    r"|(?:<!DOCTYPE[^>]*+>\s*+)?<article\s(?>[^>]*?(?:article-type|dtd-version)=))",
    re.S,
)
_HTML_PIECE = re.compile(
    r"\s*(?:(?><!--.*?-->)\s*+)*+<(?:div|table|p|h[1-6]|script|style|title|meta|ul|ol|span|article|section|main|center"
    r"|font|form|img|link|nav|header|br|a|b)\b[^<]{0,2000}>",
    re.I | re.S,
)
_MAIL_HEADER = re.compile(
    r"^(?:From|To|Subject|Received|Return-Path|Delivered-To|Date|Message-ID|MIME-Version|Content-Type): ",
    re.I,
)
_CONTROL = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")


def sniff(head: bytes) -> FileKind:
    """The kind of the file that begins with `head` (pass `SNIFF_BYTES` of it, or all if it is shorter)."""
    if not head:
        return EMPTY
    kind = _signature_kind(head) or _container_kind(head)
    if kind is not None:
        return kind
    if _is_mail(head):  # whose parts may be in any encoding, or in none
        return EML
    text = decode_text(head, partial=len(head) >= SNIFF_BYTES)
    if text is None:
        text = legacy_text(head)
    return UNKNOWN if text is None else _text_kind(text)


def _signature_kind(head: bytes) -> FileKind | None:
    return next((kind for offset, mark, kind in _SIGNATURES if head.startswith(mark, offset)), None)


def _container_kind(head: bytes) -> FileKind | None:
    """Kinds that take more than a few fixed bytes to tell."""
    kind: FileKind | None = None
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        kind = _zip_kind(head)
    elif head.startswith(OLE_MARK):
        kind = _ole_kind(head)
    elif head.startswith(b"RIFF"):
        kind = _RIFF.get(head[8:12], UNKNOWN)
    elif head[4:8] == b"ftyp":
        kind = _iso_kind(head)
    elif b"%PDF-" in head[: _PDF_MARKER_WITHIN + 5]:
        kind = PDF
    elif head.startswith(b"BM") and _is_bmp(head):
        kind = BMP
    elif head.startswith(b"MZ") and b"\x00" in head[:64]:
        kind = FileKind("application/vnd.microsoft.portable-executable", "Windows program")
    return kind


def decode_text(data: bytes, *, partial: bool = False) -> str | None:
    """The text in `data` if it is UTF-8 or UTF-16 text, else None.

    With `partial` the bytes may end in the middle of a character.
    """
    for mark, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return _decode(data[len(mark) :], name, partial)
    if b"\x00" in data:
        # UTF-16 without a mark: Latin text has its zeros on one side of each pair.
        sample = data[:2000]
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        half = len(sample) / 2
        if odd > 0.4 * half and even < 0.05 * half:
            return _decode(data, "utf-16-le", partial)
        if even > 0.4 * half and odd < 0.05 * half:
            return _decode(data, "utf-16-be", partial)
        return None
    return _decode(data, "utf-8", partial)


def legacy_text(data: bytes) -> str | None:
    """The text in `data` if it is likely to be Western text of before Unicode, else None.

    Weakness: any other single-byte encoding is taken for Windows-1252 too, and its letters come out wrong.
    """
    if b"\x00" in data:
        return None
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    sample = text[:20_000]
    odd = sum(1 for c in sample if c > "\x7f" and not c.isalpha())
    if len(_CONTROL.findall(sample)) > 0.005 * len(sample) or odd > 0.05 * len(sample):
        return None
    letters = sum(1 for c in sample if c > "\x7f")
    return text if letters <= 0.3 * len(sample) else None


def _decode(data: bytes, encoding: str, partial: bool) -> str | None:
    step = 2 if encoding.startswith("utf-16") else 1
    for cut in range(0, 4 if partial else 1, step):
        try:
            text = data[: len(data) - cut].decode(encoding)
        except UnicodeDecodeError:
            continue
        sample = text[:20_000]
        if len(_CONTROL.findall(sample)) > 0.005 * len(sample):
            return None
        return text
    return None


def _zip_kind(head: bytes) -> FileKind:
    declared = b"mimetype" + _packed_mimetype(head)
    for mark, kind in _ZIP_MIMETYPES:
        if mark in head[:200] or declared == mark:
            return kind
    # The first member that says something counts: a presentation may hold whole workbooks further on.
    for name in _zip_names(head):
        for prefix, kind in _ZIP_MEMBERS:
            if name.startswith(prefix):
                return kind
    return DOUBTFUL_ZIP if len(head) >= SNIFF_BYTES else ZIP


def _packed_mimetype(head: bytes) -> bytes:
    """The content of a first member `mimetype` that is compressed, against the rule; empty if there is none."""
    if len(head) < 30 or head[26:28] != b"\x08\0" or head[30:38] != b"mimetype":
        return b""
    method, start = head[8:10], 38 + int.from_bytes(head[28:30], "little")
    if method != b"\x08\0":
        return b""
    try:
        return zlib.decompressobj(-15).decompress(head[start : start + 1024], 200).strip()
    except zlib.error:
        return b""


def _ole_kind(head: bytes) -> FileKind:
    names = _ole_names(head)
    for name, kind in OLE_STREAMS:
        if name in names:
            return kind
    for name, kind in OLE_STREAMS:  # the directory may be elsewhere, or broken
        if name.encode("utf-16-le") in head:
            return kind
    return DOUBTFUL_OLE if len(head) >= SNIFF_BYTES else OLE


def _ole_names(head: bytes) -> set[str]:
    """What is at the top of an OLE file's directory, as far as the head has it: streams may hold whole files too."""
    if len(head) < 512 or not 7 <= head[30] <= 12:
        return set()
    size, sector = 1 << head[30], int.from_bytes(head[48:52], "little")
    entries: list[bytes] = []
    for _ in range(len(head) // size):
        at = (sector + 1) * size
        entries += (head[one : one + 128] for one in range(at, min(at + size, len(head) - 127), 128))
        table = 76 + 4 * (sector * 4 // size)
        if at >= len(head) or table >= 512:
            break
        link = (int.from_bytes(head[table : table + 4], "little") + 1) * size + sector * 4 % size
        sector = int.from_bytes(head[link : link + 4], "little") if link + 4 <= len(head) else len(head)
    names: set[str] = set()
    left = [int.from_bytes(entries[0][76:80], "little")] if entries else []
    seen: set[int] = set()
    while left:
        place = left.pop()
        if place in seen or place >= len(entries):
            continue
        seen.add(place)
        entry = entries[place]
        length = int.from_bytes(entry[64:66], "little")
        names.add(entry[: max(0, min(length, 64) - 2)].decode("utf-16-le", "replace"))
        left += (int.from_bytes(entry[at : at + 4], "little") for at in (68, 72))
    return names


def _zip_names(head: bytes) -> list[bytes]:
    names: list[bytes] = []
    at = head.find(b"PK\x03\x04")
    while at != -1 and at + 30 <= len(head):
        length = int.from_bytes(head[at + 26 : at + 28], "little")
        names.append(head[at + 30 : at + 30 + length])
        at = head.find(b"PK\x03\x04", at + 30)
    return names


def _iso_kind(head: bytes) -> FileKind:
    size = min(int.from_bytes(head[0:4], "big"), len(head), 256)
    brands = [head[8:12], *(head[i : i + 4] for i in range(16, size, 4))]
    for brand in brands:
        if brand in _ISO_BRANDS:
            return _ISO_BRANDS[brand]
    return _MP4


def _is_bmp(head: bytes) -> bool:
    return len(head) >= 26 and int.from_bytes(head[14:18], "little") in (12, 16, 40, 52, 56, 64, 108, 124)


def _text_kind(text: str) -> FileKind:
    start = text.lstrip()
    if _HTML_START.match(text[:4096]):
        return HTML
    if start.startswith(("<?xml", "<svg", "<article", "<!DOCTYPE article")):
        return _xml_kind(start)
    marks = len(_MARKDOWN_MARKS.findall(text[:20_000]))
    if marks < 3 and _HTML_PIECE.match(text[:4096]):
        return HTML
    if marks < 3 and is_table(text[:20_000]):
        return CSV
    return MARKDOWN if marks >= 2 or re.match(r"#{1,6} \S", start) else TEXT


def _xml_kind(text: str) -> FileKind:
    if "<svg" in text[:2000]:
        return SVG
    if _JATS_START.match(text[:4096]):
        return JATS
    return XML if text.startswith("<?xml") else HTML


def _is_mail(head: bytes) -> bool:
    """Whether it begins with header lines, at least two of them of the kind that every mail has."""
    if not re.match(rb"[A-Za-z][!-9;-~]*:[ \t]", head):
        return False
    block = re.split(rb"\r?\n\r?\n", head[:20_000], maxsplit=1)[0].decode("latin-1")
    named = [line for line in re.split(r"\r?\n", block) if line[:1] not in (" ", "\t")]
    known = sum(bool(_MAIL_HEADER.match(line)) for line in named)
    return known >= 2 and len(named) >= 3 and all(re.match(r"[!-9;-~]+:", line) for line in named)
