"""Runs seeded schedules of a simulated fleet on virtual time: `python bench/simulate.py --schedules 5000 --first 1`.

A schedule has the real worker, housekeeper, queues and scripts; see tests/simulation. Each process stops at its first
seed whose account is wrong, and prints it; `--first SEED --schedules 1` runs that seed again.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.simulation.schedules import BrokenInvariantError, run_schedule
from tests.simulation.simulated_network import SimulatedServer
from tests.support.coordination_servers import unix_server


@dataclass
class Totals:
    """What some schedules did; `broken` has the account that was wrong."""

    schedules: int = 0
    faults: int = 0
    commands: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    broken: str = ""


def run_seeds(seeds: range, minutes: float) -> Totals:
    """Runs the seeds on a server of their own, until one is broken or the time is over."""
    logging.disable(logging.CRITICAL)
    totals, until = Totals(), time.monotonic() + 60 * minutes
    with unix_server() as path, closing(SimulatedServer(path)) as server:
        for seed in seeds:
            try:
                account = run_schedule(server, seed)
            except BrokenInvariantError as error:
                totals.broken = str(error)
                break
            totals.schedules += 1
            totals.virtual_s += account.virtual_s
            totals.faults += account.crashes + account.stalls + account.flushes + account.retries
            if time.monotonic() > until:
                break
        totals.commands = server.commands
    totals.cpu_s = sum(os.times()[:4])  # its server, which has ended, is among its children
    return totals


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a schedule
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--schedules", type=int, default=1000)
    options.add_argument("--first", type=int, default=1, help="the first seed")
    options.add_argument("--minutes", type=float, default=60.0, help="no new schedule after this time")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = options.parse_args()
    processes = min(chosen.processes, chosen.schedules)
    began, last = time.monotonic(), chosen.first + chosen.schedules
    with ProcessPoolExecutor(processes) as pool:
        # Each process takes every nth seed.
        slices = [range(chosen.first + nth, last, processes) for nth in range(processes)]
        all_totals = list(pool.map(run_seeds, slices, [chosen.minutes] * processes))
    took_s = time.monotonic() - began
    broken = [one.broken for one in all_totals if one.broken]
    for text in broken:
        print(f"BROKEN {text}")
    done = sum(one.schedules for one in all_totals)
    faults, commands = (sum(getattr(one, name) for one in all_totals) for name in ("faults", "commands"))
    hours, cpu_s = (sum(getattr(one, name) for one in all_totals) for name in ("virtual_s", "cpu_s"))
    print(
        f"seeds from {chosen.first}: {done} schedules, {faults} crashes, stalls, flushes and retries, "
        f"{commands} commands, {hours / 3600:.1f} virtual hours in {took_s:.0f} s "
        f"({60 * done / took_s:.0f} schedules a minute, {60 * done / cpu_s:.0f} in a minute of CPU time); "
        f"accounts that were wrong: {len(broken)}"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
