"""Direct uploads: files that a client puts into the object store itself and then names as the source of a job.

The record and the file are objects under an id that is made of the team and the upload's id, so another team's id finds
nothing. They are deleted some hours after the upload began, or two days after the last job was created of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from quire.domain.job import conversion_job_id, new_job_id
from quire.errors import MissingError, RequestError, StateConflictError, TooLargeError
from quire.links import safe_filename
from quire.objects.object_store import ObjectWriter, SignedUpload, in_thread
from quire.pipeline.object_keys import job_prefix, original_key
from quire.pipeline.parts import Parts

UPLOAD_SCHEME = "upload://"
_UNUSED_KEPT_S = 6 * 3600.0
_USED_KEPT_S = 48 * 3600.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class DirectUpload:
    """What a client said about a file. `sha256` is empty where it said nothing."""

    id: str
    owner_id: str
    """The id under which its objects are stored and deleted."""
    key: str
    filename: str
    size: int
    sha256: str = ""

    @property
    def source(self) -> str:
        """The address by which a request names it."""
        return UPLOAD_SCHEME + self.id


def is_direct_upload(url: str) -> bool:
    """Whether an address names a direct upload."""
    return url.startswith(UPLOAD_SCHEME)


class DirectUploads:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def begin(self, team: str, filename: str, size: int, sha256: str = "") -> DirectUpload:
        """Raises RequestError or TooLargeError for a file that can't be accepted, and DiskFullError."""
        self._parts.disk.refuse_if_full()
        if size < 1:
            raise RequestError("size: expected the size of the file in bytes, at least 1.")
        most = self._parts.settings.limits.max_upload_bytes
        if size > most:
            raise TooLargeError(
                f"The document is larger than the {most / (1 << 20):g} MB allowed (MAX_UPLOAD_MB)."
            )
        if sha256 and not _SHA256.fullmatch(sha256):
            raise RequestError("sha256: expected 64 hexadecimal digits in lower case.")
        upload_id = new_job_id()
        owner_id = _owner_id(team, upload_id)
        name = safe_filename(filename) if filename else ""
        made = DirectUpload(upload_id, owner_id, original_key(owner_id, name), name, size, sha256)
        # First, so that nothing is left behind if the process dies after the next line.
        await self._parts.jobs.register_objects(owner_id, _UNUSED_KEPT_S)
        await self._parts.objects.put(_record_key(owner_id), json.dumps(asdict(made)).encode())
        return made

    async def signed(self, upload: DirectUpload) -> SignedUpload | None:
        """The address for a PUT straight to the object store; None where the store can't sign one."""
        return await self._parts.objects.upload_link(
            upload.key, self._parts.settings.retention.link_ttl_s, upload.size
        )

    async def find(self, team: str, upload_id: str) -> DirectUpload:
        """Raises MissingError for an upload of another team, too."""
        try:
            raw = await self._parts.objects.get(_record_key(_owner_id(team, upload_id)))
        except MissingError:
            raise MissingError("There is no such upload. It may have been deleted; begin it again.") from None
        return DirectUpload(**json.loads(raw))

    def writer(self, upload: DirectUpload) -> ObjectWriter:
        """For a file that arrives over our own HTTP. Raises DiskFullError before any of its bytes is read."""
        self._parts.disk.refuse_if_full()
        return self._parts.objects.writer(upload.key)

    async def check(self, team: str, url: str) -> DirectUpload:
        """The upload that an address names, complete. Raises MissingError, StateConflictError or RequestError."""
        upload = await self.find(team, url.removeprefix(UPLOAD_SCHEME))
        size = await self._parts.objects.size(upload.key)
        if size is None:
            raise StateConflictError(
                "The file of this upload has not arrived. PUT it to the upload's address first."
            )
        if size != upload.size:
            raise RequestError(
                f"The upload should have {upload.size} bytes and has {size}. PUT the file again."
            )
        await self._parts.jobs.register_objects(upload.owner_id, _USED_KEPT_S, extend=True)
        return upload

    async def copy_to(self, key: str, team: str, url: str) -> tuple[DirectUpload, str]:
        """Copies the file inside the object store and returns its record and the hash of the copy.

        A copy, because the client can replace the file for as long as its address is valid. Raises as `check`,
        and RequestError if the hash differs from the one announced.
        """
        upload = await self.check(team, url)
        await self._parts.objects.copy(upload.key, key)
        async with self._parts.objects.local(key) as path:
            size, sha256 = await in_thread(_size_and_hash, path)
        if size != upload.size or (upload.sha256 and sha256 != upload.sha256):
            await self._parts.objects.delete(key)
            raise RequestError(
                "The file that was uploaded is not the one announced: its size or hash differs."
            )
        return upload, sha256


def _size_and_hash(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()


def _owner_id(team: str, upload_id: str) -> str:
    return conversion_job_id(team, f"upload {upload_id[:200]}")


def _record_key(owner_id: str) -> str:
    return f"{job_prefix(owner_id)}upload.json"
