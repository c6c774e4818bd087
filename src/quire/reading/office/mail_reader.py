"""Mails (EML, MSG): a small table of headers, the text, and the attached files.

Attached files become documents of their own elsewhere; here they are listed, with a link by name to what becomes of
them. Pictures that the text shows are pictures of the page.

The bytes of a file that hangs on a mail. Runs in the child pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from pathlib import Path
from urllib.parse import quote, unquote

from quire.domain.element import FileFacts
from quire.errors import DamagedError, PageError, TooLargeError
from quire.reading.files.attachment_notes import safe_name, shown_kind, size_text
from quire.reading.files.document_source import open_documents
from quire.reading.files.file_kinds import EML, SNIFF_BYTES, sniff
from quire.reading.office.charsets import decode
from quire.reading.office.html_reader import convert
from quire.reading.office.inline_markdown import block, plain
from quire.reading.office.office_pages import (
    PAGE_CHARS,
    MarkdownBlock,
    OfficePage,
    Pager,
    cell,
    table_lines,
)
from quire.reading.office.office_source import AttachedFile, OfficeSource, Opened
from quire.reading.office.picture_sheet import HeldPictures
from quire.reading.office.zip_container import OfficeLimits


def attached_bytes(path: str, limits: OfficeLimits, place: int, start: int, most: int) -> bytes:
    """Up to `most` bytes of the attachment at that place, from `start` on. Raises PageError if there is none."""
    source = open_documents().get(path, None, limits)
    if not isinstance(source, OfficeSource) or not 0 <= place < len(source.attachments):
        raise PageError("The mail has no such attachment.")
    return source.attachments[place].data[start : start + most]


READER_EML = "eml"
READER_MSG = "msg"
FOLDER = "attachments"
"""Links in a mail's Markdown lead to `attachments/NAME.md`."""

_MOST_BYTES = 200 << 20
_MOST_PARTS = 10_000
_MOST_LISTED = 1_000
_LINK_END, _ESCAPED = re.compile(r"(?<!\\)[\[\]]"), r"\\\g<0>"
"""A name can't end the link that is made of it, and lead elsewhere."""
_LONGEST_HEADER = 2_000
_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_MOST_TEXTS = 100
_RICH = frozenset({"text/html", "multipart/related", "multipart/mixed"})
_UNNAMED = {"message/rfc822": "message.eml", "text/html": "page.html", "text/plain": "text.txt"}


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    data: bytes = field(repr=False)
    content_id: str = ""
    is_mail: bool = False


@dataclass(slots=True)
class _Letter:
    headers: dict[str, str] = field(default_factory=dict)
    texts: list[tuple[bool, str]] = field(default_factory=list)
    """What is to be read, in order; True for HTML."""
    parts: list[_Part] = field(default_factory=list)
    left_out: int = 0


def open_eml(path: str, limits: OfficeLimits) -> Opened:
    """Raises DamagedError or TooLargeError."""
    return _opened(READER_EML, _from_eml(_bytes(path)), limits)


def open_msg(path: str, limits: OfficeLimits) -> Opened:
    """Raises DamagedError or TooLargeError."""
    return _opened(READER_MSG, _from_msg(_bytes(path)), limits)


def _bytes(path: str) -> bytes:
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise TooLargeError(
                f"The mail is larger than {_MOST_BYTES >> 20} MB. Send its attachments alone."
            )
        return Path(path).read_bytes()
    except OSError as error:
        raise DamagedError("The document's file can't be read.") from error


# ---- the page ----------------------------------------------------------------------------------------------


def _opened(reader: str, letter: _Letter, limits: OfficeLimits) -> Opened:
    inline = {part.content_id: part.data for part in letter.parts if part.content_id}
    shown: set[str] = set()

    def resolve(source: str) -> str:
        key = unquote(source[4:]) if source[:4].lower() == "cid:" else ""
        if key in inline:
            shown.add(key)
            return f"cid:{key}"
        return ""

    held = HeldPictures()
    body = _joined(
        convert(text, resolve=resolve, held=held).pages if is_html else _paragraphs(text)
        for is_html, text in letter.texts
    )
    files = attached_files((p for p in letter.parts if p.content_id not in shown), limits.max_attachments)
    pages = _pages(letter, body, files)

    def fetch(ref: str) -> bytes:
        return inline.get(ref[4:], b"") if ref.startswith("cid:") else held.get(ref)

    subject = letter.headers.get("Subject") or None
    author = letter.headers.get("From") or None
    return Opened(reader, pages, subject, author, fetch=fetch, attachments=files, files=_facts(files))


