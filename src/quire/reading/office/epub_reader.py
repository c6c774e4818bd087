"""EPUB books: chapters in the order of the spine, each beginning a page."""

from __future__ import annotations

from urllib.parse import unquote
from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.charsets import declared_in_markup, decode
from quire.reading.office.html_reader import convert
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.office_source import Opened
from quire.reading.office.ooxml_package import Package
from quire.reading.office.zip_container import OfficeLimits, ZipContainer, resolve

READER = "epub"
_FONT_ONLY = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


def open_book(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    archive = ZipContainer(path, limits)
    try:
        book = _Book(archive)
        return Opened(READER, book.pages(), book.title, book.author, archive.read, archive.close)
    except BaseException:
        archive.close()
        raise


class _Book:
    def __init__(self, archive: ZipContainer) -> None:
        self._archive = archive
        self._package = package = Package(archive)
        container = package.tree("META-INF/container.xml", "container")
        roots = [] if container is None else list(package.descendants(container, "rootfile"))
        self._part = next((name for one in roots if (name := one.get("full-path", "")) in archive), "")
        root = package.tree(self._part, "package")
        if root is None:
            raise DamagedError("The book is damaged: its list of chapters is missing. Send another copy.")
        self._root = root
        self.title = self._credit("title")
        self.author = self._credit("creator")

    def pages(self) -> list[OfficePage]:
        pages: list[OfficePage] = []
        locked = self._locked()
        for name in self._spine():
            if name in locked:
                raise DamagedError("The book is protected (DRM). Only its reader program can open it.")
            data = self._archive.read(name)
            text = decode(data, declared_in_markup(data[:4096]))
            pages += convert(text, resolve=lambda src, at=name: self._member(at, src)).pages  # type: ignore[misc]
        return pages

    def _spine(self) -> list[str]:
        package = self._package
        manifest: dict[str, Element] = {
            one.get("id", ""): one for one in package.children(package.child(self._root, "manifest"), "item")
        }
        found: list[str] = []
        for one in package.children(package.child(self._root, "spine"), "itemref"):
            item = manifest.get(one.get("idref", ""))
            name = self._member(self._part, item.get("href", "")) if item is not None else ""
            kind = item.get("media-type", "") if item is not None else ""
            if name and ("html" in kind or name.lower().endswith((".xhtml", ".html", ".htm"))):
                found.append(name)
        return list(dict.fromkeys(found))

    def _member(self, base: str, href: str) -> str:
        name = resolve(base, unquote(href.partition("#")[0]))
        return name if name in self._archive else ""

    def _locked(self) -> set[str]:
        """Members that only a licence opens. Fonts are scrambled in honest books too, which is no protection."""
        package = self._package
        root = package.tree("META-INF/encryption.xml", "list of protected parts")
        found: set[str] = set()
        for one in package.children(root, "EncryptedData"):
            method = package.child(one, "EncryptionMethod")
            if method is not None and method.get("Algorithm") in _FONT_ONLY:
                continue
            found.update(unquote(ref.get("URI", "")) for ref in package.descendants(one, "CipherReference"))
        return found

    def _credit(self, name: str) -> str | None:
        metadata = self._package.child(self._root, "metadata")
        found = [] if metadata is None else list(self._package.descendants(metadata, name))
        text = " ".join((found[0].text or "").split()) if found else ""
        return "".join(c for c in text if c.isprintable())[:500] or None
