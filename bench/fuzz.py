"""Fuzzing: our own parsers with changed documents (hypothesis), the whole API with generated requests (schemathesis).

    .venv/bin/python bench/fuzz.py [--seconds 600] [--seed N] [--only parsers|api]
        [--schemathesis PROGRAM] [--keep FOLDER]

A parser may raise a QuireError and nothing else, within 10 s of CPU time. The end of its process by a library is
reported apart: in a reader process it costs that document alone. The API may answer anything that its description
lists, and never 5xx but 503, or 502 where the host of a source that the request names is away. It is asked without
keys, with a key (and a simulated AI provider), and with a wrong one; half of the ids in requests are those of real
jobs, documents and keys, and half of the files can be read.
The time by default draws the seed, so that each run tries other inputs; it is printed, and `--seed` repeats it.
Inputs that fail are written to `--keep`. schemathesis is not a dependency: `make fuzz` installs it into `.venv-fuzz`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz_inputs import (
    archives,
    compound_files,
    heads,
    json_texts,
    marked_up,
    mutations,
    parse_bodies,
    records,
    rich_texts,
)
from measuring import Service, scratch, service

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from quire.api.parse.door_connection import read_head
from quire.batching.image_head import read_image_head
from quire.batching.longjson import LongJson, read_complete
from quire.coordination.append_only_repair import valid_length
from quire.domain.page_ranges import PageRanges
from quire.errors import QuireError
from quire.reading.files.document_source import inspect
from quire.reading.files.file_kinds import sniff
from quire.reading.files.page_chunks import read_chunk
from quire.reading.pdf.page_reader import ReadOptions
from quire.simulator.simulator_thread import RunningSimulator, simulator

Target = tuple[st.SearchStrategy[bytes], Callable[[bytes], object]]
_MOST_PAGES = 1 << 30
_EXAMPLES = 40
_MOST_CPU_S = 10.0
_MOST_MEMORY = 1200 << 20
_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112 - private names inside


# ---- documents -------------------------------------------------------------------------------------------------


def office_targets() -> dict[str, Target]:
    from tests.reading.office.old_files import slides_file, word_file, workbook_file
    from tests.reading.office.outlook_files import compound_file, outlook_message
    from tests.reading.office.test_old_office import JATS, RTF
    from tests.support.office_files import cells, docx, epub, mail, p, png, pptx, shape, word_table, xlsx

    zipped = {
        "docx": docx(p("Title", "Heading1") + p("Words.") + word_table([["a", "b"], ["1", "2"]])),
        "xlsx": xlsx({"One": cells("a", 1, 2.5) + cells("b", 3)}),
        "pptx": pptx([shape("Title", "title") + shape("Words")]),
        "epub": epub(["<h1>One</h1><p>Words</p>", "<p>More</p>"], more={"OEBPS/img/a.png": png()}),
    }
    old = {
        "doc": word_file("Title\rWords.\ra\x07b\x07\x07", [(1, b""), (0, b""), (0, b""), (0, b""), (0, b"")]),
        "ppt": slides_file([("One", "first\nsecond"), ("Two", "third")]),
        "xls": workbook_file([["a", "b"], [1.5, 2.0], ["c", 39000.0]]),
        "msg": outlook_message("Hello", "Words", html="<p>Words</p>", files={"a.csv": b"a,b\n1,2\n"}),
    }
    texts = {
        "eml": mail("Hello", html="<p>Hello</p>", files={"a.csv": b"a,b\n1,2\n"}, Subject="x").as_bytes(),
        "csv": b"a;b;c\n1;2;3\n4;5;6\n",
        "md": b"# A\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    }
    tagged = {
        "html": b"<html><body><h1>A</h1><table><tr><td>1<td>2</table><ul><li>x<li>y</ul></body></html>",
        "jats": JATS,
        "xml": b'<?xml version="1.0"?><a xmlns:b="urn:b"><b:c d="1">words</b:c><e/><!-- x --></a>',
    }
    return {
        **{name: (archives(content), read_document) for name, content in zipped.items()},
        **{name: (compound_files(content, compound_file), read_document) for name, content in old.items()},
        **{name: (mutations(content), read_document) for name, content in texts.items()},
        **{name: (marked_up(content), read_document) for name, content in tagged.items()},
        "rtf": (rich_texts(RTF), read_document),
        "json": (json_texts(), read_document),
    }


def read_document(content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=_FOLDER) as file:
        file.write(content)
        file.flush()
        try:
            info = inspect(file.name, None, _MOST_PAGES)
            read_chunk(file.name, None, tuple(range(1, min(info.page_count, 4) + 1)), ReadOptions(), False)
        except QuireError as error:
            _count_cause(error)


_CAUSES: Counter[str] = Counter()
"""Errors of Python behind a refusal, by place: a refusal is right, but each may be a case that was not thought of."""


def _count_cause(error: QuireError) -> None:
    cause = error.__cause__
    if isinstance(
        cause, TypeError | AttributeError | LookupError | RecursionError | AssertionError | NameError
    ):
        frames = [one for one in traceback.extract_tb(cause.__traceback__) if "quire" in one.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        _CAUSES[f"{type(cause).__name__} at {place}"] += 1


# ---- protocols -------------------------------------------------------------------------------------------------

HEAD = b"POST /parse?a=b HTTP/1.1\r\nHost: h\r\nContent-Type: image/png\r\nContent-Length: 5\r\nX-A: b\r\n\r\n12345"
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


def check_ranges(data: bytes) -> None:
    with contextlib.suppress(QuireError):
        PageRanges.parse(data.decode("latin-1")).clip(50)


def targets() -> dict[str, Target]:
    from tests.reading.office.test_old_office import JATS, RTF
    from tests.support.office_files import png

    return {
        "heads": (st.one_of(heads(), mutations(HEAD)), check_head),
        "longjson": (parse_bodies(), check_json),
        "queue file": (mutations(LOG), check_log),
        "file kinds": (
            st.one_of(st.binary(max_size=300), mutations(HEAD), marked_up(JATS), rich_texts(RTF)),
            sniff,
        ),
        "image heads": (st.one_of(records(png()), mutations(png())), read_image_head),
        "page ranges": (mutations(b"1-5,8,10-"), check_ranges),
        **office_targets(),
    }


def fuzz_parsers(seconds: float, first_seed: int, keep: Path | None) -> int:
    """Runs every target in turn until the time is over; answers how many failed."""
    ends, turn, failed = time.monotonic() + seconds, first_seed, 0
    runs: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    all_of_them = targets()
    importlib.import_module("quire.reading.pool.warm_imports")
    for name in ("doc_reader", "xls_reader", "ppt_reader", "rtf_reader", "jats_reader", "odf_reader"):
        importlib.import_module(f"quire.reading.office.{name}")
    while time.monotonic() < ends:
        for name, (strategy, check) in all_of_them.items():
            if time.monotonic() > ends:
                break
            with tempfile.NamedTemporaryFile(dir=_FOLDER) as last, tempfile.NamedTemporaryFile() as report:
                found, death = _in_child(_Turn(name, strategy, check, turn, last.name), report.name)
                runs[name] += found.get("runs", 0)
                _CAUSES.update(found.get("causes", {}))
                if death:
                    ended[f"{name}, {death}"] += 1
                failed += bool(found.get("failed"))
                if keep and (death or found.get("failed")):
                    content = last.read()
                    (keep / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}").write_bytes(content)
        turn += 1
    _report(runs, ended)
    return failed


def _report(runs: Counter[str], ended: Counter[str]) -> None:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{sum(runs.values())} inputs, {(used.ru_utime + used.ru_stime) / 60:.1f} minutes of CPU time")
    for name, count in runs.items():
        print(f"{name:<12} {count} inputs")
    for cause, count in _CAUSES.most_common(40):
        print(f"refused after {cause}: {count}")
    for end, count in ended.items():
        print(
            f"a native library ended its process ({end}): {count}; in a reader process that costs the document alone"
        )


@dataclass(frozen=True)
class _Turn:
    name: str
    strategy: st.SearchStrategy[bytes]
    check: Callable[[bytes], object]
    number: int
    last: str


def _in_child(turn: _Turn, report: str) -> tuple[dict[str, Any], str]:
    """What the turn found, and the signal that ended its process: native libraries may abort, in a reader too."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
            signal.signal(signal.SIGPROF, _stop)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            failed, runs = _run_target(turn)
            Path(report).write_text(json.dumps({"runs": runs, "failed": failed, "causes": _CAUSES}))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    written = Path(report).read_text()
    return json.loads(written) if written else {}, f"signal {-code}" if code < 0 else ""


