"""Runs seeded schedules of a simulated fleet on virtual time: `python bench/simulate.py --schedules 5000 --first 1`.

A schedule has the real worker, housekeeper, queues and scripts; see tests/simulation. Ends with 1 at the first seed
whose account is wrong, and prints it; `--first SEED --schedules 1` runs that seed again.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.simulation.schedules import BrokenInvariantError, run_schedule
from tests.simulation.simulated_network import SimulatedServer
from tests.support.coordination_servers import plain_server


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a schedule
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--schedules", type=int, default=1000)
    options.add_argument("--first", type=int, default=1, help="the first seed")
    options.add_argument("--minutes", type=float, default=60.0, help="no new schedule after this time")
    chosen = options.parse_args()
    logging.disable(logging.CRITICAL)
    began, done, virtual_s, faults = time.monotonic(), 0, 0.0, 0
    with plain_server() as (_url, port):
        server = SimulatedServer(port)
        for seed in range(chosen.first, chosen.first + chosen.schedules):
            try:
                account = run_schedule(server, seed)
            except BrokenInvariantError as error:
                print(f"BROKEN {error}")
                return 1
            done += 1
            virtual_s += account.virtual_s
            faults += account.crashes + account.stalls + account.flushes + account.retries
            if time.monotonic() - began > 60 * chosen.minutes:
                break
    took_s = time.monotonic() - began
    print(
        f"seeds {chosen.first} to {chosen.first + done - 1}: {done} schedules, {faults} crashes, stalls, flushes and "
        f"retries, {server.commands} commands, {virtual_s / 3600:.1f} virtual hours in {took_s:.0f} s "
        f"({60 * done / took_s:.0f} schedules a minute); no account was wrong"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
