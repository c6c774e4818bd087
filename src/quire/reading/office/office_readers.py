"""Which reader of this package reads which kind of file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from quire.errors import DamagedError, QuireError
from quire.reading.files import file_kinds
from quire.reading.files.file_kinds import FileKind
from quire.reading.office.office_source import OfficeSource, Opened
from quire.reading.office.zip_container import OfficeLimits

_READERS: Mapping[FileKind, tuple[str, str]] = {
    file_kinds.DOCX: ("docx_reader", "open_word"),
    file_kinds.PPTX: ("pptx_reader", "open_slides"),
    file_kinds.XLSX: ("xlsx_reader", "open_sheets"),
    file_kinds.HTML: ("html_reader", "open_hypertext"),
    file_kinds.EPUB: ("epub_reader", "open_book"),
    file_kinds.ODT: ("odf_reader", "open_document"),
    file_kinds.ODS: ("odf_reader", "open_spreadsheet"),
    file_kinds.ODP: ("odf_reader", "open_presentation"),
    file_kinds.CSV: ("csv_reader", "open_separated"),
    file_kinds.EML: ("mail_reader", "open_eml"),
    file_kinds.MSG: ("mail_reader", "open_msg"),
    file_kinds.DOC: ("doc_reader", "open_doc"),
    file_kinds.XLS: ("xls_reader", "open_xls"),
    file_kinds.PPT: ("ppt_reader", "open_ppt"),
    file_kinds.RTF: ("rtf_reader", "open_rtf"),
    file_kinds.JATS: ("jats_reader", "open_jats"),
}


def open_office(path: str, kind: FileKind, limits: OfficeLimits) -> OfficeSource:
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


def reads(kind: FileKind) -> bool:
    return kind in _READERS
