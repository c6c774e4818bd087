"""How long a document takes while every AI provider is down: `python bench/outage.py [--mode both|vault]`.

`default` and `strict` (`JOB_MAX_ATTEMPTS=1`): a 6-page mixed PDF (text, pictures, scans) goes through a real service in
each kind of outage. "Own text": `GET /jobs/{id}/result?partial=1` has the text of every page that has text of its own.
"Usable": it has the text of all pages, scans by OCR. "Completed": the final result is there (with `--usable` the
document is cancelled as soon as it is usable). "Next" is a second document that arrives while all breakers are open.
The time of local reading (no AI) is measured first. Outages that only wait run beside the others.

`vault`: a text goes into the vault during the outage. "Usable" is its completion without a title. After a minute the
outage ends; "classified" is the time from then until the document has a title, by itself.

`photos`: a photo of a text goes into the vault, and another one after it. "Usable" is its completion with its OCR text;
the first one also pays for loading OCR and the catalog.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pymupdf

from measuring import PYTHON, ROOT, Service, scratch, service, table
from quire.simulator.simulator_thread import simulator

OUTAGES: dict[str, dict[str, object] | None] = {
    "refused": None,
    "reset": {"fault": "reset"},
    "hang": {"fault": "hang"},
    "429": {"fault": "rate_limit", "retry_after_s": 20},
    "500": {"fault": "server_error"},
    "529": {"fault": "overloaded"},
    "401": {"fault": "auth"},
    "quota": {"fault": "quota"},
    "empty": {"fault": "empty"},
    "refusal": {"fault": "refusal"},
    "garbage": {"fault": "bad_json"},
}
_OWN_TEXT_PAGES, _PAGES = 4, 6
_OUTAGE_S = 60.0
_AT_ONCE = 3
_LONGEST_S = 300.0
_WAITING = ("hang",)
"""Outages whose documents take minutes and no processor time."""


def mixed_pdf(folder: Path, mark: str) -> Path:
    """Two pages of text, two with pictures, two scans. `mark` makes the content unique."""
    path = folder / f"mixed-{mark}.pdf"
    made = pymupdf.open()
    for name in ("text.pdf", "pictures.pdf", "scan.pdf"):
        with pymupdf.open(ROOT / "samples" / name) as source:
            for number in (0, 1):
                made.insert_pdf(
                    source, from_page=min(number, len(source) - 1), to_page=min(number, len(source) - 1)
                )
    made[0].insert_text((72, 40), f"Mark {mark}")
    made.save(path)
    return path


@contextmanager
def address_of(rule: dict[str, object] | None) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of a provider that is down, and what ends the outage."""
    if rule is None:
        with socket.socket() as taken:  # bound and not listening: connections are refused
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            started: list[subprocess.Popen[bytes]] = []

            def end() -> None:
                taken.close()
                command = [PYTHON, "-m", "quire", "simulate", "--port", str(port)]
                started.append(
                    subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                )

            try:
                yield f"http://127.0.0.1:{port}", end
            finally:
                for one in started:
                    one.terminate()
                    one.wait(30)
        return
    with simulator({"rules": [rule]}) as sim:
        yield sim.url, lambda: sim.play({})


def settings_for(url: str) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "sk-bench",
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_API_KEY": "sk-bench",
        "ANTHROPIC_BASE_URL": url,
    }


def partial(one: Service, job_id: str) -> dict | None:
    try:
        return one.get(f"/jobs/{job_id}/result?partial=1")["result"]
    except (urllib.error.HTTPError, http.client.HTTPException):
        return None


def run(one: Service, path: Path, *, to_the_end: bool = True) -> tuple[str, dict]:
    """Seconds until the document's own text is there, until it is usable, until it is completed; its metadata."""
    began = time.monotonic()
    job_id = one.upload(path, "")["job_id"]
    own = usable = 0.0
    while True:
        if not usable and (found := partial(one, job_id)):
            pages = found["markdown"].split("\n\n---\n\n")
            read = len(pages) - sum("has not been read yet" in page for page in pages)
            if read >= _OWN_TEXT_PAGES:
                own = own or time.monotonic() - began
            if read >= _PAGES:
                usable = time.monotonic() - began
                if not to_the_end:
                    urllib.request.urlopen(f"{one.url}/jobs/{job_id}/cancel", b"", timeout=60).close()
                    return f"{own:.1f}, {usable:.1f}, -", {"sources": {}}
        job = one.get(f"/jobs/{job_id}")
        if job["status"] in ("completed", "failed", "cancelled"):
            done = time.monotonic() - began
            assert job["status"] == "completed", job
            times = (own or done, usable or done, done)
            return ", ".join(f"{seconds:.1f}" for seconds in times), job["metadata"]
        time.sleep(0.05)


def measure(name: str, rule: dict[str, object] | None, strict: bool, to_the_end: bool) -> list[str]:
    with scratch() as folder, address_of(rule) as (url, _end):
        settings = {**settings_for(url), **({"JOB_MAX_ATTEMPTS": "1"} if strict else {})}
        with service(folder, **settings) as one:
            # The readers and the SDKs load after the start; a document is measured on a service that runs.
            one.wait_for(one.upload(mixed_pdf(folder, "warm"), "", mode="local")["job_id"])
            time.sleep(5)
            first, metadata = run(one, mixed_pdf(folder, "first"), to_the_end=to_the_end)
            second, _ = run(one, mixed_pdf(folder, "second"), to_the_end=to_the_end)
        sources = ", ".join(f"{count} {source}" for source, count in sorted(metadata["sources"].items()))
        row = [name, "strict" if strict else "default", first, second, sources]
        print(json.dumps(row), file=sys.stderr, flush=True)
        return row


