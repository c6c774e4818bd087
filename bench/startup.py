"""How long a person waits: `quire --help`, and the first Markdown of a one-page PDF from a cold start."""

from __future__ import annotations

import os
import subprocess
import time

from measuring import PYTHON, environment, median, scratch, table, text_pdf

IMPORTS = "import pymupdf, liteparse.parser"


def main() -> None:
    with scratch() as folder:
        env = environment(folder)
        one = text_pdf(folder, 1)
        ways = {
            "python -c pass": [PYTHON, "-c", "pass"],
            "quire --help": [PYTHON, "-m", "quire", "--help"],
            "import of the PDF libraries": [PYTHON, "-c", IMPORTS],
            "quire convert, one page": [PYTHON, "-m", "quire", "convert", str(one)],
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(7):
            for name, command in ways.items():
                found[name].append(_measure(command, env))
    rows = []
    for name, pairs in found.items():
        rows.append(
            [name, f"{median([wall for wall, _ in pairs]):.3f}", f"{median([cpu for _, cpu in pairs]):.3f}"]
        )
    table("Start-up, median of 7", ["", "wall, s", "CPU of all its processes, s"], rows)


def _measure(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """CPU of the whole tree: descendants that outlive their parents come to us, the subreaper."""
    _become_subreaper()
    before = os.times()
    began = time.monotonic()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.monotonic() - began
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    after = os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def _become_subreaper() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


if __name__ == "__main__":
    main()
