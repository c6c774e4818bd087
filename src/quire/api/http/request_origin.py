"""The site that a browser says a request came from."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi.requests import HTTPConnection

from quire.errors import RequestError


def origin_host(request: HTTPConnection) -> str | None:
    """Returns host and port of the Origin header in lower case, None without one. Raises RequestError if malformed."""
    origin = request.headers.get("origin")
    if origin is None:
        return None
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        raise RequestError("The Origin header is malformed.") from None
