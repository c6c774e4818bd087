"""What the README tells a newcomer to type works as it stands there."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60


def blocks(heading: str) -> list[str]:
    """The commands of the code blocks under one heading of the README, continued lines joined."""
    text = (ROOT / "README.md").read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = "\n".join(re.findall(r"```\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ").splitlines()
    commands = [re.sub(r"\s+#\s.*$", "", line).strip() for line in lines]
    return [command for command in commands if command]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newcomer")
    shutil.copy(ROOT / "samples/text.pdf", folder / "report.pdf")
    (folder / "secret").mkdir()
    shutil.copy(ROOT / "samples/encrypted.pdf", folder / "secret" / "secret.pdf")
    (folder / "pw.txt").write_text("quire\n")
    (folder / "inbox").mkdir()
    shutil.copy(ROOT / "samples/notes.md", folder / "inbox" / "notes.md")
    return folder


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "DATA_DIR": str(folder / "data")}


@pytest.fixture(scope="module")
def web(folder: Path) -> Iterator[str]:
    """Stands in for the rest of the internet."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def service(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["quire", "serve", "--port", "0"],
            env=environment | {"ALLOW_PRIVATE_URLS": "true"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    line = next((line for line in process.stdout if "http://" in line), "")
    assert line, (folder / "log").read_text()
    yield "http://" + line.split("http://", 1)[1].strip()
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0


def test_every_command_works_when_typed_as_in_the_readme(
    folder: Path, environment: dict[str, str], service: str, web: str
) -> None:
    job_id = ""
    typed = blocks("Five things one does with it")
    assert len(typed) > 12
    for command in typed:
        elsewhere = f"cd secret && {command.replace('pw.txt', '../pw.txt')}"
        here = elsewhere if command.startswith("quire convert secret") else command
        ready = here.replace("http://127.0.0.1:8080", service).replace("https://example.org", web)
        done = subprocess.run(
            ["bash", "-c", f"set -e -o pipefail; {ready}"],
            cwd=folder,
            env=environment | {"QUIRE_URL": service, "ID": job_id},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        over = "jobs retry" in command or "jobs cancel" in command
        # A job that is over may be refused (1); a command that was typed wrong (2) may not pass for that.
        assert done.returncode in ((0, 1) if over else (0,)), f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, command
        if found := re.search(r'"job_id": ?"([0-9a-f-]{36})"', done.stdout):
            job_id = job_id or found[1]
    assert (folder / "report.md").read_text().startswith("# ")
    assert (folder / "out" / "report.md").exists()
    assert list((folder / "done").glob("notes*"))
    assert job_id


def test_every_linked_file_exists() -> None:
    checked = 0
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md"]:
        for target, place in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name} links to {target}"
            if place:
                headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
                slugs = [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings]
                assert place in slugs, f"{page.name} links to {target}#{place}"
            checked += 1
    assert checked > 20
