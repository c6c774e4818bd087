"""A test run that is interrupted leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.environment import ROOT, RUN_VARIABLE
from tests.support.reaper import marked
from tests.support.waiting import wait_until


def _heed_interrupts() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Run:
    """A pytest run whose tests never end."""

    process: subprocess.Popen[bytes]
    mark: str
    folder: Path
    log: Path

    def wait_for(self, *names: str) -> dict[str, int]:
        """The process ids of the workers by the name of the test that each is in, once all of these are running."""

        def found() -> dict[str, int]:
            return {
                name: int(pid) for name, _, pid in (one.name.rpartition("-") for one in self.folder.iterdir())
            }

        def ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return found().keys() >= set(names)

        wait_until(ready, f"{names} run")
        return found()

    def programs(self) -> set[str]:
        """The names of the programs that run."""
        names = set()
        for pid in marked(RUN_VARIABLE, self.mark):
            try:
                names.add(psutil.Process(pid).name())
            except psutil.NoSuchProcess:
                continue
        return names

    def is_over(self) -> bool:
        return not marked(RUN_VARIABLE, self.mark)


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    running: list[Run] = []

    def start(*arguments: str) -> Run:
        mark = f"{os.environ[RUN_VARIABLE]}/endless-{len(running)}"
        folder = tmp_path / f"run-{len(running)}"
        folder.mkdir()
        # xdist takes the worker in which this test runs for one of its own.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        with (tmp_path / f"run-{len(running)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
                cwd=ROOT,
                env={**kept, RUN_VARIABLE: mark, "ENDLESS_FOLDER": str(folder)},
                stdout=log,
                stderr=log,
                preexec_fn=_heed_interrupts,  # noqa: PLW1509 - it only sets a signal
            )
        running.append(Run(process, mark, folder, Path(log.name)))
        return running[-1]

    yield start
    for run in running:
        if run.process.poll() is None:
            run.process.kill()
        run.process.wait()


def test_nothing_runs_on_when_a_worker_and_then_the_whole_run_is_killed(
    start_run: Callable[..., Run],
) -> None:
    both = [f"tests/support/endless_run.py::test_{name}" for name in ("services", "far_things")]
    run = start_run(*both, "-n", "2", "--dist", "load")
    workers = run.wait_for("services", "far-things")
    assert {"valkey-server", "postgres", "weed"} <= run.programs()
    os.kill(workers["far-things"], signal.SIGKILL)
    wait_until(
        lambda: not {"weed", "chromium"} & run.programs(), "the end of what the dead worker had started"
    )
    assert "postgres" in run.programs(), "the server of the whole run must outlive a worker"
    run.process.kill()
    wait_until(run.is_over, "the end of every process of the run")


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGINT, "services"),
        (signal.SIGTERM, "one_server"),
    ],  # SIGTERM ends pytest as abruptly as SIGKILL
    ids=["SIGINT", "SIGTERM"],
)
def test_nothing_runs_on_when_a_run_is_interrupted(
    start_run: Callable[..., Run], number: signal.Signals, name: str
) -> None:
    run = start_run(f"tests/support/endless_run.py::test_{name}")
    run.wait_for(name)
    assert "valkey-server" in run.programs()
    run.process.send_signal(number)
    run.process.wait()
    wait_until(run.is_over, "the end of every process of the run")
