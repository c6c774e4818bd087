"""Fuzzing: our own parsers with mutated documents (hypothesis), the whole API with generated requests (schemathesis).

    .venv/bin/python bench/fuzz.py [--seconds 600] [--only parsers|api] [--schemathesis PROGRAM]

A parser may raise a QuireError and nothing else. The API may answer anything that its description lists, and never 5xx
but 503. schemathesis is no dependency of Quire: `make fuzz` installs it into `.venv-fuzz`.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from measuring import scratch, service

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from quire.api.parse.door_connection import read_head
from quire.batching.longjson import LongJson, read_complete
from quire.coordination.append_only_repair import valid_length
from quire.errors import QuireError
from quire.reading.files.document_source import inspect
from quire.reading.files.file_kinds import sniff
from quire.reading.files.page_chunks import read_chunk
from quire.reading.pdf.page_reader import ReadOptions

_MOST_PAGES = 1 << 30
_EXAMPLES = 40


# ---- documents -------------------------------------------------------------------------------------------------


def seeds() -> dict[str, bytes]:
    from tests.support.office_files import cells, docx, epub, mail, p, png, pptx, shape, word_table, xlsx

    return {
        "docx": docx(p("Title", "Heading1") + p("Words.") + word_table([["a", "b"], ["1", "2"]])),
        "xlsx": xlsx({"One": cells("a", 1, 2.5) + cells("b", 3)}),
        "pptx": pptx([shape("Title", "title") + shape("Words")]),
        "epub": epub(["<h1>One</h1><p>Words</p>", "<p>More</p>"], more={"OEBPS/img/a.png": png()}),
        "eml": mail("Hello", html="<p>Hello</p>", files={"a.csv": b"a,b\n1,2\n"}, Subject="x").as_bytes(),
        "html": b"<html><body><h1>A</h1><table><tr><td>1<td>2</table><ul><li>x<li>y</ul></body></html>",
        "csv": b"a;b;c\n1;2;3\n4;5;6\n",
        "md": b"# A\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    }


@st.composite
def mutations(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few changes: bytes replaced, removed, repeated, or marked-up nonsense put in."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(changed)))
        length = draw(st.integers(0, 40))
        kind = draw(st.integers(0, 4))
        piece = bytes(changed[at : at + length])
        new = (
            draw(st.binary(max_size=20)),
            b"",
            piece * draw(st.integers(2, 50)),
            draw(st.sampled_from(NONSENSE)),
            bytes(len(piece)),
        )[kind]
        changed[at : at + (0 if kind == 3 else length)] = new
    return bytes(changed)


NONSENSE = (
    *(b"<w:tbl>", b"</w:p>", b"<a", b"&x;", b"<![CDATA[", b"--b\r\n", b"=?utf-8?q?=ff?=", b"\xff\xfe", b"\0"),
    *(b'r="99999999999"', b"&#0;", b"]]>", b"<!DOCTYPE x [", b"<tr><td colspan=99999>", b"9" * 400, b"-1"),
)


@st.composite
def archives(draw: st.DrawFn, content: bytes) -> bytes:
    """An archive with one of its members changed, or its bytes themselves."""
    if draw(st.integers(0, 9)) == 0:
        return draw(mutations(content))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given_archive:
        names = given_archive.namelist()
        chosen = draw(st.sampled_from(names))
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
            for name in names:
                member = given_archive.read(name)
                made.writestr(name, draw(mutations(member)) if name == chosen else member)
    return out.getvalue()


def read_document(content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=_FOLDER) as file:
        file.write(content)
        file.flush()
        try:
            info = inspect(file.name, None, _MOST_PAGES)
            read_chunk(file.name, None, tuple(range(1, min(info.page_count, 4) + 1)), ReadOptions(), False)
        except QuireError:
            pass


_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112 - private names inside


# ---- protocols -------------------------------------------------------------------------------------------------

HEAD = b"POST /parse?a=b HTTP/1.1\r\nHost: h\r\nContent-Type: image/png\r\nContent-Length: 5\r\nX-A: b\r\n\r\n12345"
JSON = b'{"filename": "a.png", "image_data": "aGVsbG8gd29ybGQ=", "priority": "high"}'
LOG = (
    b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
    b"*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n"
)


def check_head(data: bytes) -> None:
    head = read_head(data, 1000)
    if head is not None:
        assert data.startswith(head.raw)
        assert 0 < head.body_bytes <= 1000


def check_json(data: bytes) -> None:
    """In pieces, the same comes out as from the whole."""
    outcomes: list[object] = []
    for whole in (True, False):
        try:
            if whole:
                fields, image = read_complete(bytearray(data), "image_data")
            else:
                reader = LongJson("image_data")
                image = b"".join(reader.feed(data[at : at + 7]) for at in range(0, len(data), 7))
                fields, rest = reader.end()
                image += rest
            outcomes.append((fields, bytes(image)))
        except QuireError:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]


def check_log(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=_FOLDER) as file:
        file.write(data)
        file.flush()
        length = valid_length(Path(file.name))
        assert 0 <= length <= len(data)
        file.truncate(length)
        file.flush()
        assert valid_length(Path(file.name)) == length


def targets() -> dict[str, tuple[st.SearchStrategy[bytes], Callable[[bytes], object]]]:
    found: dict[str, tuple[st.SearchStrategy[bytes], Callable[[bytes], object]]] = {
        "heads": (mutations(HEAD), check_head),
        "longjson": (mutations(JSON), check_json),
        "queue file": (mutations(LOG), check_log),
        "file kinds": (st.one_of(st.binary(max_size=300), mutations(HEAD)), sniff),
    }
    for name, content in seeds().items():
        made = archives(content) if content.startswith(b"PK") else mutations(content)
        found[name] = (made, read_document)
    return found


def fuzz_parsers(seconds: float) -> int:
    """Runs every target in turn until the time is over; answers how many failed."""
    ends, turn, failed = time.monotonic() + seconds, 0, 0
    runs: Counter[str] = Counter()
    all_of_them = targets()
    while time.monotonic() < ends:
        for name, (strategy, check) in all_of_them.items():
            if time.monotonic() > ends:
                break
            failed += not _run_target(name, strategy, check, turn, runs)
        turn += 1
    for name, count in runs.items():
        print(f"{name:<12} {count} examples")
    return failed


def _run_target(
    name: str,
    strategy: st.SearchStrategy[bytes],
    check: Callable[[bytes], object],
    turn: int,
    runs: Counter[str],
) -> bool:
    @seed(turn)
    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(data: bytes) -> None:
        runs[name] += 1
        check(data)

    try:
        run()
    except Exception as error:
        print(f"FOUND in {name} (turn {turn}): {type(error).__name__}: {str(error)[:2000]}", flush=True)
        return False
    return True


# ---- the API ---------------------------------------------------------------------------------------------------


def fuzz_api(program: str, seconds: float) -> int:
    """With keys and without; answers how many runs found something."""
    failed = 0
    for keys in ({}, {"API_KEYS": "alpha:key-of-alpha"}):
        with scratch() as folder, service(folder, **keys) as running:
            command = [
                *(program, "run", f"{running.url}/openapi.json", "--url", running.url),
                *("--checks", "not_a_server_error,status_code_conformance,content_type_conformance"),
                *("--max-time", str(int(seconds / 2)), "--continue-on-failure", "--no-color"),
                *(("--header", "Authorization: Bearer key-of-alpha") if keys else ()),
            ]
            failed += subprocess.run(command, check=False).returncode != 0
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", choices=("parsers", "api"))
    parser.add_argument("--schemathesis", default=".venv-fuzz/bin/st")
    args = parser.parse_args()
    failed = 0
    if args.only != "api":
        failed += fuzz_parsers(args.seconds / (1 if args.only else 2))
    if args.only != "parsers":
        failed += fuzz_api(args.schemathesis, args.seconds / (1 if args.only else 2))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