def local_seconds() -> str:
    with scratch() as folder, service(folder) as one:
        one.wait_for(one.upload(mixed_pdf(folder, "warm"), "")["job_id"])
        return run(one, mixed_pdf(folder, "local"))[0].rpartition(" ")[2]


def measure_vault(name: str, rule: dict[str, object] | None) -> list[str]:
    """Seconds until a text is usable, and from the end of the outage until it is classified."""
    with scratch() as folder, address_of(rule) as (url, end), service(folder, **settings_for(url)) as one:
        one.wait_for(one.upload(ROOT / "samples" / "text.pdf", "")["job_id"])
        began = time.monotonic()
        place = f"/documents/{keep_text(one, name)}"

        def seconds_until(titled: bool, began: float) -> float:
            while time.monotonic() - began < _LONGEST_S:
                found = one.get(place)
                if found["status"] == "completed" and (found["title"] or not titled):
                    return time.monotonic() - began
                time.sleep(0.05)
            raise TimeoutError(f"{name}: {found}")

        usable = seconds_until(False, began)
        time.sleep(max(0.0, _OUTAGE_S - usable))
        assert not one.get(place)["title"], "the outage did not reach the classification"
        end()
        classified = seconds_until(True, time.monotonic())
        row = [name, f"{usable:.1f}", f"{classified:.1f}"]
        print(json.dumps(row), file=sys.stderr, flush=True)
        return row


def keep_text(one: Service, name: str) -> str:
    """Uploads a text to the vault; returns the document's id."""
    text = f"# Delivery of the turbines\n\nHamburg, 2026-02-11. During {name} the turbines leave on Monday.\n"
    body = (
        f'--b\r\nContent-Disposition: form-data; name="file"; filename="letter.md"\r\n\r\n{text}\r\n--b--\r\n'
    )
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    request = urllib.request.Request(f"{one.url}/documents", body.encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["documents"][0]["document_id"]


def show_vault(names: list[str]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        rows = list(threads.map(lambda name: measure_vault(name, OUTAGES[name]), names))
    head = ["outage", "usable s", "classified s after the outage"]
    table(f"A text in the vault, {_OUTAGE_S:.0f} s of outage, {_AT_ONCE} services at once", head, rows)


def show_pages(names: list[str], modes: list[str], *, to_the_end: bool) -> None:
    local = local_seconds()
    wanted = [(name, mode) for mode in modes for name in names]

    def one(key: tuple[str, str]) -> list[str]:
        return measure(key[0], OUTAGES[key[0]], key[1] == "strict", to_the_end)

    with ThreadPoolExecutor() as threads:
        waiting = {key: threads.submit(one, key) for key in wanted if key[0] in _WAITING}
        rows = {key: one(key) for key in wanted if key not in waiting}
        rows |= {key: found.result() for key, found in waiting.items()}
    times = "own text, usable, completed (s)"
    head = ["outage", "mode", times, f"next: {times}", "pages by source"]
    table(f"Every provider down (local reading alone: {local} s)", head, [rows[key] for key in wanted])


def photo(folder: Path, mark: int) -> Path:
    path = folder / f"photo-{mark}.png"
    with pymupdf.open(ROOT / "samples" / "photo-of-text.png") as opened:
        drawn = opened[0].get_pixmap(matrix=pymupdf.Matrix(1, 1))
    drawn.set_pixel(0, 0, (mark, mark, mark))
    drawn.save(path)
    return path


def photo_usable_s(one: Service, path: Path) -> float:
    """Seconds until a photo in the vault is completed and its text can be read."""
    began = time.monotonic()
    document_id = one.upload(path, "", "/documents")["documents"][0]["document_id"]
    while (found := one.get(f"/documents/{document_id}"))["status"] == "pending":
        time.sleep(0.05)
    assert found["status"] == "completed", found
    with urllib.request.urlopen(f"{one.url}/documents/{document_id}/content") as answer:
        assert len(answer.read()) > 20, "the photo has no text"
    return time.monotonic() - began


def show_photos(names: list[str]) -> None:
    rows = []
    for name in names:
        with (
            scratch() as folder,
            address_of(OUTAGES[name]) as (url, _end),
            service(folder, **settings_for(url)) as one,
        ):
            rows.append([name, *(f"{photo_usable_s(one, photo(folder, mark)):.1f}" for mark in (1, 2))])
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    table(
        "A photo in the vault with every provider down: seconds until usable",
        ["outage", "first", "next"],
        rows,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(OUTAGES))
    parser.add_argument("--mode", choices=("default", "strict", "both", "vault", "photos"), default="both")
    parser.add_argument("--usable", action="store_true")
    args = parser.parse_args()
    names = args.only.split(",")
    if args.mode == "vault":
        show_vault(names)
    elif args.mode == "photos":
        show_photos(names)
    else:
        modes = ["default", "strict"] if args.mode == "both" else [args.mode]
        show_pages(names, modes, to_the_end=not args.usable)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
