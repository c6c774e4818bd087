"""A small external dispatcher, written from docs/protocol.md alone: it imports nothing of Quire.

Arguments: the URL of Redis, the URL of the service, the token. It reports a page with an even number as failed, and any
other with the size of its document as its text. For each entry it prints one line of JSON. It ends with its input."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import redis

NAME = "stand-in-1"
STREAMS = ("{jobs:ai:pages}:high", "jobs:ai:pages", "{jobs:ai:pages}:low")
GROUP = "workers:images"


def fetch(content_ref: str) -> tuple[bytes, int]:
    """The document's bytes and the page in the fragment; only files of this machine."""
    url, fragment = urllib.parse.urldefrag(content_ref)
    with urllib.request.urlopen(url) as answer:
        return answer.read(), int(fragment.removeprefix("page="))


def post(service: str, token: str, what: str, query: dict[str, str], body: Any) -> dict[str, Any]:
    """Repeats the report while the service asks for that."""
    url = f"{service}/internal/{what}?{urllib.parse.urlencode(query)}"
    headers = {"X-Internal-Token": token, "Content-Type": "application/json"}
    while True:
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return {"status": answer.status, **json.load(answer)}
        except urllib.error.HTTPError as error:
            if error.code not in (409, 503):
                return {"status": error.code}
            ended.wait(float(error.headers.get("Retry-After", 1)))


def work(server: redis.Redis, stream: str, entry_id: str, entry: dict[str, str]) -> None:
    content, page = fetch(entry["content_ref"])
    query = {name: entry[name] for name in ("job_id", "page_id", "epoch")}
    if page % 2:
        engine = json.loads(entry["engine_pref"])["primary"]
        text = f"page {page} of {len(content)} bytes, attempt {entry['attempt']}"
        body = {"text": text, "provider": engine, "model": entry["model_hint"], "tokens_used": 7}
        answer = post(service, token, "page_done", query, body)
    else:
        answer = post(service, token, "page_failed", query, None)
    server.xack(stream, GROUP, entry_id)
    server.xdel(stream, entry_id)
    print(json.dumps({"entry": entry, "answer": answer}), flush=True)  # noqa: T201


def beat(server: redis.Redis) -> None:
    while not ended.is_set():
        server.set(f"worker:{NAME}", 1, px=15_000)
        ready.set()
        ended.wait(5)


def main() -> None:
    server = redis.Redis.from_url(redis_url, decode_responses=True)
    threading.Thread(target=beat, args=(server,), daemon=True).start()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    ready.wait()
    in_work: set[str] = set()
    while not ended.is_set():
        found = server.xreadgroup(GROUP, NAME, dict.fromkeys(STREAMS, ">"), count=1, block=200)
        # Newer clients answer a mapping, older ones a list of pairs.
        pairs = found.items() if isinstance(found, dict) else found
        for stream, entries in pairs or ():
            for entry_id, entry in entries[0] if entries and isinstance(entries[0], list) else entries:
                if entry["idempotency_key"] not in in_work:
                    in_work.add(entry["idempotency_key"])
                    work(server, stream, entry_id, entry)


if __name__ == "__main__":
    redis_url, service, token = sys.argv[1:]
    ended, ready = threading.Event(), threading.Event()
    main()
