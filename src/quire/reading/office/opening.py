"""Which reader of this package reads which kind of file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from quire.errors import DamagedError, QuireError
from quire.reading import kinds
from quire.reading.kinds import Kind
from quire.reading.office.limits import OfficeLimits
from quire.reading.office.source import OfficeSource, Opened

_READERS: Mapping[Kind, tuple[str, str]] = {
    kinds.DOCX: ("word", "open_word"),
    kinds.PPTX: ("slides", "open_slides"),
    kinds.XLSX: ("sheets", "open_sheets"),
    kinds.HTML: ("hypertext", "open_hypertext"),
    kinds.EPUB: ("books", "open_book"),
    kinds.CSV: ("separated", "open_separated"),
    kinds.EML: ("mail", "open_eml"),
    kinds.MSG: ("mail", "open_msg"),
}


def open_office(path: str, kind: Kind, limits: OfficeLimits) -> OfficeSource:
    """Raises DocumentError or TooLargeError, and no other exception but MemoryError."""
    module, name = _READERS[kind]
    reader: Callable[[str, OfficeLimits], Opened] = getattr(
        import_module(f"quire.reading.office.{module}"), name
    )
    try:
        return OfficeSource(kind, reader(path, limits))
    except (QuireError, MemoryError):
        raise
    except Exception as error:
        raise DamagedError(
            f"The {kind.label} is damaged and can't be read. Open it, save it anew, and send that copy."
        ) from error


def reads(kind: Kind) -> bool:
    return kind in _READERS
