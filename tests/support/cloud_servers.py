"""Servers that speak the protocols of Google Cloud Storage and Azure, as far as our client uses them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote
from xml.sax.saxutils import escape

from aiohttp import web
from yarl import URL

_LISTED_AT_ONCE = 2
_CHANGED = "Wed, 01 Jan 2020 00:00:00 GMT"

ACCOUNT, KEY = "quireaccount", base64.b64encode(b"the key of the account").decode()


@dataclass
class Cloud:
    """Google's interface: objects by path, with their versions; what was asked, and what was wrong about it."""

    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path} {request.headers.get('Range', '')}".strip())
        if not self.allowed(request):
            self.wrong.append(self.asked[-1])
            return web.Response(status=403)
        if request.method == "PUT":
            if self.is_create(request.headers) and request.path in self.objects:
                return web.Response(status=self.exists_status)
            self.objects[request.path] = await request.read()
            return web.Response(status=201, headers=self.version(request.path))
        if request.method == "POST":
            return self.deletion((await request.read()).decode())
        if "list-type" in request.query or "comp" in request.query:
            return self.listing(request)
        if request.path not in self.objects:
            return web.Response(status=404)
        if request.method == "DELETE":
            del self.objects[request.path]
            return web.Response(status=202)
        return self.content(request)

    exists_status = 412

    def allowed(self, _request: web.Request) -> bool:
        return True

    def is_create(self, headers: Mapping[str, str]) -> bool:
        return headers.get("x-goog-if-generation-match") == "0"

    def deletion(self, _body: str) -> web.Response:
        return web.Response(status=405)

    def page(self, request: web.Request, after: str) -> tuple[list[str], bool]:
        """The next keys of a listing behind `after`, and whether there are more."""
        top = unquote(request.path).rstrip("/") + "/"
        prefix = request.query.get("prefix", "")
        keys = sorted(path.removeprefix(top) for path in self.objects if path.startswith(top))
        left = [key for key in keys if key.startswith(prefix) and key > after]
        return left[:_LISTED_AT_ONCE], len(left) > _LISTED_AT_ONCE

    def listing(self, request: web.Request) -> web.Response:
        query = request.query
        keys, more = self.page(request, query.get("continuation-token", query.get("start-after", "")))
        found = ""
        for key in keys:
            path = f"{request.path.rstrip('/')}/{key}"
            found += (
                f"<Contents><Key>{escape(key)}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{escape(self.version(path)['ETag'])}</ETag><Size>{len(self.objects[path])}</Size></Contents>"
            )
        token = f"<NextContinuationToken>{escape(keys[-1])}</NextContinuationToken>" if more else ""
        head = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        return _xml(f"<ListBucketResult>{head}{found}</ListBucketResult>")

    def version(self, path: str) -> dict[str, str]:
        tag = hashlib.md5(self.objects[path], usedforsecurity=False).hexdigest()
        return {"ETag": f'"{tag}"', "Last-Modified": _CHANGED, "x-goog-generation": "1"}

    def content(self, request: web.Request) -> web.Response:
        whole, headers = self.objects[request.path], self.version(request.path)
        if request.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            return web.Response(status=412)
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        if not found:
            return web.Response(body=whole, headers=headers)
        start, end = int(found[1]), min(int(found[2] or len(whole) - 1), len(whole) - 1)
        if start >= len(whole):
            return web.Response(status=416)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(whole)}"
        return web.Response(status=206, body=whole[start : end + 1], headers=headers)


class Azure(Cloud):
    """Azure's blobs: every request is signed with the account's key or a shared access signature."""

    exists_status = 409

    def is_create(self, headers: Mapping[str, str]) -> bool:
        return headers.get("If-None-Match") == "*"

    def listing(self, request: web.Request) -> web.Response:
        query = request.query
        keys, more = self.page(request, query.get("marker", query.get("startFrom", "")))
        found = ""
        for key in keys:
            path = f"{request.path.rstrip('/')}/{key}"
            found += (
                f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>{_CHANGED}</Last-Modified>"
                f"<Etag>{escape(self.version(path)['ETag'])}</Etag>"
                f"<Content-Length>{len(self.objects[path])}</Content-Length>"
                "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            )
        marker = escape(keys[-1]) if more else ""
        return _xml(
            f"<EnumerationResults><Blobs>{found}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
        )

    def deletion(self, body: str) -> web.Response:
        """Blob Batch: each part of the body deletes one blob, and has an answer of its own."""
        answers = ""
        for number, path in enumerate(re.findall(r"^DELETE (/[^? ]+)", body, re.MULTILINE)):
            status = "404 Not Found" if self.objects.pop(unquote(path), None) is None else "202 Accepted"
            head = f"--answers\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
            answers += f"{head}HTTP/1.1 {status}\r\nx-ms-version: 2023-11-03\r\n\r\n"
        kind = {"Content-Type": "multipart/mixed; boundary=answers"}
        return web.Response(status=202, body=f"{answers}--answers--".encode(), headers=kind)

    def allowed(self, request: web.Request) -> bool:
        if request.query.get("sig"):
            return request.query["sig"] == "right"
        _, _, given = request.headers.get("Authorization", "").partition(f"SharedKey {ACCOUNT}:")
        return bool(given) and hmac.compare_digest(given, self.signature(request))

    def signature(self, request: web.Request) -> str:
        """The string to sign of the service's own description, for a path-style endpoint."""
        names = ("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type")
        values = [request.headers.get(name, "") for name in names]
        values[2] = "" if values[2] == "0" else values[2]
        more = ("Date", "If-Modified-Since", "If-Match")
        values += [request.headers.get(name, "") for name in more]
        values += [
            request.headers.get(name, "") for name in ("If-None-Match", "If-Unmodified-Since", "Range")
        ]
        ms = sorted(
            (name.lower(), value)
            for name, value in request.headers.items()
            if name.lower().startswith("x-ms-")
        )
        lines = [request.method, *values, *(f"{name}:{value.strip()}" for name, value in ms)]
        lines.append(f"/{ACCOUNT}{URL(str(request.rel_url)).raw_path}")
        lines += [f"{name}:{value}" for name, value in sorted(request.query.items())]
        mac = hmac.new(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256)
        return base64.b64encode(mac.digest()).decode()


def _xml(text: str) -> web.Response:
    return web.Response(text=f'<?xml version="1.0" encoding="utf-8"?>{text}', content_type="application/xml")
