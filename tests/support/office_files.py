"""Office files, books and mails as the tests want them, written part by part with the standard library."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from xml.sax.saxutils import escape, quoteattr

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_R = f'xmlns:r="{OFFICE}"'
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_WP = 'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
NAMESPACES = f"{W} {_R} {_A} {_WP}"


def zipped(parts: Mapping[str, bytes | str], *, stored: bool = False) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def relations(*rows: tuple[str, str, str]) -> str:
    """(id, kind, target); a target with a scheme is external."""
    inner = "".join(
        f'<Relationship Id="{key}" Type="{OFFICE}/{kind}" Target={quoteattr(target)}'
        + (' TargetMode="External"/>' if "://" in target else "/>")
        for key, kind, target in rows
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inner}</Relationships>'


# ---- Word --------------------------------------------------------------------------------------------------


def p(text: str = "", style: str = "", properties: str = "", runs: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    body = runs or (f'<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r>' if text else "")
    return f"<w:p><w:pPr>{named}{properties}</w:pPr>{body}</w:p>"


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{escape(text)}</w:t></w:r>'


def item(text: str, number: int, depth: int = 0) -> str:
    numbered = f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>'
    return p(text, properties=numbered)


def word_table(rows: Sequence[Sequence[str]]) -> str:
    cells = "".join("<w:tr>" + "".join(f"<w:tc>{p(cell)}</w:tc>" for cell in row) + "</w:tr>" for row in rows)
    return f"<w:tbl>{cells}</w:tbl>"


_STYLES = (
    f"<w:styles {W}>"
    + "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/>'
        f'<w:pPr><w:outlineLvl w:val="{n - 1}"/></w:pPr></w:style>'
        for n in (1, 2, 3)
    )
    + '<w:style w:type="paragraph" w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style></w:styles>'
)


def _levels(*levels: tuple[str, str]) -> str:
    return "".join(
        f'<w:lvl w:ilvl="{n}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for n, (form, text) in enumerate(levels)
    )


_NUMBERING = (
    f'<w:numbering {W}><w:abstractNum w:abstractNumId="0">'
    + _levels(("bullet", "•"), ("bullet", "o"))
    + '</w:abstractNum><w:abstractNum w:abstractNumId="1">'
    + _levels(("decimal", "%1."), ("lowerLetter", "%2)"), ("decimal", "%1.%3"))
    + '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num></w:numbering>'
)


def docx(
    body: str,
    *,
    footnotes: str = "",
    comments: str = "",
    media: Mapping[str, bytes] | None = None,
    links: Sequence[str] = (),
) -> bytes:
    """`media` are parts by their name below `word/`, with relations `m1`, `m2` …; `links` have `l1`, `l2` …"""
    rows = [
        ("s", "styles", "styles.xml"),
        ("n", "numbering", "numbering.xml"),
        ("f", "footnotes", "footnotes.xml"),
        ("c", "comments", "comments.xml"),
    ]
    rows += [(f"m{n}", "image", name) for n, name in enumerate(media or {}, 1)]
    rows += [(f"l{n}", "hyperlink", target) for n, target in enumerate(links, 1)]
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relations(*rows),
            "word/styles.xml": _STYLES,
            "word/numbering.xml": _NUMBERING,
            "word/footnotes.xml": f"<w:footnotes {W}>{footnotes}</w:footnotes>",
            "word/comments.xml": f"<w:comments {W}>{comments}</w:comments>",
            **{f"word/{name}": data for name, data in (media or {}).items()},
            "word/document.xml": f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>",
        }
    )


def drawing(relation: str, alt: str = "") -> str:
    return (
        f"<w:r><w:drawing><wp:inline><wp:docPr id='1' name='x' descr={quoteattr(alt)}/>"
        f'<a:graphic><a:blip r:embed="{relation}"/></a:graphic></wp:inline></w:drawing></w:r>'
    )


# ---- Excel -------------------------------------------------------------------------------------------------


def xlsx(
    sheets: Mapping[str, str],
    *,
    strings: Sequence[str] = (),
    states: Mapping[str, str] | None = None,
    formats: Sequence[str] = (),
    columns: str = "",
) -> bytes:
    """`sheets` gives the rows of each sheet as XML, `columns` the columns of all.

    Style n of a cell has the n-th of the formats of numbers.
    """
    listed = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{n}" state="{(states or {}).get(name, "visible")}" r:id="s{n}"/>'
        for n, name in enumerate(sheets, 1)
    )
    shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    rows = [(f"s{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)]
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(("r1", "officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f"<workbook {_S} {_R}><sheets>{listed}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": relations(
                *rows, ("st", "sharedStrings", "sharedStrings.xml"), ("y", "styles", "styles.xml")
            ),
            "xl/styles.xml": _number_styles(formats),
            "xl/sharedStrings.xml": f"<sst {_S}>{shared}</sst>",
            **{
                f"xl/worksheets/sheet{n}.xml": f"<worksheet {_S}>{columns}<sheetData>{data}</sheetData></worksheet>"
                for n, data in enumerate(sheets.values(), 1)
            },
        }
    )


def _number_styles(formats: Sequence[str]) -> str:
    codes = "".join(
        f'<numFmt numFmtId="{163 + n}" formatCode={quoteattr(code)}/>' for n, code in enumerate(formats, 1)
    )
    looks = "".join(f'<xf numFmtId="{163 + n}"/>' for n in range(1, len(formats) + 1))
    return f'<styleSheet {_S}><numFmts>{codes}</numFmts><cellXfs><xf numFmtId="0"/>{looks}</cellXfs></styleSheet>'


def cells(*values: str | float) -> str:
    """A row; numbers are numbers, texts stand in their cells."""
    inner = "".join(
        f"<c><v>{value}</v></c>"
        if isinstance(value, int | float)
        else f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        for value in values
    )
    return f"<row>{inner}</row>"


# ---- PowerPoint --------------------------------------------------------------------------------------------


def shape(text: str, kind: str = "", box: tuple[int, int, int, int] | None = None, name: str = "") -> str:
    """`box` is left, top, width and height; `name` the number of a placeholder."""
    frame = ""
    if box is not None:
        left, top, wide, high = box
        frame = f'<a:xfrm><a:off x="{left}" y="{top}"/><a:ext cx="{wide}" cy="{high}"/></a:xfrm>'
    number = f' idx="{name}"' if name else ""
    place = f'<p:nvPr><p:ph type="{kind}"{number}/></p:nvPr>' if kind else "<p:nvPr/>"
    paragraphs = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in text.split("\n"))
    about = f"<p:nvSpPr>{place}</p:nvSpPr><p:spPr>{frame}</p:spPr>"
    return f"<p:sp>{about}<p:txBody>{paragraphs}</p:txBody></p:sp>"


def pptx(slides: Sequence[str], *, hidden: Sequence[int] = (), order: Sequence[int] | None = None) -> bytes:
    """`slides` gives the shapes of each; `order` the order of the show."""
    numbers = order or range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="s{n}"/>' for n in numbers)
    rows = [(f"s{n}", "slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)]
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(("r1", "officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f"<p:presentation {_P} {_R}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(*rows),
            **{
                f"ppt/slides/slide{n}.xml": f'<p:sld {_P} {_A} {_R} show="{int(n not in hidden)}">'
                f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
                for n, shapes in enumerate(slides, 1)
            },
        }
    )


# ---- OpenDocument ------------------------------------------------------------------------------------------

_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_ODF_NAMES = " ".join(
    f'xmlns:{short}="{_ODF}:{name}:1.0"'
    for short, name in (("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"),
                        ("style", "style"), ("presentation", "presentation"), ("fo", "xsl-fo-compatible"))
)  # fmt: skip
_OTHER_NAMES = 'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
_ODF_STYLES = (
    "<style:style style:name='B' style:family='text'>"
    "<style:text-properties fo:font-weight='bold'/></style:style><text:list-style style:name='N'>"
    "<text:list-level-style-number text:level='1'/></text:list-style>"
)


def odf(kind: str, body: str, styles: str = "", parts: Mapping[str, str] | None = None) -> bytes:
    """`kind` is "text", "spreadsheet" or "presentation"; style B is bold, list style N is numbered."""
    content = (
        f"<office:document-content {_ODF_NAMES} {_OTHER_NAMES}>"
        f"<office:automatic-styles>{_ODF_STYLES}{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    mime = f"application/vnd.oasis.opendocument.{kind}"
    return zipped({"mimetype": mime, "content.xml": content, **(parts or {})}, stored=True)


# ---- EPUB and mail -----------------------------------------------------------------------------------------


def epub(
    chapters: Sequence[str], *, more: Mapping[str, bytes | str] | None = None, opf: str | None = None
) -> bytes:
    items = "".join(
        f'<item id="c{n}" href="text/c{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in range(1, len(chapters) + 1)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(1, len(chapters) + 1))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<metadata><dc:title>A book</dc:title><dc:creator>An author</dc:creator></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("OEBPS/book.opf", package if opf is None else opf)
        for n, chapter in enumerate(chapters, 1):
            archive.writestr(f"OEBPS/text/c{n}.xhtml", chapter)
        for name, content in (more or {}).items():
            archive.writestr(name, content)
    return out.getvalue()


def mail(
    text: str = "Hello", *, html: str = "", files: Mapping[str, bytes] | None = None, **headers: str
) -> EmailMessage:
    message = EmailMessage()
    given = {"From": "ann@example.org", "To": "bob@example.org", "Subject": "Greetings", **headers}
    for name, value in given.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    for name, data in (files or {}).items():
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message


def png(width: int = 120, height: int = 80, color: str = "red") -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (width, height), color).save(out, "PNG")
    return out.getvalue()
