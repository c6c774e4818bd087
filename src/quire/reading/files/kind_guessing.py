"""What a file is where its first bytes leave a doubt: the whole container, or a model trained on such files.

Runs in child processes only. The model (magika, on onnxruntime) takes most of a second to load, so it is asked only
where the tables of `kinds` can't decide, and is loaded once for each child. Without it the first guess is kept.
"""

from __future__ import annotations

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

from quire.errors import DamagedError, PasswordRequiredError
from quire.reading.files import file_kinds
from quire.reading.files.file_kinds import FileKind

_SAMPLE_BYTES = 1 << 20
_SURE = 0.85
_LEAST_TEXT = 32
"""Less text than this says nothing about what it is."""
_WORDS_A_LINE = 4
_MOST_SIGNS = 0.003
_CLEARLY_MARKDOWN = re.compile(r"^(?:#{1,6} \S|[-*+] \S|```|\[[^\]\n]+\]\()", re.MULTILINE)
_TEXT_KINDS = {
    "csv": file_kinds.CSV,
    "tsv": file_kinds.CSV,
    "html": file_kinds.HTML,
    "markdown": file_kinds.MARKDOWN,
    "eml": file_kinds.EML,
    "json": file_kinds.JSON,
    "jsonl": file_kinds.JSON,
}
_BY_START = {
    ".xml": ("<", file_kinds.XML),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), ("{[", file_kinds.JSON)),
}
"""By a name's ending: the signs that such a text begins with, whole or damaged, and what it is."""
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]{0,12}(?:\s[^<>]{0,500})?>")
_ZIP_FOLDERS = (("word/", file_kinds.DOCX), ("xl/", file_kinds.XLSX), ("ppt/", file_kinds.PPTX))


def finer_kind(path: str, kind: FileKind) -> FileKind:
    """The kind of the file at `path`, whose first bytes said `kind`. Raises DamagedError or PasswordRequiredError."""
    try:
        if kind in (file_kinds.TEXT, file_kinds.MARKDOWN):
            return _finer_text(path, kind)
        if kind in (file_kinds.DOUBTFUL_ZIP, file_kinds.ZIP):
            return _finer_zip(path)
        if kind in (file_kinds.DOUBTFUL_OLE, file_kinds.OLE):
            return _finer_ole(path)
        return _named(path) if kind == file_kinds.UNKNOWN else kind
    except OSError as error:
        raise DamagedError("The document's file can't be read.") from error


def _finer_text(path: str, kind: FileKind) -> FileKind:
    with Path(path).open("rb") as file:
        data = file.read(_SAMPLE_BYTES)
    text = data[:20_000].decode("utf-8", "replace")
    named = _by_ending(Path(path).suffix.lower(), text, kind)
    if named is not None:
        return named
    if _is_json(data):
        return file_kinds.JSON
    guess = None if len(data) < _LEAST_TEXT or _is_clear(text, kind) else _guess(data)
    if guess is None:
        return kind
    label, group, score = guess.output.label, guess.output.group, guess.score
    if label in _TEXT_KINDS and score >= _SURE:
        return _TEXT_KINDS[label]
    if group == "code" and score >= _SURE:
        return FileKind(guess.output.mime_type, f"{guess.output.description}", True, fence=label)
    return kind


def _by_ending(ending: str, text: str, kind: FileKind) -> FileKind | None:
    """What the file's name says of a text that could be several things; None where it says nothing that can be so."""
    if ending in (".md", ".markdown"):
        return file_kinds.MARKDOWN
    if ending == ".txt":
        return kind
    if ending in (".html", ".htm", ".xhtml") and _TAG.search(text):
        return file_kinds.HTML
    signs, named = _BY_START.get(ending, ("", None))
    if named is not None and text.lstrip("\ufeff \t\r\n").startswith(tuple(signs)):
        return named
    if ending in (".csv", ".tsv") and file_kinds.delimiter_of(text):
        return file_kinds.CSV
    return None


def _is_json(data: bytes) -> bool:
    """Whether it is JSON from its first byte to its last. Larger files are left to the model."""
    if len(data) >= _SAMPLE_BYTES or data.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _is_clear(text: str, kind: FileKind) -> bool:
    if kind == file_kinds.MARKDOWN:
        return len(_CLEARLY_MARKDOWN.findall(text)) >= 3 and not text.startswith("#!")
    return _is_prose(text)


def _is_prose(text: str) -> bool:
    """Whether it is sentences and nothing else: several words a line, and hardly a sign that programs are made of."""
    lines = [line for line in text.splitlines() if line.strip()]
    signs = sum(map(text.count, "{}[]<>=;|\t#$@_/\\*&%~^"))
    return len(text.split()) >= _WORDS_A_LINE * len(lines) and signs <= _MOST_SIGNS * len(text)


def _finer_zip(path: str) -> FileKind:
    """By the names of its members, which only its directory lists in full."""
    from quire.reading.office.zip_container import OfficeLimits, ZipContainer

    archive = ZipContainer(path, OfficeLimits())
    try:
        names = archive.names()
        if "mimetype" in archive and archive.size("mimetype") < 200:
            declared = archive.read("mimetype").strip()
            if declared == file_kinds.EPUB.mime.encode():
                return file_kinds.EPUB
    finally:
        archive.close()
    if "[Content_Types].xml" in names:
        for folder, kind in _ZIP_FOLDERS:
            if any(name.startswith(folder) for name in names):
                return kind
    named = _named(path)
    return file_kinds.ZIP if named == file_kinds.UNKNOWN else named


def _finer_ole(path: str) -> FileKind:
    import olefile  # type: ignore[import-untyped]

    try:
        with olefile.OleFileIO(path) as file:
            for name, kind in file_kinds.OLE_STREAMS:
                if file.exists(name):
                    if name == "EncryptedPackage":
                        raise PasswordRequiredError(
                            "The document is protected by a password, which Quire can't use for office files. "
                            "Save it without one and send that copy."
                        )
                    return kind
    except (OSError, PasswordRequiredError):
        raise
    except Exception as error:
        raise DamagedError("The document is damaged and can't be opened.") from error
    return file_kinds.OLE


def _named(path: str) -> FileKind:
    """What the model calls a file that can't be read, for the message that says so."""
    with Path(path).open("rb") as file:
        guess = _guess(file.read(_SAMPLE_BYTES))
    if guess is None or guess.score < _SURE or guess.output.label in ("unknown", "undefined", "txt", "empty"):
        return file_kinds.UNKNOWN
    return FileKind(guess.output.mime_type, guess.output.description)


def _guess(data: bytes) -> Any:
    model = _model()
    if model is None:
        return None
    try:
        return model.identify_bytes(data)
    except MemoryError:
        raise
    except Exception:  # a guess is a courtesy
        return None


@functools.cache
def _model() -> Any:
    """None where it is not installed or can't be loaded."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        if allowed:
            # It would start a thread for each core, and a child's memory limit counts every stack.
            os.sched_setaffinity(0, {next(iter(allowed))})
        from magika import Magika

        return Magika()
    except Exception:
        return None
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)
