"""The sources of `quire convert` and the target of each result, decided before any work starts."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from quire.cli.exit_codes import CommandUsageError

SUFFIXES = {
    "md": ".md",
    "text": ".txt",
    "json": ".json",
    "html": ".html",
    "docling": ".docling.json",
    "chunks": ".jsonl",
    "pdf": ".searchable.pdf",
    "zip": ".zip",
    "parquet": ".chunks.parquet",
}
STDIN = "-"
_STDOUT = "-"
_LONGEST_STEM_BYTES = 200
_BUCKETS = ("s3://", "gs://", "az://")


@dataclass(frozen=True, slots=True)
class ConvertSource:
    """One document: a local file or a link."""

    name: str  # as shown to the user
    filename: str  # as the document is called
    path: Path | None = None
    url: str | None = None

    @classmethod
    def of(cls, given: str, spool: Path) -> ConvertSource:
        """Raises CommandUsageError for what can't be a document. `spool` is where standard input will be put."""
        if given == STDIN:
            return cls("stdin", "stdin", path=spool)
        if given.startswith(("http://", "https://")):
            parts = urlsplit(given)
            filename = unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.hostname or "document"
            return cls(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", filename, url=given)
        if given.startswith(_BUCKETS):
            bucket, _, key = given.partition("://")[2].partition("/")
            if not bucket or not key.rpartition("/")[2]:
                raise CommandUsageError(
                    f"{given} names no object. Expected an address such as s3://bucket/file.pdf."
                )
            return cls(given, key.rpartition("/")[2], url=given)
        path = Path(given)
        if path.is_dir():
            raise CommandUsageError(
                f"{given} is a folder. Name the files in it, for example {path / '*.pdf'}."
            )
        return cls(given, path.name, path=path)

    @property
    def stem(self) -> str:
        """The file name without its ending and without what a file name can't have."""
        stem = Path(self.filename.replace("/", "_").replace("\0", "_")).stem.lstrip(".") or "document"
        return os.fsencode(stem)[:_LONGEST_STEM_BYTES].decode("utf-8", "ignore")


def all_sources(given: list[str], work_dir: Path) -> list[ConvertSource]:
    """Raises CommandUsageError where standard input is named twice or a folder is named."""
    if given.count(STDIN) > 1:
        raise CommandUsageError("Standard input (-) can be read only once.")
    return [ConvertSource.of(one, work_dir / "stdin") for one in given]


def named_buckets(sources: list[ConvertSource]) -> str:
    """The buckets of the sources, as S3_ALLOWED_BUCKETS takes them: naming one on the command line allows it."""
    addresses = (source.url for source in sources if source.url and source.url.startswith(_BUCKETS))
    return ",".join(dict.fromkeys("/".join(address.split("/", 3)[:3]) for address in addresses))


def take_stdin(sources: list[ConvertSource], work_dir: Path) -> None:
    """Puts standard input into a file, if it is one of the documents: readers need to go back and forth in it."""
    spool = work_dir / "stdin"
    if any(source.path == spool for source in sources):
        with spool.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)


def targets(sources: list[ConvertSource], output: str | None, wanted: str) -> list[Path | None]:
    """Where each result goes, None being standard output. Raises CommandUsageError; nothing is written or made yet."""
    suffix = SUFFIXES[wanted]
    if len(sources) == 1 and (output is None or output == _STDOUT):
        return [None]
    if output is None or output == _STDOUT:
        raise CommandUsageError("Several documents need a folder for their results: add -o FOLDER.")
    place = Path(output)
    if len(sources) == 1 and not place.is_dir() and not output.endswith(os.sep):
        source = sources[0].path
        if source is not None and place.exists() and source.exists() and place.samefile(source):
            raise CommandUsageError(f"-o {output} would overwrite the document itself.")
        return [place]
    if place.exists() and not place.is_dir():
        raise CommandUsageError(f"-o {output} is a file; several documents need a folder.")
    return _named_apart(sources, place, suffix)


def _named_apart(sources: list[ConvertSource], folder: Path, suffix: str) -> list[Path | None]:
    """`report.md`, `report-2.md` …: no result may take the place of another one, or of a document."""
    taken = {source.path.absolute() for source in sources if source.path}
    found: list[Path | None] = []
    for source in sources:
        path, number = folder / f"{source.stem}{suffix}", 1
        while path.absolute() in taken:
            number += 1
            path = folder / f"{source.stem}-{number}{suffix}"
        taken.add(path.absolute())
        found.append(path)
    return found


class ConvertResult:
    """A file that is written under another name and takes its own only when it is whole.

    What is not a regular file (`/dev/stdout`, a pipe) is written to directly, for it must not be replaced.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._direct = path.exists() and not path.is_file()
        self._part = self._path.with_name(f".quire-{os.getpid()}-{id(self):x}.part")
        self._file: BinaryIO | None = None

    def __enter__(self) -> BinaryIO:
        if not self._direct:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = (self._path if self._direct else self._part).open("wb")
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        if self._direct:
            return
        if kind is None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)
