"""Files made to hurt whoever reads them. Each is small, and made here; `scale` makes the largest ones larger."""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.support.office_files import (
    W,
    cells,
    docx,
    epub,
    item,
    mail,
    p,
    png,
    pptx,
    shape,
    word_table,
    xlsx,
    zipped,
)

MB = 1 << 20
LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">'
    '<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;"><!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;"><!ENTITY f "&e;&e;&e;&e;&e;&e;&e;">]>'
)
FETCH = '<!DOCTYPE x [<!ENTITY xxe SYSTEM "file:///etc/passwd">]>'
NAMES = (
    "../../../etc/passwd",
    "..\\..\\windows\\system32\\x.docx",
    "nul\x00byte.txt",
    "txt.\u202etxt.exe",
    "n" * 4096 + ".txt",
    "",
    "CON.txt",
    "a\r\nSet-Cookie: x=1.txt",
    "<img src=x onerror=alert(1)>.txt",
)


@dataclass(frozen=True)
class Hostile:
    """`refused` says that the only right answer is an error; the others may also give a safe result."""

    name: str
    make: Callable[[], bytes]
    filename: str = "document"
    refused: bool = False


def corpus(scale: int = 1) -> Iterator[Hostile]:
    yield from _archives(scale)
    yield from _entities()
    yield from _depths(scale)
    yield from _pictures()
    yield from _pdfs(scale)
    yield from _mails(scale)
    yield from _tables(scale)
    yield from _pages(scale)
    for place, name in enumerate(NAMES):
        yield Hostile(f"file name {place}", lambda n=place: f"A text of number {n}.\n".encode(), name)  # type: ignore[misc]


# ---- archives ----------------------------------------------------------------------------------------------


def raw_zip(entries: list[tuple[str, bytes, int, int]]) -> bytes:
    """Members (name, deflated bytes, claimed size, claimed check sum), whatever they claim."""
    body, directory = b"", b""
    for name, packed, size, check in entries:
        raw = name.encode()
        head = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, check, len(packed), size, len(raw), 0)
        directory += (
            b"PK\x01\x02" + struct.pack("<H", 20) + head + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + raw
        )
        body += b"PK\x03\x04" + head + raw + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


