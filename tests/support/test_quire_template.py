"""The template that forks processes for tests serves all others when one that asks is killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.environment import ROOT, clean_environment
from tests.support.quire_template import PROCESS_ID, READERS, SIZE
from tests.support.waiting import DEADLINE_S, wait_until


def test_template_forks_for_others_when_a_process_that_asks_was_killed(tmp_path: Path) -> None:
    place = tmp_path / "template"
    command = [sys.executable, "-m", "tests.support.quire_template", READERS, str(place)]
    with subprocess.Popen(command, cwd=ROOT, env=clean_environment()) as template:
        try:
            wait_until(lambda: place.exists() or template.poll() is not None, "the template listens")
            for whole in (True, False):  # killed before the answer, and in the middle of the question
                with _asking(place, tmp_path, whole=whole):
                    pass
            with _asking(place, tmp_path, whole=True) as asking:
                asking.settimeout(DEADLINE_S)
                assert PROCESS_ID.unpack(asking.recv(PROCESS_ID.size))[0] > 0
        finally:
            template.kill()


def _asking(place: Path, folder: Path, *, whole: bool) -> socket.socket:
    """A connection on which a process was asked for. What is forked ends at once: its arguments are no JSON."""
    start = {"arguments": ["none"], "cwd": str(folder), "environment": {}, "readers": ""}
    asked = json.dumps(start).encode()
    asking = socket.socket(socket.AF_UNIX)
    asking.connect(str(place))
    null = os.open(os.devnull, os.O_RDWR)
    try:
        socket.send_fds(asking, [SIZE.pack(len(asked))], [null] * 5)
    finally:
        os.close(null)
    asking.sendall(asked if whole else asked[:10])
    return asking
