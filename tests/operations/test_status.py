"""`quire status`: what it shows of a running service, and its rates."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from quire.cli.status_command import drawn
from tests.operations.test_backup import command
from tests.support.environment import clean_environment
from tests.support.programs import Service
from tests.support.quire_processes import start_quire
from tests.support.waiting import DEADLINE_S

CLEAR = b"\x1b[H\x1b[2J"


def state(waiting: int, calls: int, at: float) -> dict[str, Any]:
    model = {"provider": "openai", "model": "m", "state": "open", "opens_in_seconds": 12.0, "in_flight": 1}
    model |= {"in_flight_allowed": 4, "requests_used": 3.0, "requests_per_minute": 60, "tokens_used": 900.0}
    model |= {"tokens_per_minute": None, "calls_ok": calls, "calls_failed": 0, "last_error": "timeout"}
    return {
        "health": {"status": "degraded", "version": "1", "uptime_seconds": 4000, "issues": ["Disk\x1b[2J"]},
        "queues": {
            "queues": [{"queue": "page", "waiting": waiting, "delayed": 1, "dead": 2}],
            "workers": [{"worker_id": "w1", "last_seen_at": "now"}],
            "workers_alive": 1,
            "documents_active": 7,
            "documents_max": 100,
        },
        "dispatch": {
            "configured": True,
            "waiting": 5,
            "models": [model],
            "usage_this_month": {"calls": 10, "cost_usd": 1.5},
        },
        "at": at,
    }


def live(url: str) -> tuple[list[str], int]:
    """The first screens of `quire status` in a terminal, and its exit code after Ctrl-C."""
    terminal, inside = pty.openpty()
    try:
        process = start_quire(
            *("status", "--every", "0.05"),
            env=clean_environment(QUIRE_URL=url, TERM="xterm"),
            stdin=subprocess.DEVNULL,
            stdout=inside,
            stderr=inside,
        )
        os.close(inside)
        seen = b""
        while seen.count(CLEAR) < 3:  # the third begins when the second is complete
            assert select.select([terminal], [], [], DEADLINE_S)[0], "nothing was drawn"
            seen += os.read(terminal, 65_536)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # the end of the other side
            while os.read(terminal, 65_536):
                pass
        return seen.decode().split(CLEAR.decode())[1:], process.wait(DEADLINE_S)
    finally:
        os.close(terminal)


def test_rates_are_the_change_between_two_states() -> None:
    lines = drawn(state(waiting=30, calls=40, at=12.0), state(waiting=10, calls=20, at=10.0), 200)
    assert lines[0] == "quire 1   degraded   up 1h06m   workers 1   documents 7 of 100"
    queue = next(line for line in lines if line.startswith("page"))
    assert queue.split() == ["page", "30", "+10.0", "1", "2"]
    model = next(line for line in lines if line.startswith("openai:m"))
    assert model.split() == ["openai:m", "open", "12s", "1/4", "3/60", "900", "600", "0", "timeout"]
    assert not any("\x1b" in line for line in lines)


def test_rates_are_left_out_and_lines_cut_to_the_screen_when_it_is_drawn_first() -> None:
    lines = drawn(state(waiting=30, calls=40, at=12.0), None, 20)
    assert max(map(len, lines)) <= 20


def test_running_service_is_shown_once_as_json_and_live(tmp_path: Path) -> None:
    with ExitStack() as stack:
        service = Service(tmp_path, DATA_DIR=str(tmp_path / "data"), READER_PROCESSES="1")
        stack.callback(service.make_sure_it_is_gone)
        service.wait_ready()
        shown = command("status", "--once", QUIRE_URL=service.url)
        assert shown.returncode == 0, shown.stderr
        assert "healthy" in shown.stdout
        assert "queue" in shown.stdout
        found = json.loads(command("status", "--json", QUIRE_URL=service.url).stdout)
        assert found["queues"]["workers_alive"] == 1
        screens, code = live(service.url)
        assert code == 0
        assert all("healthy" in screen and "queue" in screen for screen in screens[:2])
    assert "No service answers" in command("status", "--once", QUIRE_URL=service.url).stderr
