"""The object keys of a job's documents and results, and how a worker opens a document."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urlsplit

from quire.errors import MissingError
from quire.objects.object_store import ObjectStore

FILE_SCHEME = "file://"
ALL_JOBS = "jobs/"
RECORD = "record.json"
_TEXT_ENDINGS = frozenset({".md", ".markdown", ".txt", ".html", ".htm", ".xhtml", ".csv", ".tsv"})


def job_prefix(job_id: str) -> str:
    return f"{ALL_JOBS}{job_id}/"


def accepted_key(job_id: str) -> str:
    """The journal's entry of an accepted job."""
    return f"{job_prefix(job_id)}accepted.json"


def original_key(job_id: str, filename: str | None = None) -> str:
    """A name of its own for each upload, so that a repeated one can't overwrite what is being read.

    It keeps the ending of a text file's name, which decides where the content could be several things.
    """
    return f"{job_prefix(job_id)}original-{secrets.token_hex(4)}{text_ending(filename)}"


def text_ending(filename: str | None) -> str:
    """The ending of a text file's name; empty for any other name, whose content says what it is."""
    ending = PurePosixPath(filename or "").suffix.lower()
    return ending if ending in _TEXT_ENDINGS else ""


def attached_key(job_id: str) -> str:
    """The same each time: a mail that is in the vault is taken apart anew where it is split again."""
    return f"{job_prefix(job_id)}original-attached"


def chunk_key(job_id: str, epoch: int, unit: str, token: str) -> str:
    """Different for each attempt: a late writer can't change what an earlier one has recorded."""
    return f"{job_prefix(job_id)}e{epoch}/{unit}-{token}"


def chunks_prefix(job_id: str, epoch: int) -> str:
    return f"{job_prefix(job_id)}e{epoch}/"


def result_key(job_id: str, epoch: int, token: str) -> str:
    return f"{job_prefix(job_id)}result-{epoch}-{token}.md"


def elements_ref(ref: str) -> str:
    """The object that has the elements of pages whose Markdown is in `ref`.

    A chunk has both. Beside a result there is an object of elements with the same epoch and token.
    """
    folder, _, name = ref.rpartition("/")
    if not name.startswith("result-"):
        return ref
    return f"{folder}/elements-{name.removeprefix('result-').removesuffix('.md')}"


def pages_key(job_id: str, epoch: int, token: str) -> str:
    return f"{job_prefix(job_id)}pages-{epoch}-{token}.json"


def record_key(job_id: str) -> str:
    """The archived record of a vault document's conversion, for when the one in Redis has expired."""
    return f"{job_prefix(job_id)}{RECORD}"


def answer_prefix(fingerprint: str) -> str:
    """The prefix under which the cache stores a model's answer."""
    return job_prefix(f"answer-{fingerprint}")


def file_ref(path: Path) -> str:
    return FILE_SCHEME + quote(str(path.absolute()))


def content_url(objects: ObjectStore, content_ref: str) -> str:
    """Returns the address of a document for programs outside; an address is returned unchanged."""
    return content_ref if not content_ref or "://" in content_ref else objects.url(content_ref)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise MissingError(f"The file {path.name} no longer exists.")
    return path


@asynccontextmanager
async def local_document(objects: ObjectStore, content_ref: str) -> AsyncIterator[Path]:
    """The document as a file that native parsers can open. Raises MissingError if it no longer exists."""
    if content_ref.startswith(FILE_SCHEME):
        yield _existing(Path(unquote(urlsplit(content_ref).path)))
        return
    async with objects.local(content_ref) as path:
        yield path


def batch_key(batch_id: str) -> str:
    """The record of a document batch; it has a prefix of its own, like a job."""
    return f"{job_prefix(batch_id)}batch.json"


def due_callback_key(batch_id: str) -> str:
    """The marker of a document batch whose callback is not delivered yet."""
    return f"{job_prefix(batch_id)}callback-due"


def delivery_key(batch_id: str) -> str:
    """How the delivery of a document batch's results to its target ended."""
    return f"{job_prefix(batch_id)}delivery.json"