def deflated(block: bytes, times: int, before: bytes = b"", after: bytes = b"") -> bytes:
    """`before`, the block so many times, `after`, deflated without ever being whole."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    out = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    again = zlib.compressobj(9, zlib.DEFLATED, -15)
    repeated = again.compress(block) + again.flush(zlib.Z_FULL_FLUSH)
    return out + repeated * times + packer.compress(after) + packer.flush()


def _word_bomb(times: int, claimed: int | None = None) -> bytes:
    """A document of so many megabytes; with `claimed` it says that it is of another size."""
    head = f"<w:document {W}><w:body><w:p><w:r><w:t>".encode()
    tail = b"</w:t></w:r></w:p></w:body></w:document>"
    block = b"x" * MB
    check = zlib.crc32(head)
    for _ in range(times if claimed is None and times < 500 else 0):
        check = zlib.crc32(block, check)
    check = zlib.crc32(tail, check)
    plain = {"[Content_Types].xml": b"<Types/>", "_rels/.rels": b"<Relationships/>"}
    entries = [(name, deflated(b"", 0, data), len(data), zlib.crc32(data)) for name, data in plain.items()]
    size = len(head) + times * MB + len(tail) if claimed is None else claimed
    return raw_zip([*entries, ("word/document.xml", deflated(block, times, head, tail), size, check)])


def _many_members(count: int) -> bytes:
    directory = b"".join(
        b"PK\x01\x02"
        + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0)
        + b"%08d" % n
        for n in range(count)
    )
    first = b"PK\x03\x04" + struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0, 0, 0, 0, 14, 0) + b"word/document."
    end64 = b"PK\x06\x06" + struct.pack(
        "<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(directory), len(first)
    )
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, len(first) + len(directory), 1)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return first + directory + end64 + locator + end


def _slip() -> bytes:
    made = docx(p("harmless"))
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["word/_rels/document.xml.rels"] = (
        b'<Relationships><Relationship Id="s" Type="x/styles" Target="../../../../etc/passwd"/>'
        b'<Relationship Id="n" Type="x/numbering" Target="/etc/passwd"/></Relationships>'
    )
    return zipped({**parts, "../../../../tmp/quire-slipped": b"x", "/tmp/quire-slipped": b"x", "C:\\x": b"x"})


def _archives(scale: int) -> Iterator[Hostile]:
    yield Hostile("zip bomb that says so", lambda: _word_bomb(2_000), refused=True)
    yield Hostile("zip bomb that lies", lambda: _word_bomb(2_000, 1_000), refused=True)
    yield Hostile("zip bomb below the bound", lambda: _word_bomb(400))
    nested = zipped({f"{n}.zip": zipped({"x": b"\0" * MB}) for n in range(20)})
    yield Hostile("zip of zips", lambda: zipped({f"{n}.zip": nested for n in range(20)}), refused=True)
    yield Hostile("zip of zips in a document", lambda: docx(p("x"), media={"media/a.zip": nested}))
    yield Hostile("zip with very many members", lambda: _many_members(100_000 * scale), refused=True)
    yield Hostile("zip with names that lead out", _slip)
    yield Hostile("zip cut short", lambda: docx(p("x" * 5000))[:-300], refused=True)
    yield Hostile("zip of noise", lambda: b"PK\x03\x04" + random.Random(1).randbytes(100_000), refused=True)
    yield Hostile(
        "document without its main part",
        lambda: zipped({"word/x": b"", "[Content_Types].xml": b""}),
        refused=True,
    )


# ---- entities and depth ------------------------------------------------------------------------------------


def _with_part(made: bytes, name: str, content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    return zipped({**parts, name: content})


def _entities() -> Iterator[Hostile]:
    text = "<w:document {}><w:body><w:p><w:r><w:t>&{};</w:t></w:r></w:p></w:body></w:document>"
    for label, head, entity in (("laughs", LAUGHS, "f"), ("external", FETCH, "xxe")):
        document = head + text.format(W, entity)
        for encoding in ("utf-8", "utf-16", "cp037"):
            declared = f'<?xml version="1.0" encoding="{encoding}"?>'
            raw = (declared + document).encode(encoding)
            if encoding == "cp037":
                raw = declared.encode() + document.encode(encoding)
            yield Hostile(
                f"{label} in a Word document in {encoding}",
                lambda raw=raw: _with_part(docx(p("x")), "word/document.xml", raw),  # type: ignore[misc]
                refused=True,
            )
        strings = f"{head}<sst><si><t>&{entity};</t></si></sst>".encode()
        yield Hostile(
            f"{label} in shared strings",
            lambda strings=strings: _with_part(xlsx({"S": cells("x")}), "xl/sharedStrings.xml", strings),  # type: ignore[misc]
            refused=True,
        )
        yield Hostile(
            f"{label} in a book",
            lambda head=head, entity=entity: epub(["<p>x</p>"], opf=f"{head}<package>&{entity};</package>"),  # type: ignore[misc]
            refused=True,
        )
        page = f"{head}<html><body><p>&{entity};</p></body></html>"
        yield Hostile(f"{label} in a chapter", lambda page=page: epub([page]))  # type: ignore[misc]
        svg = f'<?xml version="1.0"?>{head}<svg>&{entity};</svg>'.encode()
        yield Hostile(f"{label} in a drawing", lambda svg=svg: svg, "x.svg", refused=True)  # type: ignore[misc]


def _depths(scale: int) -> Iterator[Hostile]:
    deep = 100_000
    yield Hostile("deep HTML", lambda: b"<html>" + b"<div>" * deep + b"bottom")
    yield Hostile("deep lists", lambda: b"<html>" + b"<ul><li>x" * 5_000 * scale)
    yield Hostile("deep tables", lambda: b"<html>" + b"<table><tr><td>x" * 5_000 * scale)
    yield Hostile(
        "deep looks", lambda: b"<html>" + b"<b><i>x" * 10_000 * scale + b"</b></i>" * 10_000 * scale
    )
    yield Hostile("deep quotations", lambda: b"<html>" + b"<blockquote>x" * 5_000 * scale)
    yield Hostile("deep JSON", lambda: b"[" * deep + b"]" * deep, "x.json")
    yield Hostile("deep XML", lambda: b"<?xml version='1.0'?>" + b"<a>" * deep, "x.xml")
    boxes = "<w:sdt><w:sdtContent>" * 5_000 + p("x") + "</w:sdtContent></w:sdt>" * 5_000
    yield Hostile("deep Word boxes", lambda: docx(boxes))
    tables = "<w:tbl><w:tr><w:tc>" * 3_000 + p("x") + "</w:tc></w:tr></w:tbl>" * 3_000
    yield Hostile("deep Word tables", lambda: docx(tables))
    yield Hostile(
        "deep groups on a slide", lambda: pptx(["<p:grpSp>" * 5_000 + shape("x") + "</p:grpSp>" * 5_000])
    )
    yield Hostile("style based on itself", lambda: docx(p("x", "Loop")))
    yield Hostile("wide Word table", lambda: docx(word_table([["x"] * 5_000] * 4)))
    spans = '<w:tc><w:tcPr><w:gridSpan w:val="999999999"/></w:tcPr><w:p/></w:tc>'
    yield Hostile(
        "Word cells that span everything", lambda: docx(f"<w:tbl><w:tr>{spans * 100}</w:tr></w:tbl>" * 50)
    )
    yield Hostile("long numbered list", lambda: docx(item("x", 2, 8) * 4_000 * scale))


# ---- pictures ----------------------------------------------------------------------------------------------


def _png_bomb(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"\0" * min(MB, (width // 8 + 1) * height), 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _tiff_bomb() -> bytes:
    tags = [
        (256, 4, 60_000),
        (257, 4, 60_000),
        (258, 3, 8),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 8),
        (278, 4, 60_000),
        (279, 4, 99),
    ]
    directory = struct.pack("<H", len(tags)) + b"".join(
        struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags
    )
    return b"II*\0" + struct.pack("<I", 8) + directory + b"\0\0\0\0"


def _tiff_loop() -> bytes:
    tags = [(256, 4, 10), (257, 4, 10), (258, 3, 8), (262, 3, 1), (273, 4, 8), (279, 4, 100)]
    directory = struct.pack("<H", len(tags)) + b"".join(
        struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags
    )
    return b"II*\0" + struct.pack("<I", 8) + directory + struct.pack("<I", 8) + bytes(200)


def _many_frames(count: int) -> bytes:
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + b"\0" * 6 + frame * count + b"\x3b"


def _pictures() -> Iterator[Hostile]:
    yield Hostile("PNG of huge size", lambda: _png_bomb(60_000, 60_000), "x.png", refused=True)
    yield Hostile("PNG of huge height", lambda: _png_bomb(1, 2_000_000_000), "x.png", refused=True)
    yield Hostile(
        "GIF of huge size",
        lambda: (
            b"GIF89a"
            + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0)
            + b"\x2c"
            + struct.pack("<HHHHB", 0, 0, 65_535, 65_535, 0)
            + b"\x02\x02\x44\x01\x00\x3b"
        ),
        "x.gif",
        refused=True,
    )
    yield Hostile("GIF of many frames", lambda: _many_frames(30_000), "x.gif")
    yield Hostile("TIFF of huge size", _tiff_bomb, "x.tif", refused=True)
    yield Hostile("TIFF whose frames are a circle", _tiff_loop, "x.tif")
    yield Hostile(
        "WebP of huge size",
        lambda: b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff" + b"VP8 \0\0\0\0",
        "x.webp",
        refused=True,
    )
    yield Hostile(
        "BMP of huge size",
        lambda: (
            b"BM"
            + struct.pack("<IHHI", 54, 0, 0, 54)
            + struct.pack("<IiiHHIIiiII", 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)
        ),
        "x.bmp",
        refused=True,
    )
    yield Hostile(
        "picture bomb in a document",
        lambda: docx(p("text"), media={"media/a.png": _png_bomb(60_000, 60_000)}),
    )
    yield Hostile(
        "HEIC of noise",
        lambda: b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + random.Random(2).randbytes(5_000),
        "x.heic",
        refused=True,
    )
    yield Hostile(
        "JPEG cut short", lambda: b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(40), "x.jpg", refused=True
    )


# ---- PDF ---------------------------------------------------------------------------------------------------


def _pdf(objects: list[bytes]) -> bytes:
    out = b"%PDF-1.7\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return (
        out
        + b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF"
        % (
            size,
            table,
            size,
            len(out),
        )
    )


def _pdf_of_objects(streams: int, each: int = 1_000) -> bytes:
    """Objects by the thousand in object streams, all of which a cross-reference stream lists."""
    out = b"%PDF-1.7\n"
    fixed = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>",
    ]
    rows = [struct.pack(">BIH", 0, 0, 0)]
    for number, body in enumerate(fixed, 1):
        rows.append(struct.pack(">BIH", 1, len(out), 0))
        out += b"%d 0 obj%bendobj\n" % (number, body)
    first = len(fixed) + 1
    holders = []
    for n in range(streams):
        holder, start = first + n, first + streams + n * each
        index = " ".join(f"{start + i} {i * 5}" for i in range(each)).encode()
        data = zlib.compress(index + b" " + b"null " * each)
        rows.append(struct.pack(">BIH", 1, len(out), 0))
        out += (
            b"%d 0 obj<</Type/ObjStm/N %d/First %d/Filter/FlateDecode/Length %d>>stream\n%b\nendstream endobj\n"
            % (
                holder,
                each,
                len(index) + 1,
                len(data),
                data,
            )
        )
        holders.append(holder)
    for holder in holders:
        rows += [struct.pack(">BIH", 2, holder, i) for i in range(each)]
    size = len(rows) + 1
    rows.append(struct.pack(">BIH", 1, len(out), 0))
    table = zlib.compress(b"".join(rows))
    at = len(out)
    return (
        out + b"%d 0 obj<</Type/XRef/W[1 4 2]/Size %d/Root 1 0 R/Filter/FlateDecode/Length %d>>stream\n%b\n"
        b"endstream endobj\nstartxref\n%d\n%%%%EOF"
        % (
            size - 1,
            size,
            len(table),
            table,
            at,
        )
    )


def _deep_page_tree(depth: int) -> bytes:
    objects = [b"<</Type/Catalog/Pages 2 0 R>>"]
    objects += [b"<</Type/Pages/Kids[%d 0 R]/Count 1>>" % (n + 3) for n in range(depth)]
    objects.append(b"<</Type/Page/MediaBox[0 0 99 99]>>")
    return _pdf(objects)


def _pdfs(scale: int) -> Iterator[Hostile]:
    yield Hostile("PDF of very many objects", lambda: _pdf_of_objects(100 * scale), "x.pdf")
    yield Hostile("PDF with a deep page tree", lambda: _deep_page_tree(5_000), "x.pdf")
    yield Hostile(
        "PDF whose page tree is a circle",
        lambda: _pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 9>>"]),
        "x.pdf",
    )
    circle = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</XObject<</F 5 0 R>>>>>>",
        b"<</Length 4>>stream\n/F Do\nendstream",
        b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 11/Resources<</XObject<</F 5 0 R>>>>>>stream\n"
        b"/F Do /F Do\nendstream",
    ]
    yield Hostile("PDF whose forms are a circle", lambda: _pdf(circle), "x.pdf")
    yield Hostile(
        "PDF that claims a billion pages",
        lambda: _pdf(
            [
                b"<</Type/Catalog/Pages 2 0 R>>",
                b"<</Type/Pages/Kids[3 0 R]/Count 1000000000>>",
                b"<</Type/Page/MediaBox[0 0 9 9]>>",
            ]
        ),
        "x.pdf",
    )
    data = deflated(b"0 0 m 9 9 l S\n" * 70_000, 300)
    packed = zlib.compress(b"")[:2] + data
    page = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(packed), packed),
    ]
    yield Hostile("PDF whose page unpacks to gigabytes", lambda: _pdf(page), "x.pdf")


# ---- mails, tables, pages ----------------------------------------------------------------------------------


def _many_parts(count: int) -> bytes:
    part = (
        b"--b\r\nContent-Type: text/csv\r\nContent-Disposition: attachment; filename=a.csv\r\n\r\n"
        b"a,b,c\r\n1,2,3\r\n4,5,6\r\n"
    )
    head = b"From: a@b.c\r\nTo: d@e.f\r\nSubject: many\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    return head + part * count + b"--b--\r\n"


def _deep_parts(depth: int) -> bytes:
    out = b"From: a@b.c\r\nTo: d@e.f\r\nSubject: deep\r\n"
    for n in range(depth):
        out += b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n)
    return out + b"Content-Type: text/plain\r\n\r\nbottom\r\n"


def _mails_in_mails(depth: int, each: int) -> bytes:
    message = mail("innermost")
    for n in range(depth):
        outer = mail(f"level {n}")
        for _ in range(each if n == 0 else 2):
            outer.add_attachment(message)
        message = outer
    return message.as_bytes()


def _mails(scale: int) -> Iterator[Hostile]:
    yield Hostile("mail of very many parts", lambda: _many_parts(10_000), "x.eml")
    yield Hostile("mail of deep parts", lambda: _deep_parts(3_000), "x.eml")
    yield Hostile("mails in mails in mails", lambda: _mails_in_mails(5, 4), "x.eml")
    files = {
        name or "empty": f"file number {n} of a mail".encode()
        for n, name in enumerate(NAMES)
        if "\n" not in name
    }
    yield Hostile("mail with hostile names", lambda: mail("x", files=files).as_bytes(), "x.eml")
    headers = (
        b"From: "
        + b"x@y.z, " * 50_000
        + b"\r\nTo: a\r\nSubject: "
        + b"=?utf-8?q?=C3=A9?= " * 50_000
        + b"\r\n\r\nbody"
    )
    yield Hostile("mail with huge headers", lambda: headers, "x.eml")
    bombs = {
        "a.docx": _word_bomb(600),
        "b.png": _png_bomb(60_000, 60_000),
        "c.zip": zipped({"x": b"y"}),
    }
    yield Hostile("mail with bombs", lambda: mail("look", files=bombs).as_bytes(), "x.eml")
    noise = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + random.Random(3).randbytes(80_000)
    yield Hostile("Outlook message of noise", lambda: noise, "x.msg", refused=True)


def _tables(scale: int) -> Iterator[Hostile]:
    line = 10 * MB * scale
    yield Hostile("CSV of one line", lambda: b"a,b,c\n1,2,3\n4,5,6\n" + b"x" * line, "x.csv")
    yield Hostile("CSV of very many columns", lambda: b"a," * 1_000_000 + b"\n" + b"1," * 1_000_000, "x.csv")
    yield Hostile(
        "CSV of one wide row and many short ones",
        lambda: b"a," * 1_000 + b"\n" + b"x,y\n" * 50_000 * scale,
        "x.csv",
    )
    yield Hostile(
        "CSV with an open quotation mark", lambda: b'a,b,c\n1,2,3\n4,5,"' + b"x,y\n" * 50_000 * scale, "x.csv"
    )
    corner = (
        '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
        '<row r="99999999999"><c r="ZZZZZZ1"><v>2</v></c></row>'
    )
    yield Hostile("sheet with a cell in its last corner", lambda: xlsx({"S": corner}))
    many = '<c t="s"><v>0</v></c>' * 10_000
    yield Hostile(
        "shared string used very often",
        lambda: xlsx({"S": f"<row>{many}</row>" * 30}, strings=["x" * 3 * MB]),
    )
    yield Hostile("very many shared strings", lambda: xlsx({"S": cells("x")}, strings=["y"] * 50_000 * scale))
    yield Hostile("very many sheets", lambda: xlsx({f"S{n}": cells("x") for n in range(500 * scale)}))


def _pages(scale: int) -> Iterator[Hostile]:
    yield Hostile("HTML of open comments", lambda: b"<html>" + b"<!--" * 100_000)
    yield Hostile("HTML of open tags", lambda: b"<html>" + b"<a href='" * 50_000)
    yield Hostile("HTML of broken ends", lambda: b"<html>" + b"</a </b" * 50_000)
    yield Hostile("HTML of declarations", lambda: b"<html>" + b"<![" * 50_000 + b"<!x" * 50_000)
    yield Hostile(
        "HTML with a huge picture in it",
        lambda: b"<html><p>x<img src='data:image/png;base64," + b"A" * (5 * MB) + b"'>",
    )
    yield Hostile("text of one line", lambda: b"y" * (10 * MB * scale), "x.txt")
    yield Hostile("text of controls", lambda: (b"words " * 100 + b"\x1b[31m\x08") * 1_000, "x.txt")
    yield Hostile(
        "old Word document",
        lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "WordDocument".encode("utf-16-le"),
        refused=True,
    )
    yield Hostile("picture that is fine", png, "fine.png")
