"""Kills the service again and again while it works, and counts every page afterwards.

`python bench/chaos.py --kills 20 --seed 7` prints what was hit when; it ends with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.chaos.storm import Storm
from tests.support.programs import LossError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=20, help="how often the service is killed")
    parser.add_argument(
        "--seed", type=int, default=None, help="the same seed gives the same documents and kills"
    )
    parser.add_argument("--pages", type=int, default=400, help="pages of the longest documents")
    parser.add_argument("--keep", type=Path, default=None, help="work in this folder and leave it there")
    args = parser.parse_args()
    seed = random.randrange(1_000_000) if args.seed is None else args.seed
    print(f"seed {seed}, {args.kills} kills")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quire-chaos-") as folder:
        home = args.keep or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        storm = Storm(home, kills=args.kills, seed=seed, most_pages=args.pages, say=print)
        try:
            account = storm.run()
        except LossError as loss:
            print(f"LOST: {loss}\nRun again with --seed {seed} --keep FOLDER to look at it.")
            return 1
    busy = sum(1 for count in account.unfinished_at_kill if count)
    print(
        f"{account.kills} kills, {busy} of them with documents in work: all {account.documents} documents complete, "
        f"{account.pages} pages, each once and in order, queues empty, no process left; "
        f"{account.cut_off} uploads cut off and repeated; {time.monotonic() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