class SlowInputError(BaseException):
    """No `Exception`: parsers turn these into refusals."""


def _stop(*_: object) -> NoReturn:
    raise SlowInputError(f"more than {_MOST_CPU_S:g} s of CPU time")


def _run_target(turn: _Turn) -> tuple[bool, int]:
    """Whether it failed, and how many inputs were tried."""
    _CAUSES.clear()
    runs = 0

    @seed(turn.number)
    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(turn.strategy)
    def run(data: bytes) -> None:
        nonlocal runs
        runs += 1
        Path(turn.last).write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, _MOST_CPU_S)
        try:
            turn.check(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    try:
        run()
    except BaseException as error:
        print(
            f"FOUND in {turn.name} (turn {turn.number}): {type(error).__name__}: {str(error)[:2000]}",
            flush=True,
        )
        return True, runs
    return False, runs


# ---- the API ---------------------------------------------------------------------------------------------------

KEY = "key-of-alpha"
CONFIGURATION = '[checks]\nnot_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "502", "503"]\n'
"""The other checks ask whether the status is one that the description lists."""

ROUNDS: tuple[tuple[str, dict[str, str], str | None], ...] = (
    ("without keys", {}, None),
    ("with a key", {"API_KEYS": f"alpha:{KEY}"}, KEY),
    ("with a wrong key", {"API_KEYS": f"alpha:{KEY}", "WRONG_KEYS_PER_MINUTE": "0"}, "key-of-mallory"),
)
FILES = (
    "# Title\n\nWords.\n",
    "a;b\n1;2\n",
    "{\\rtf1 Words\\par}",
    "<h1>Title</h1><p>Words",
    '{"a": [1, 2]}',
    "%PDF-1.4\n",
)
IDS = ("job_id", "job_a", "job_b", "task_id", "job_or_file_id", "document_id", "batch_id", "key_id")


def fuzz_api(program: str, seconds: float, first_seed: int, keep: Path | None) -> int:
    """Answers how many rounds found something. The last round is short: each answer is 401 or public."""
    failed = 0
    for (name, more, key), share in zip(ROUNDS, (0.45, 0.45, 0.1), strict=True):
        with (
            scratch() as folder,
            simulator() as sim,
            service(
                folder, RATE_LIMIT_PER_CLIENT="0", DOOR_WAIT="20s", **more, **provider(sim, key)
            ) as running,
        ):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            known = known_ids(running, {**headers, "Authorization": f"Bearer {KEY}"} if key else {})
            described = folder / "openapi.json"
            described.write_text(json.dumps(with_known(running.get("/openapi.json"), known)))
            configured = folder / "schemathesis.toml"
            configured.write_text(CONFIGURATION)
            command = [
                *(
                    program,
                    "--config-file",
                    str(configured),
                    "run",
                    str(described),
                    "--url",
                    running.url,
                    "--continue-on-failure",
                    "--no-color",
                ),
                *("--checks", "not_a_server_error,status_code_conformance,content_type_conformance"),
                *("--max-time", str(int(seconds * share)), "--request-timeout", "60"),
                *("--seed", str(first_seed)),
                *(("--header", f"Authorization: Bearer {key}") if key else ()),
            ]
            print(f"the API {name}:", flush=True)
            found = subprocess.run(command, check=False, cwd=keep or folder).returncode != 0
            alive = running.process.poll() is None and running.get("/health/live")
            print(
                f"the API {name}: {'FOUND something' if found else 'nothing found'}; alive: {bool(alive)}",
                flush=True,
            )
            failed += found or not alive
    return failed


def provider(sim: RunningSimulator, key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    return {"OPENAI_BASE_URL": sim.openai_url, "OPENAI_API_KEY": "sk-simulated", "SECONDARY_ENGINE": "none"}


def known_ids(running: Service, headers: dict[str, str]) -> list[str]:
    """Jobs, a vault document, a batch and a key, so that generated requests reach more than 404."""
    boundary = "quire-fuzz"
    found: list[str] = []
    for path in ("/convert?wait=60", "/convert?wait=60", "/documents", "/batches"):
        words = f"# Title {len(found)}\n\nWords.\n"
        name = "files" if path == "/batches" else "file"
        disposition = f'Content-Disposition: form-data; name="{name}"; filename="a.md"'
        body = f"--{boundary}\r\n{disposition}\r\n\r\n{words}\r\n--{boundary}--\r\n".encode()
        sent = {**headers, "Content-Type": f"multipart/form-data; boundary={boundary}"}
        found += _ids(running, path, body, sent)
    sent = {**headers, "Content-Type": "application/json"}
    return found + _ids(running, "/keys", b'{"name": "fuzzed", "scope": "read"}', sent)


def _ids(running: Service, path: str, body: bytes, headers: dict[str, str]) -> list[str]:
    request = urllib.request.Request(running.url + path, data=body, headers=headers, method="POST")
    answer = json.load(urllib.request.urlopen(request, timeout=120))
    return [
        value
        for found in (answer, *answer.get("documents", ()))
        for name, value in found.items()
        if name in ("job_id", "id", "batch_id", "document_id") and value
    ]


def with_known(described: dict[str, Any], ids: list[str]) -> dict[str, Any]:
    """The description with real ids and readable files as values beside the generated ones."""
    for operations in described["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in IDS:
                    parameter["schema"] = {"anyOf": [{"enum": ids}, parameter["schema"]]}
    return _with_values(described, ids)


def _with_values(value: Any, ids: list[str]) -> Any:
    if isinstance(value, list):
        return [_with_values(one, ids) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "string" and (value.get("format") == "binary" or "contentMediaType" in value):
        return {"anyOf": [{"type": "string", "enum": list(FILES)}, value]}
    changed = {name: _with_values(one, ids) for name, one in value.items()}
    if isinstance(fields := changed.get("properties"), dict):
        known = {name: {"anyOf": [{"enum": ids}, fields[name]]} for name in fields if name in IDS}
        changed["properties"] = fields | known
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=("parsers", "api"))
    parser.add_argument("--schemathesis", default=".venv-fuzz/bin/st")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    program = str(Path(args.schemathesis).absolute())
    share = args.seconds / (1 if args.only else 2)
    failed = 0
    print(f"seed {args.seed}", flush=True)
    if args.only != "parsers":
        failed += fuzz_api(program, share, args.seed, args.keep)
    if args.only != "api":
        failed += fuzz_parsers(share, args.seed, args.keep)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
