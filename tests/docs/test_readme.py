"""What the README tells a newcomer to type works as it stands there."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.environment import ROOT, clean_environment
from tests.support.waiting import DEADLINE_S


def commands(heading: str) -> str:
    """The code blocks under one heading of the README, in order."""
    text = (ROOT / "README.md").read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(re.findall(r"```\n(.*?)```", text, re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout as far as the README needs it."""
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    return tmp_path


@pytest.fixture
def web(folder: Path) -> Iterator[str]:
    """Takes the place of https://example.org."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    shutil.copy(ROOT / "samples/text.pdf", folder / "report.pdf")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_every_command_works_when_pasted_in_order_into_one_shell(folder: Path, web: str) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    script = commands("Five common tasks")
    assert len(script.splitlines()) > 18
    script = script.replace("http://127.0.0.1:8080", address).replace("https://example.org", web)
    done = subprocess.run(
        [
            "bash",
            "-e",
            "-o",
            "pipefail",
            "-c",
            f"trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{script}\nwait",
        ],
        cwd=folder,
        env=clean_environment(
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            HOME=str(folder),
            LANG="C.UTF-8",
            PORT=address.rpartition(":")[2],
            QUIRE_URL=address,
            ALLOW_PRIVATE_URLS="true",
        ),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
    )
    log = (folder / "serve.log").read_text() if (folder / "serve.log").exists() else ""
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr}\n{log}"
    assert "Traceback" not in done.stderr + log
    # The first occurrence of a running header stays, above the title.
    assert "\n# The Tide and Harbour Office\n" in (folder / "report.md").read_text()
    assert {one.name for one in (folder / "out").iterdir()} == {"text.md", "scan.md", "tables.md"}
    assert list((folder / "done").glob("notes*"))
    assert "event: status" in done.stdout


def test_install_commands_are_those_that_the_package_test_runs() -> None:
    assert "pip install -c constraints.txt ." in commands("Install")
