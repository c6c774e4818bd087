"""Share links of Google Drive, Google Docs and Dropbox, rewritten to direct downloads. No network.

The caller checks the result, and every redirect after it, like any other link.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from quire.errors import LinkRefusedError

_DRIVE = "Google Drive"
_DROPBOX = "Dropbox"
_DRIVE_HOSTS = frozenset({"drive.google.com", "docs.google.com", "drive.usercontent.google.com"})
_DROPBOX_HOSTS = frozenset({"dropbox.com", "www.dropbox.com", "m.dropbox.com"})
_ID = r"(?P<id>[A-Za-z0-9_-]{10,200})"
_PLACE = r"(?:/a/[^/]+)?"  # of an organisation
_USER = r"(?:/u/\d+)?"  # which of the browser's accounts
_FILE = re.compile(rf"{_PLACE}{_USER}/file{_USER}/d/{_ID}(?:/.*)?")
_FOLDER = re.compile(rf"{_PLACE}(?:/drive)?{_USER}/(?:folders|folderview|mobile/folders)(?:/.*)?")
_OPENED = re.compile(rf"{_PLACE}{_USER}/(?:open|uc|download)")
_DOCUMENT = re.compile(
    rf"{_PLACE}/(?P<kind>document|spreadsheets|presentation|drawings){_USER}/d/{_ID}(?:/(?P<rest>.*))?"
)
_WHOLE_ID = re.compile(_ID)
_EXPORTS = {"document": "docx", "spreadsheets": "xlsx", "presentation": "pptx", "drawings": "pdf"}
_DIRECT = ("export", "pub", "gviz", "embed")
LARGEST_PAGE_BYTES = 1 << 20
"""The most that is read of a confirmation page."""


@dataclass(frozen=True, slots=True)
class Share:
    """The direct download of a share link, and its service."""

    url: str
    service: str


def direct(url: str) -> Share | None:
    """Returns the direct download of a share link; None for every other link, which is used unchanged.

    Raises LinkRefusedError for a shared folder, because it is not a document.
    """
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        return None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if host in _DRIVE_HOSTS:
        return _google(host, parts.path.rstrip("/"), query)
    if host in _DROPBOX_HOSTS:
        return _dropbox(parts.path, query)
    return None


def is_drive(host: str) -> bool:
    """Returns whether this host may show a confirmation page before a large file."""
    return host.lower().rstrip(".") in _DRIVE_HOSTS


def confirmed(url: str, page: str) -> str | None:
    """Returns the target of Drive's page "can't be scanned for viruses, download anyway"; None for another page."""
    form = _ConfirmForm()
    form.feed(page[:LARGEST_PAGE_BYTES])
    if not form.action:
        return None
    target = urljoin(url, form.action)
    if form.fields:
        joiner = "&" if urlsplit(target).query else "?"
        target = f"{target}{joiner}{urlencode(form.fields)}"
    host = (urlsplit(target).hostname or "").lower()
    ours = host.endswith((".google.com", ".googleusercontent.com"))
    return target if ours else None


def _google(host: str, path: str, query: dict[str, str]) -> Share | None:
    if _FOLDER.fullmatch(path):
        raise LinkRefusedError("The link leads to a folder on Google Drive. Share the document itself.")
    if found := _FILE.fullmatch(path):
        return _drive_file(found["id"], query)
    if _OPENED.fullmatch(path) and _WHOLE_ID.fullmatch(query.get("id", "")):
        return _drive_file(query["id"], query)
    if host == "docs.google.com" and (found := _DOCUMENT.fullmatch(path)):
        if (found["rest"] or "").startswith(_DIRECT):
            return None
        kind = found["kind"]
        # For a presentation and a drawing the format is a part of the path.
        ending = _EXPORTS[kind]
        export = f"/{ending}" if kind in ("presentation", "drawings") else f"?format={ending}"
        key = query.get("resourcekey")
        more = f"{'&' if '?' in export else '?'}{urlencode({'resourcekey': key})}" if key else ""
        return Share(f"https://docs.google.com/{kind}/d/{found['id']}/export{export}{more}", _DRIVE)
    return None


def _drive_file(file_id: str, query: dict[str, str]) -> Share:
    asked = {"id": file_id, "export": "download", "confirm": "t"}
    if key := query.get("resourcekey"):
        asked["resourcekey"] = key
    return Share(f"https://drive.usercontent.google.com/download?{urlencode(asked)}", _DRIVE)


def _dropbox(path: str, query: dict[str, str]) -> Share | None:
    if not path.startswith(("/s/", "/sh/", "/scl/fi/", "/scl/fo/")):
        return None
    kept = {name: value for name, value in query.items() if name not in ("dl", "raw")}
    return Share(f"https://www.dropbox.com{path}?{urlencode({**kept, 'dl': '1'})}", _DROPBOX)


class _ConfirmForm(HTMLParser):
    """The form `download-form` with its hidden fields, or the link `uc-download-link` of older pages."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and found.get("id") in ("download-form", "downloadForm") and not self.action:
            # A form with method POST is not followed: a download sends only GET.
            self._inside = found.get("method", "get").lower() == "get"
            self.action = found.get("action", "") if self._inside else ""
        elif tag == "input" and self._inside and found.get("type") == "hidden" and found.get("name"):
            self.fields[found["name"]] = found.get("value", "")
        elif tag == "a" and found.get("id") == "uc-download-link" and not self.action:
            self.action = found.get("href", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
