"""Runs the real command line as a child process, in a folder and with a temporary folder of its own."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pymupdf
import pytest

from tests.support.environment import clean_environment
from tests.support.quire_processes import start_quire
from tests.support.waiting import DEADLINE_S


@dataclass
class Cli:
    """`quire` as a user would run it. Whatever is still running at the end of the test is killed."""

    folder: Path
    env: dict[str, str]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *args: str, **env: str) -> subprocess.Popen[bytes]:
        return self._start(args, env, warm_readers=False)

    def _start(
        self, args: tuple[str, ...], env: dict[str, str], *, warm_readers: bool
    ) -> subprocess.Popen[bytes]:
        process = start_quire(
            *args,
            warm_readers=warm_readers,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self.env | env,
        )
        self.running.append(process)
        return process

    def run(self, *args: str, stdin: bytes = b"", **env: str) -> Done:
        process = self._start(args, env, warm_readers=True)
        out, err = process.communicate(stdin, timeout=DEADLINE_S)
        return Done(process.returncode, out.decode(), err.decode())

    @property
    def temporary(self) -> Path:
        return Path(self.env["TMPDIR"])

    def left_behind(self) -> list[str]:
        """What is still in the temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir())


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Standard error without the lines about progress, which come when a document takes longer than 2 s."""
        lines = self.err.splitlines(keepends=True)
        return "".join(line for line in lines if not re.search(r": \d+/\d+ pages$", line))


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    folder, temporary = tmp_path / "work", tmp_path / "t"
    folder.mkdir()
    temporary.mkdir()
    env = clean_environment(HOME=str(tmp_path), TMPDIR=str(temporary), LANG="C.UTF-8")
    found = Cli(folder, env)
    yield found
    for process in found.running:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=DEADLINE_S)


def make_pdf(path: Path, *pages: str, password: str | None = None, size: float = 11) -> Path:
    document = pymupdf.open()
    for text in pages:
        document.new_page().insert_text((72, 72), text, fontsize=size)
    locked = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "user_pw": password, "owner_pw": password}
    document.save(path, **(locked if password else {}))
    document.close()
    return path