def _joined(parts: Iterable[list[OfficePage]]) -> list[OfficePage]:
    """The pages of all parts; short ones (a mailing list's last words) go on the page before."""
    pages: list[OfficePage] = []
    for page in (page for part in parts for page in part):
        if pages and len(pages[-1].markdown) + len(page.markdown) < PAGE_CHARS:
            before = pages[-1]
            pages[-1] = OfficePage(
                f"{before.markdown}\n\n{page.markdown}",
                before.pictures + page.pictures,
                before.spans + page.spans,
            )
        else:
            pages.append(page)
    return pages


def _paragraphs(text: str) -> list[OfficePage]:
    """Lines as they are; quoted ones stay quoted."""
    pager = Pager()
    for part in re.split(r"\n\s*\n", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = [_line(line) for line in part.split("\n") if line.strip()]
        pager.add(MarkdownBlock("\n".join(lines)))
    return pager.finish()


def _line(line: str) -> str:
    quoted = re.match(r"(?:>\s?)+", line)
    mark = "> " * min(quoted[0].count(">"), 5) if quoted else ""
    return mark + block(plain(line[quoted.end() :] if quoted else line.rstrip()))


def _pages(letter: _Letter, body: list[OfficePage], files: tuple[AttachedFile, ...]) -> list[OfficePage]:
    rows = [["Header", "Value"]]
    rows += [[name, cell(letter.headers[name])] for name in _SHOWN if letter.headers.get(name)]
    pager = Pager()
    pager.add(MarkdownBlock(f"# {cell(letter.headers.get('Subject', '')) or 'Mail'}", 1))
    pager.add(MarkdownBlock("\n".join(table_lines(rows))))
    if files:
        pager.add(MarkdownBlock("## Attachments", 2))
        for one in files[:_MOST_LISTED]:
            pager.add(MarkdownBlock(f"- {_entry(one)}", tight=True))
    left_out = letter.left_out + max(0, len(files) - _MOST_LISTED)
    if left_out:
        pager.add(MarkdownBlock(f"*{left_out:,} further parts are not listed.*"))
    first = pager.finish()
    if body:
        # The mail begins on the page of its headers.
        joined = OfficePage(
            f"{first[-1].markdown}\n\n{body[0].markdown}",
            body[0].pictures,
            first[-1].spans + body[0].spans,
        )
        return [*first[:-1], joined, *body[1:]]
    return first


def _entry(one: AttachedFile) -> str:
    size = size_text(len(one.data))
    if one.converted:
        name = _LINK_END.sub(_ESCAPED, plain(one.name))
        return f"[{name}]({FOLDER}/{quote(one.name)}.md) ({shown_kind(one.kind)}, {size})"
    return f"{plain(one.name)} ({one.kind.mime}, {size}, not converted)"


def _facts(files: Iterable[AttachedFile]) -> dict[str, FileFacts]:
    return {_entry(one): FileFacts(one.name, len(one.data), one.kind.mime) for one in files}


# ---- the files ---------------------------------------------------------------------------------------------


def attached_files(parts: Iterable[_Part], most: int) -> tuple[AttachedFile, ...]:
    """The files with names of their own, and which of them are to become documents: the first ones that can."""
    taken: dict[str, int] = {}
    found: list[AttachedFile] = []
    left = most
    for part in parts:
        kind = EML if part.is_mail else sniff(part.data[:SNIFF_BYTES])
        converted = kind.supported and bool(part.data) and left > 0
        left -= converted
        name = _distinct(safe_name(part.name), taken)
        found.append(AttachedFile(name, kind, part.data, converted))
    return tuple(found)


def _distinct(name: str, taken: dict[str, int]) -> str:
    """The name, with a number before its ending if others have it. `taken` counts how often each was wanted."""
    stem, dot, ending = name.rpartition(".")
    stem, tail = (stem, f"{dot}{ending}") if stem else (name, "")
    chosen = name
    while (key := chosen.casefold()) in taken:
        taken[key] += 1
        chosen = f"{stem}-{taken[key]}{tail}"
        stem = stem if chosen.casefold() not in taken else f"{stem}-{taken[key]}"
    taken[key] = 1
    return chosen


# ---- Internet mail -----------------------------------------------------------------------------------------


def _from_eml(data: bytes) -> _Letter:
    try:
        message = message_from_bytes(data)
    except (MessageError, RecursionError, ValueError, LookupError, IndexError, TypeError) as error:
        raise DamagedError("The mail's parts are nested too deep or broken beyond reading.") from error
    letter = _Letter()
    for name in _SHOWN:
        value = _header(message, name)
        if value:
            letter.headers[name] = value
    _walk(message, letter)
    return letter


def _walk(message: Message, letter: _Letter) -> None:
    """Every part once, without recursion. An attached mail is one file: its own parts are its own business."""
    waiting: list[Message] = [message]
    seen = 0
    while waiting:
        part = waiting.pop()
        seen += 1
        if seen > _MOST_PARTS:
            letter.left_out = len(waiting) + 1
            return
        kind = part.get_content_type()
        inner = part.get_payload()
        if kind == "message/rfc822" and part is not message:
            letter.parts.append(_Part(_filename(part) or _UNNAMED[kind], _inner_mail(part), is_mail=True))
        elif isinstance(inner, list):
            children = [one for one in inner if isinstance(one, Message)]
            if kind == "multipart/alternative" and any(one.get_content_type() in _RICH for one in children):
                children = [one for one in children if one.get_content_type() != "text/plain"]
            waiting += reversed(children)
        else:
            _take(part, kind, letter)


def _inner_mail(part: Message) -> bytes:
    inner = part.get_payload()
    if not isinstance(inner, list) or not inner or not isinstance(inner[0], Message):
        return _content(part)
    try:
        return inner[0].as_bytes()
    except (ValueError, LookupError, TypeError, RecursionError, MessageError):
        return b""


def _take(part: Message, kind: str, letter: _Letter) -> None:
    name = _filename(part)
    attached = part.get_content_disposition() == "attachment" or bool(name)
    if not attached and kind in ("text/html", "text/plain") and len(letter.texts) < _MOST_TEXTS:
        letter.texts.append((kind == "text/html", decode(_content(part), _charset(part))))
    else:
        content_id = str(part.get("Content-ID") or "").strip(" <>")[:_LONGEST_HEADER]
        letter.parts.append(_Part(name or _UNNAMED.get(kind) or _by_type(kind), _content(part), content_id))


def _content(part: Message) -> bytes:
    try:
        found = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError, TypeError):
        return b""
    return found if isinstance(found, bytes) else b""


