"""The callers of a chaos run, and the account of what they got.

A caller repeats what was not answered, with the same Idempotency-Key, as the documentation tells it to. After each
wave of faults every document must be complete, with each page once and in order, and every queue must be empty.
"""

from __future__ import annotations

import base64
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.waiting import DEADLINE_S

_AGAIN_S = 0.3
_CALL_S = 60.0
_ACCEPTED_S = 10.0
_BOUNDARY = "part-of-the-chaos"
_OVER = ("completed", "failed", "cancelled")


@dataclass
class Work:
    """One document or image of a caller, and every answer that was given for it."""

    kind: str  # local, ai, vault or parse
    number: int
    pages: int
    ids: set[str] = field(default_factory=set)
    repeats: int = 0
    answers: set[str] = field(default_factory=set)
    problem: str = ""


@dataclass
class Account:
    documents: int = 0
    pages: int = 0
    images: int = 0
    repeated_calls: int = 0
    fallbacks: int = 0
    lost: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        kinds = {"lost": self.lost, "stuck": self.stuck, "doubled": self.doubled}
        kinds |= {"answered twice": self.twice, "wrong": self.wrong}
        return [f"{name}: {text}" for name, texts in kinds.items() for text in texts]


class ServedFleet(Protocol):
    """What callers need of a fleet."""

    @property
    def url(self) -> str:
        """Where it serves now."""
        ...

    def ask(self, *args: str) -> bytes:
        """The raw reply of its Redis."""
        ...


