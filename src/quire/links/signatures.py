"""Signatures of callbacks: who holds the key knows that a call is ours and how old it is."""

from __future__ import annotations

import hashlib
import hmac
import re


def sign(body: bytes, secret: str, timestamp: int) -> str:
    """The signature header of a callback: `t=<timestamp>,v1=<HMAC-SHA256 of "timestamp.body" in hex>`."""
    mac = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"t={timestamp},v1={mac.hexdigest()}"


def verify(body: bytes, secret: str, signature: str, now: float, tolerance_s: float = 300.0) -> bool:
    """Whether `sign` made this signature for this body, at most `tolerance_s` before or after `now`."""
    match = re.fullmatch(r"t=(\d{1,12}),v1=[0-9a-f]{64}", signature, re.ASCII)
    if match is None or abs(now - int(match[1])) > tolerance_s:
        return False
    return hmac.compare_digest(sign(body, secret, int(match[1])), signature)
