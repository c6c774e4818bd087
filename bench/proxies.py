"""The proxy examples of deploy/proxies, each in front of a running `quire serve`.

Only the example's ports and certificates are exchanged. For each proxy that is installed (NGINX, CADDY and TRAEFIK name
its program) this checks: an upload of 20 MB, a server-sent event that arrives while its stream is open, and limits by
the client's forwarded address. Everything listens on 127.0.0.1.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pymupdf

from measuring import ROOT, scratch, service, table

EXAMPLES = ROOT / "deploy" / "proxies"
NAME = "quire.example.org"
KEY = "a-key-of-the-bench-0123456789"  # what comes through a proxy needs one
LIMIT = 1  # a minute, so that a slow machine does not earn the next request in the meantime
WAIT_S = 60.0


@dataclass(frozen=True)
class Place:
    folder: Path
    upstream: int
    front: int
    certificate: Path
    key: Path


def _exchange(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        if old not in text:
            raise SystemExit(f"The example no longer has {old!r}.")
        text = text.replace(old, new)
    return text


def nginx(place: Place, program: str) -> list[str]:
    site = _exchange(
        (EXAMPLES / "nginx.conf").read_text(),
        ("server 127.0.0.1:8080;", f"server 127.0.0.1:{place.upstream};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{place.front} ssl;"),
        ("/etc/ssl/quire/fullchain.pem", str(place.certificate)),
        ("/etc/ssl/quire/privkey.pem", str(place.key)),
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = " ".join(f"{kind}_temp_path {place.folder}/{kind};" for kind in kinds)
    head = f"daemon off; pid {place.folder}/pid; error_log {place.folder}/log warn; events {{}}"
    whole = f"{head} http {{ access_log off; {folders}\n{site}\n}}"
    (place.folder / "nginx.conf").write_text(whole)
    return [program, "-c", str(place.folder / "nginx.conf"), "-p", str(place.folder)]


def caddy(place: Place, program: str) -> list[str]:
    site = _exchange(
        (EXAMPLES / "Caddyfile").read_text(),
        (
            f"{NAME} {{",
            f"https://{NAME}:{place.front} {{\n\tbind 127.0.0.1\n\ttls {place.certificate} {place.key}",
        ),
        ("127.0.0.1:8080", f"127.0.0.1:{place.upstream}"),
    )
    options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tpersist_config off\n}\n"
    (place.folder / "Caddyfile").write_text(options + site)
    return [program, "run", "--config", str(place.folder / "Caddyfile"), "--adapter", "caddyfile"]


def traefik(place: Place, program: str) -> list[str]:
    rules = _exchange(
        (EXAMPLES / "traefik.yaml").read_text(),
        ("tls:\n        certResolver: letsencrypt", "tls: {}"),
        ("http://127.0.0.1:8080", f"http://127.0.0.1:{place.upstream}"),
    )
    (place.folder / "rules.yaml").write_text(rules)
    entry = "--entryPoints.websecure"
    return [
        program,
        f"{entry}.address=127.0.0.1:{place.front}",
        f"{entry}.transport.respondingTimeouts.readTimeout=20m",
        f"{entry}.transport.respondingTimeouts.idleTimeout=20m",
        f"--providers.file.filename={place.folder}/rules.yaml",
        "--global.checkNewVersion=false",
        "--global.sendAnonymousUsage=false",
    ]


PROXIES: dict[str, Callable[[Place, str], list[str]]] = {"nginx": nginx, "caddy": caddy, "traefik": traefik}


class Caller:
    """Requests over TLS to one proxy, from an address of the loopback network."""

    def __init__(self, port: int, address: str) -> None:
        self._port = port
        self._address = address

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> http.client.HTTPResponse:
        plain = socket.create_connection(("127.0.0.1", self._port), WAIT_S, (self._address, 0))
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPConnection(NAME)
        connection.sock = context.wrap_socket(plain, server_hostname=NAME)
        headers = {"Authorization": f"Bearer {KEY}"} | ({"Content-Type": kind} if kind else {})
        connection.request(method, path, body or None, headers)
        return connection.getresponse()

    def upload(self, path: str, name: str, content: bytes) -> http.client.HTTPResponse:
        head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        return self.ask(
            "POST", path, head.encode() + content + b"\r\n--edge--\r\n", "multipart/form-data; boundary=edge"
        )


def _document(text: str, filler_bytes: int = 0) -> bytes:
    with pymupdf.open() as document:
        document.new_page().insert_text((72, 72), text)
        if filler_bytes:
            document.embfile_add("filler", os.urandom(filler_bytes))
        return bytes(document.tobytes())


def check_upload(port: int) -> str:
    content = _document("Uploaded through a proxy", 20 << 20)
    began = time.monotonic()
    answer = Caller(port, "127.0.0.1").upload("/convert?wait=60", "large.pdf", content)
    found = json.load(answer)
    right = answer.status == 200 and "through a proxy" in json.dumps(found)
    return (
        f"{len(content) >> 20} MB in {time.monotonic() - began:.1f} s"
        if right
        else f"FAILED: {answer.status}"
    )


def check_events(port: int) -> str:
    """A proxy that buffers would deliver nothing, because the stream stays open."""
    stream = Caller(port, "127.0.0.1").ask("GET", "/documents/events")
    if b"hello" not in _event(stream):
        return f"FAILED: {stream.status}"
    began = time.monotonic()
    Caller(port, "127.0.0.1").upload("/documents", f"{port}.pdf", _document(f"Events {port}")).read()
    found = _event(stream)
    return (
        f"{1000 * (time.monotonic() - began):.0f} ms after the upload began" if found else "FAILED: no event"
    )


def _event(stream: http.client.HTTPResponse) -> bytes:
    lines = b""
    while line := stream.readline():
        if line.strip():
            lines += line
        elif b"event:" in lines:
            break
    return lines


def check_address(port: int) -> str:
    """Each client has its own limit: one that is refused does not make another one refused."""
    picture = pymupdf.Pixmap(pymupdf.csRGB, (0, 0, 40, 40), False)
    picture.clear_with(255)
    body = picture.tobytes("png")
    seen = {}
    for address in ("127.0.0.2", "127.0.0.3"):
        caller = Caller(port, address)
        with ThreadPoolExecutor(LIMIT + 1) as threads:
            sent = [threads.submit(caller.ask, "POST", "/parse", body, "image/png") for _ in range(LIMIT + 1)]
        seen[address] = sorted(one.result().status for one in sent)
    right = [200] * LIMIT + [429]
    return (
        f"each client has its own limit: {right}"
        if all(one == right for one in seen.values())
        else f"FAILED: {seen}"
    )


def measure(name: str, program: str, upstream: int, stack: ExitStack) -> list[str]:
    folder = stack.enter_context(scratch())
    front = _free_port()
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME} -addext subjectAltName=DNS:{NAME}"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made.split(), *files], check=True, stderr=subprocess.DEVNULL)
    command = PROXIES[name](Place(folder, upstream, front, certificate, key), program)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    log = stack.enter_context((folder / "output").open("wb"))
    process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log)
    stack.callback(_end, process)
    _wait_for(front, process, folder / "output")
    return [name, check_upload(front), check_events(front), check_address(front)]


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Returns once Quire answers through the proxy."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if Caller(port, "127.0.0.1").ask("GET", "/health/ready").status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{process.args[0]} does not serve:\n{log.read_text()[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    rows: list[list[str]] = []
    for name in PROXIES:
        program = os.environ.get(name.upper()) or shutil.which(name)
        if program is None:
            rows.append([name, "not installed", "", ""])
            continue
        settings = {"TRUSTED_PROXIES": "127.0.0.1", "RATE_LIMIT_PER_CLIENT": str(LIMIT), "API_KEYS": KEY}
        with ExitStack() as stack:
            running = stack.enter_context(service(stack.enter_context(scratch()), **settings))
            upstream = int(running.url.rsplit(":", 1)[1])
            rows.append(measure(name, program, upstream, stack))
    table("The examples of deploy/proxies", ["proxy", "upload", "first event", "forwarded address"], rows)
    if any("FAILED" in cell for row in rows for cell in row):
        sys.exit(1)


if __name__ == "__main__":
    main()