class Callers:
    """Hands in work in the background and checks it."""

    def __init__(self, fleet: ServedFleet, folder: Path, chance: random.Random, key: str = "") -> None:
        self._fleet = fleet
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._folder = folder
        self._chance = chance
        self._pool = ThreadPoolExecutor(8, "caller")
        self._open: list[tuple[Work, Future[None]]] = []
        self._number = 0
        self.account = Account()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def hand_in(self, count: int = 2) -> None:
        """Pieces of work, chosen by the seed."""
        for kind in self._chance.choices(("local", "ai", "vault", "parse"), (4, 3, 2, 3), k=count):
            self._number += 1
            pages = {"local": self._chance.choice((1, 3, 9, 20)), "ai": 2, "vault": 2, "parse": 1}[kind]
            self._start(Work(kind, self._number, pages))

    def hand_in_for_vault(self, count: int) -> None:
        """Documents of the vault. Returns when they are accepted, or when that takes long."""
        works = [Work("vault", self._number + nth, 2) for nth in range(1, count + 1)]
        self._number += count
        wait([self._start(work) for work in works], timeout=_ACCEPTED_S)

    def _start(self, work: Work) -> Future[None]:
        submitted = self._pool.submit(self._submit, work)
        self._open.append((work, submitted))
        return submitted

    def settle(self) -> None:
        """Waits until all work has ended, and checks it."""
        for work, submitted in self._open:
            submitted.result()
            if work.problem:
                self.account.wrong.append(f"{work.kind} {work.number}: {work.problem}")
            elif work.kind == "parse":
                self.account.images += 1
            elif work.kind == "vault":
                self._check_vault(work)
            else:
                self._check_document(work)
            self.account.repeated_calls += work.repeats
            if len(work.ids) > 1 or len(work.answers) > 1:
                self.account.twice.append(f"{work.kind} {work.number} has {len(work.ids)} ids")
        self._open.clear()
        self._check_queues()

    # Calls

    def _submit(self, work: Work) -> None:
        calls = {"vault": self._post_document, "parse": self._post_image}
        call = calls.get(work.kind, self._post_convert)
        deadline = time.monotonic() + 2 * DEADLINE_S
        while time.monotonic() < deadline:
            try:
                call(work)
                return
            except urllib.error.HTTPError as error:
                text = error.read().decode(errors="replace")[:200]
                if error.code < 500 and error.code not in (408, 409, 429):
                    work.problem = f"HTTP {error.code}: {text}"
                    return
            except (OSError, HTTPException, ValueError):
                pass  # the service went away before or while it answered
            work.repeats += 1
            time.sleep(_AGAIN_S)
        work.problem = "never accepted"

    def _post_convert(self, work: Work) -> None:
        mode = "ai" if work.kind == "ai" else "local"
        answer = self._post("/convert", *self._form(work, mode=mode), work)
        work.ids.add(str(answer["job_id"]))

    def _post_document(self, work: Work) -> None:
        answer = self._post("/documents", *self._form(work), work)
        work.ids.add(str(answer["documents"][0]["document_id"]))

    def _post_image(self, work: Work) -> None:
        from PIL import Image

        picture = BytesIO()
        Image.new("RGB", (8, 8), (work.number % 251, work.number // 251 % 251, 7)).save(picture, "PNG")
        body = {
            "image_data": base64.b64encode(picture.getvalue()).decode(),
            "filename": f"{work.number}.png",
        }
        answer = self._post("/parse", json.dumps(body).encode(), "application/json", work)
        work.ids.add(str(answer["request_id"]))
        work.answers.add(json.dumps(answer["results"], sort_keys=True))

    def _form(self, work: Work, **fields: str) -> tuple[bytes, str]:
        path = self._folder / f"{work.number}.pdf"
        if not path.exists():
            marked_pdf(path, work.pages, work.number)
        part = f"--{_BOUNDARY}\r\nContent-Disposition: form-data; name="
        head = "".join(f'{part}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items())
        head += f'{part}"file"; filename="{path.name}"\r\n\r\n'
        body = head.encode() + path.read_bytes() + f"\r\n--{_BOUNDARY}--\r\n".encode()
        return body, f"multipart/form-data; boundary={_BOUNDARY}"

    def _post(self, path: str, body: bytes, content_type: str, work: Work) -> dict[str, Any]:
        headers = {**self._headers, "Content-Type": content_type, "Idempotency-Key": f"chaos-{work.number}"}
        request = urllib.request.Request(f"{self._fleet.url}{path}", body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=_CALL_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def _get(self, path: str) -> Any:
        """The answer; None for 404. Repeats what fails otherwise."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                request = urllib.request.Request(f"{self._fleet.url}{path}", headers=self._headers)
                with urllib.request.urlopen(request, timeout=_CALL_S) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                if time.monotonic() > deadline:
                    raise
            except (OSError, HTTPException):
                if time.monotonic() > deadline:
                    raise
            time.sleep(_AGAIN_S)

    # Checks

    def _ended(self, work: Work, ask_status: Callable[[], Any]) -> Any:
        """The record when it has ended; None, noted in the account, if it is lost or stuck."""
        deadline = time.monotonic() + DEADLINE_S
        absent = 0
        while time.monotonic() < deadline:
            found = ask_status()
            absent = absent + 1 if found is None else 0
            if found is not None and found["status"] in _OVER:
                return found
            if absent * _AGAIN_S > 30:
                self.account.lost.append(f"{work.kind} {work.number} ({', '.join(work.ids)}) is unknown")
                return None
            time.sleep(_AGAIN_S)
        self.account.stuck.append(f"{work.kind} {work.number} ({', '.join(work.ids)}): {str(found)[:300]}")
        return None

    def _check_document(self, work: Work) -> None:
        [job_id, *_] = work.ids
        job = self._ended(work, lambda: self._get(f"/jobs/{job_id}"))
        if job is None:
            return
        if job["status"] != "completed" or job["pages_failed"]:
            self.account.wrong.append(f"{work.kind} {work.number} ended as {str(job)[:400]}")
            return
        result = self._get(f"/jobs/{job_id}/result")
        if result is None:
            self.account.lost.append(f"the result of {job_id}")
            return
        expected = [marker(work.number, page) for page in range(1, work.pages + 1)]
        found = markers_in(result["result"]["markdown"])
        if set(expected) - set(found):
            self.account.lost.append(f"{len(set(expected) - set(found))} pages of {job_id}")
        elif len(found) > len(set(found)):
            self.account.doubled.append(f"pages of {job_id}")
        elif found != expected:
            self.account.wrong.append(f"the order of pages of {job_id}")
        self.account.documents += 1
        self.account.pages += work.pages
        if work.kind == "ai":
            pages = self._get(f"/jobs/{job_id}/pages") or {}
            sources = [
                one["source"] for one in (pages.get("pages", []) if isinstance(pages, dict) else pages)
            ]
            self.account.fallbacks += sum("fallback" in str(one) for one in sources)

    def _check_vault(self, work: Work) -> None:
        [document_id, *_] = work.ids
        found = self._ended(work, lambda: self._get(f"/documents/{document_id}"))
        if found is None:
            return
        if found["status"] != "completed":
            self.account.wrong.append(f"vault {work.number} ended as {str(found)[:400]}")
        self.account.documents += 1
        self.account.pages += work.pages

    def _check_queues(self) -> None:
        """Every queue becomes empty; what stays is stuck."""
        deadline = time.monotonic() + DEADLINE_S / 2
        while True:
            queues = self._depths()
            if not any(queues.values()):
                return
            if time.monotonic() > deadline:
                self.account.stuck.append(f"queues: { {k: v for k, v in queues.items() if v} }")
                return
            time.sleep(_AGAIN_S)

    def _depths(self) -> dict[str, int]:
        from quire.coordination import keys
        from quire.coordination.keys import QUEUES

        names = [(stream, "XLEN") for queue in QUEUES.values() for stream in queue.streams]
        names += [(queue.delayed, "ZCARD") for queue in QUEUES.values()]
        names += [(keys.ACTIVE, "ZCARD"), (keys.PARSE_QUEUE, "ZCARD"), (keys.PARSE_BATCHES, "HLEN")]
        return {name: int(self._fleet.ask(command, name).strip()[1:]) for name, command in names}
