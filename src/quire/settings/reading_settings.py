"""The settings of reading: what is taken, by which readers, and how pages become pictures."""
# ruff: noqa: RUF009 - `setting` is `dataclasses.field` with a description; its values are immutable

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quire.settings import setting_kinds
from quire.settings.setting_kinds import setting


@dataclass(frozen=True)
class PageClassSettings:
    """Which pages go to AI: where the classes of pages begin. Coverage is a share of the page's area."""

    picture_coverage: float = setting(
        "PAGE_PICTURE_COVERAGE",
        "0.10",
        setting_kinds.number(0, 1),
        "A page whose pictures together cover this much has graphics.",
    )
    largest_picture: float = setting(
        "PAGE_LARGEST_PICTURE",
        "0.06",
        setting_kinds.number(0, 1),
        "A page with one picture that covers this much has graphics; a logo covers 0.01 to 0.03.",
    )
    scan_coverage: float = setting(
        "PAGE_SCAN_COVERAGE",
        "0.55",
        setting_kinds.number(0, 1),
        "A page whose pictures cover this much and that has few characters is a scan.",
    )
    scan_max_chars: int = setting(
        "PAGE_SCAN_MAX_CHARS",
        "120",
        setting_kinds.integer(0, 1_000_000),
        "The most characters of a page that counts as a scan.",
    )
    chart_paths: int = setting(
        "PAGE_CHART_PATHS",
        "12",
        setting_kinds.integer(1, 1_000_000),
        "Drawn shapes without text in them, rules and frames left out, that make a chart.",
    )
    chart_coverage: float = setting(
        "PAGE_CHART_COVERAGE",
        "0.04",
        setting_kinds.number(0, 1),
        "The least share of the page that the shapes of a chart cover.",
    )
    garbled_ratio: float = setting(
        "PAGE_GARBLED_RATIO",
        "0.20",
        setting_kinds.number(0, 1),
        "A page is garbled if this share of its characters can't be text.",
    )
    garbled_min_chars: int = setting(
        "PAGE_GARBLED_MIN_CHARS",
        "20",
        setting_kinds.integer(0, 1_000_000),
        "A page with fewer characters never counts as garbled.",
    )


@dataclass(frozen=True)
class LimitsSettings:
    """How much is accepted."""

    max_upload_bytes: int = setting(
        "MAX_UPLOAD_MB",
        "512MB",
        setting_kinds.size("1KB", "64GB", bare_unit="MB"),
        "The largest document accepted, uploaded or downloaded.",
    )
    max_pages: int = setting(
        "MAX_PAGES", "20000", setting_kinds.integer(1, 1_000_000), "The most pages a document may have."
    )
    max_pixels: int = setting(
        "MAX_PIXELS",
        "100000000",
        setting_kinds.integer(10_000, 2_000_000_000),
        "The most pixels a picture may unpack to.",
    )
    max_archive_bytes: int = setting(
        "MAX_ARCHIVE_MB",
        "512MB",
        setting_kinds.size("1MB", "1TB", bare_unit="MB"),
        "What the parts of an office file or a book may unpack to, together.",
    )
    max_archive_members: int = setting(
        "MAX_ARCHIVE_MEMBERS",
        "20000",
        setting_kinds.integer(1, 10_000_000),
        "The most parts that an office file or a book may have inside.",
    )
    max_attachments: int = setting(
        "MAX_ATTACHMENTS",
        "100",
        setting_kinds.integer(0, 10_000),
        "The most attachments of a mail, and of the mails attached to it, that become documents of their own.",
    )
    max_attachment_depth: int = setting(
        "MAX_ATTACHMENT_DEPTH",
        "3",
        setting_kinds.integer(0, 20),
        "How deep mails in mails are followed; attachments below that are listed, not converted.",
    )
    queue_max_documents: int = setting(
        "QUEUE_MAX_DOCUMENTS",
        "2500",
        setting_kinds.integer(1, 10_000_000),
        "Unfinished documents beyond this number are refused with 503 until others are done.",
    )


