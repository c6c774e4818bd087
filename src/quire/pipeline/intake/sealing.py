"""Seals what must not be kept in the clear (document passwords, prompts, links) before it reaches Redis."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from quire.domain.job import JobSecrets
from quire.errors import QuireError, SettingsError

_NONCE_BYTES = 12


class Sealer:
    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def from_secret(cls, secret: str) -> Sealer:
        return cls(hashlib.sha256(f"quire-seal:{secret}".encode()).digest())

    @classmethod
    def from_data_dir(cls, data_dir: Path) -> Sealer:
        """The key file of the data directory, made at the first start; only its owner can read it."""
        path = data_dir / "secret.key"
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(f".{os.getpid()}.new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
            # link() fails if another process was first, and never shows a half-written key.
            with suppress(FileExistsError):
                path.hardlink_to(fresh)
            fresh.unlink()
            return cls(path.read_bytes())
        except OSError as error:
            raise SettingsError(
                f"The key file {path} can't be used ({error.strerror}). Make DATA_DIR writable or set SECRET_KEY."
            ) from error

    def seal(self, job_id: str, found: JobSecrets) -> str | None:
        if not found:
            return None
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE_BYTES)
        # Without what is not set: a process of an earlier version does not know the newer names.
        plain = json.dumps(
            {name: value for name, value in asdict(found).items() if value is not None}
        ).encode()
        return base64.b64encode(nonce + AESGCM(self._key).encrypt(nonce, plain, job_id.encode())).decode()

    def unseal(self, job_id: str, sealed: str | None) -> JobSecrets:
        """Raises QuireError where this process has another key than the one that sealed."""
        if not sealed:
            return JobSecrets()
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        raw = base64.b64decode(sealed)
        try:
            plain = AESGCM(self._key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], job_id.encode())
        except InvalidTag:
            raise QuireError(
                "The job's password can't be opened on this worker: set the same SECRET_KEY on every machine."
            ) from None
        return JobSecrets(**json.loads(plain))

    def fingerprint(self, *parts: Any) -> str:
        """A keyed hash, so that a guessable password in it can't be found by trying."""
        return hmac.new(self._key, json.dumps(parts).encode(), hashlib.sha256).hexdigest()