def _charset(part: Message) -> str:
    return _guarded(lambda: part.get_content_charset() or "")


def _filename(part: Message) -> str:
    return _decoded(_guarded(lambda: part.get_filename() or ""))[:5_000]


def _header(message: Message, name: str) -> str:
    return _decoded(_guarded(lambda: str(message.get(name) or "")))[:_LONGEST_HEADER]


def _decoded(raw: str) -> str:
    """A header's encoded words as text."""
    raw = " ".join(raw.split())[: _LONGEST_HEADER * 4]
    shown = _guarded(lambda: str(make_header(decode_header(raw)))) if "=?" in raw else raw
    text = shown or raw
    return "".join(c for c in text if c.isprintable() or c == " ").encode("utf-8", "replace").decode()


def _guarded(read: Callable[[], str]) -> str:
    """Headers break the library in many ways; a header that can't be read is as good as none."""
    try:
        return read()
    except MemoryError:
        raise
    except Exception:
        return ""


def _by_type(kind: str) -> str:
    ending = re.sub(r"[^a-z0-9]", "", kind.partition("/")[2])[:8]
    return f"part.{ending}" if ending else "part"


# ---- Outlook -----------------------------------------------------------------------------------------------


def _from_msg(data: bytes) -> _Letter:
    """The library reads what is there; whatever else it says about a broken file is that it is broken."""
    from oxmsg import Message as OutlookMessage

    try:
        message = OutlookMessage.load(data)
        headers = {name.title(): value for name, value in message.message_headers.items()}
        html = message.html_body
        letter = _Letter(texts=[(bool(html), html or message.body or "")])
        letter.headers = {name: _decoded(headers[name]) for name in _SHOWN if headers.get(name)}
        letter.headers.setdefault("From", _decoded(message.sender or ""))
        letter.headers.setdefault("To", _decoded(", ".join(_people(message))))
        letter.headers.setdefault("Subject", _decoded(message.subject))
        if message.sent_date:
            letter.headers.setdefault("Date", message.sent_date.isoformat(" ", "minutes"))
        for one in message.attachments[:_MOST_PARTS]:
            content_id = str(one.properties.str_prop_value(_CONTENT_ID) or "").strip(" <>")
            name = one.file_name or one.properties.str_prop_value(_SHORT_NAME) or "attachment"
            letter.parts.append(_Part(name, one.file_bytes or b"", content_id))
    except MemoryError:
        raise
    except Exception as error:
        raise DamagedError(
            "The Outlook message is damaged and can't be read. Save it anew and send that copy."
        ) from error
    return letter


_CONTENT_ID = 0x3712
_SHORT_NAME = 0x3704


def _people(message: object) -> list[str]:
    found = []
    for one in getattr(message, "recipients", ())[:100]:
        name, address = getattr(one, "name", "") or "", getattr(one, "email_address", "") or ""
        found.append(f"{name} <{address}>" if name and name != address and address else name or address)
    return found