@dataclass(frozen=True)
class ReadingSettings:
    """The child processes that read documents."""

    processes: int = setting(
        "READER_PROCESSES", "0", setting_kinds.integer(0, 256), "Reader processes; 0 means one for each core."
    )
    memory_bytes: int = setting(
        "READER_MEMORY_MB",
        "1024MB",
        setting_kinds.size("128MB", "1TB", bare_unit="MB"),
        "The memory one reader process may use.",
    )
    idle_timeout_s: float = setting(
        "READER_IDLE_TIMEOUT",
        "5m",
        setting_kinds.duration("0s", "30d"),
        "Reader processes start with the first document, and end after this time without one; 0s starts them with the "
        "service and keeps them.",
    )
    cage: bool = setting(
        "READER_CAGE",
        "true",
        setting_kinds.boolean(),
        "Whether reader processes are confined by Landlock and seccomp: no network, no programs, no file but the "
        "document at hand.",
    )
    chunk_pages: int = setting(
        "READER_CHUNK_PAGES",
        "32",
        setting_kinds.integer(1, 1_000),
        "Pages handed to a reader process at a time. It hands back those that take too long, so that others have their "
        "turn.",
    )
    page_timeout_s: float = setting(
        "READER_PAGE_TIMEOUT",
        "20s",
        setting_kinds.duration("10ms", "1h"),
        "The CPU time that a reader process has for one page.",
    )
    document_budget_s: float = setting(
        "READER_DOCUMENT_BUDGET",
        "2m",
        setting_kinds.duration("1s", "1d"),
        "CPU time that the pages of one document may use without a result; after that each further page is tried once, "
        "for two seconds.",
    )
    effort: str = setting(
        "READING_EFFORT",
        "balanced",
        setting_kinds.choice("fast", "balanced", "careful"),
        "`fast` reads scans by the quick OCR reader once, `careful` by RapidOCR's models and again by other means "
        "where a flaw is left; a request may ask for another (`reading_effort`).",
    )
    strip_running_headers: bool = setting(
        "STRIP_RUNNING_HEADERS",
        "true",
        setting_kinds.boolean(),
        "Whether headers, footers and page numbers that repeat over pages are left out.",
    )
    join_hyphens: bool = setting(
        "JOIN_HYPHENS",
        "true",
        setting_kinds.boolean(),
        "Whether words hyphenated at a line's end are joined.",
    )


@dataclass(frozen=True)
class OcrSettings:
    """Local OCR, for scans that no AI reads."""

    enabled: bool = setting(
        "OCR_ENABLED", "true", setting_kinds.boolean(), "Whether scans are read by local OCR."
    )
    languages: str = setting(
        "OCR_LANGUAGES",
        "eng",
        setting_kinds.text(),
        "The languages of the scans, joined with `+`: `eng+deu`.",
    )
    dpi: int = setting(
        "OCR_DPI", "200", setting_kinds.integer(70, 600), "Dots per inch at which OCR sees a page."
    )
    page_timeout_s: float = setting(
        "OCR_PAGE_TIMEOUT", "60s", setting_kinds.duration("1s", "1h"), "The time OCR has for one page."
    )
    mode: str = setting(
        "OCR_MODE",
        "auto",
        setting_kinds.choice("auto", "quick", "careful"),
        "`quick` reads with Tesseract alone, `careful` with RapidOCR's models, `auto` quickly where that is enough.",
    )
    data_dir: Path | None = setting(
        "OCR_DATA_DIR",
        "",
        setting_kinds.optional_path(),
        "A folder with Tesseract's models (`rus.traineddata`) for other languages than English and German. Without "
        "one, those that packages of the system have installed (`tesseract-ocr-rus`) are used.",
    )


@dataclass(frozen=True)
class ImagesSettings:
    """Pictures of pages."""

    dpi: int = setting(
        "IMAGE_DPI", "100", setting_kinds.integer(20, 600), "Dots per inch at which a page is drawn."
    )
    color: str = setting(
        "IMAGE_COLOR", "rgb", setting_kinds.choice("rgb", "gray"), "Colour or shades of grey."
    )
    format: str = setting("IMAGE_FORMAT", "jpeg", setting_kinds.choice("jpeg", "png"), "The file format.")
    jpeg_quality: int = setting(
        "IMAGE_JPEG_QUALITY", "70", setting_kinds.integer(1, 100), "The quality of JPEG files."
    )
    max_px: int = setting(
        "IMAGE_MAX_PX",
        "2048",
        setting_kinds.integer(64, 16_384),
        "The longest side; larger pictures are scaled down.",
    )
    figure_dpi: int = setting(
        "FIGURE_DPI",
        "150",
        setting_kinds.integer(20, 600),
        "Dots per inch at which figures are cut from pages.",
    )
