"""Hurts a fleet again and again while callers use it, and counts every page afterwards.

`python bench/chaos.py --seed 7 --faults 30` draws documents, faults and the state changes at which they happen from
the seed; the same seed draws the same again (what is in hand at that moment depends on the machine). Ends with 1 if
anything was lost, stuck, doubled, answered twice or wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import reaper
from tests.support.environment import RUN_VARIABLE

from chaos_faults import FAULTS, STATE_CHANGES
from chaos_fleet import Fleet
from chaos_work import Account, Callers

_WAVE = 10
_STATE_S = 1.5


class ChaosRun:
    """One seed on one fleet."""

    def __init__(self, fleet: Fleet, folder: Path, seed: int, kinds: list[str]) -> None:
        self._fleet = fleet
        self._seed = seed
        self._chance = random.Random(seed)
        self._kinds = kinds
        self._callers = Callers(fleet, folder, self._chance)
        fleet.hand_in_for_vault = self._callers.hand_in_for_vault
        self._left: list[str] = []
        self.faults: Counter[str] = Counter()
        self.at_state: Counter[str] = Counter()
        self.skipped = 0

    @property
    def account(self) -> Account:
        return self._callers.account

    def run(self, faults: int, until: float) -> None:
        """Injects that many faults, fewer if the time is over or something is wrong."""
        number = 0
        try:
            while number < faults:
                wave = min(number + _WAVE, faults)
                while number < wave:
                    number += self._inject(number + 1, wave - number)
                self._callers.settle()
                if self.account.problems or time.monotonic() > until:
                    return
        finally:
            self._callers.close()

    def _inject(self, number: int, most: int) -> int:
        """One fault, or two at once; returns how many."""
        kinds = [self._next_kind() for _ in range(min(most, self._chance.randint(1, 2)))]
        state, calm_s = self._chance.choice(STATE_CHANGES), self._chance.uniform(0, 0.5)
        self._callers.hand_in()
        if not state or not self._fleet.states.wait_for(state, _STATE_S):
            state = ""
            time.sleep(calm_s)
        # Each has its own chance, so that their order does not matter.
        chances = [random.Random(f"{self._seed}/{number + nth}") for nth in range(len(kinds))]
        with ThreadPoolExecutor(len(kinds)) as threads:
            started = [
                threads.submit(FAULTS[kind], self._fleet, chance)
                for kind, chance in zip(kinds, chances, strict=True)
            ]
            details = [one.result() for one in started]
        for nth, (kind, detail) in enumerate(zip(kinds, details, strict=True)):
            self._count(kind, state, detail)
            print(f"{number + nth:4} {kind:18} at {state or 'any time':16} {detail}", flush=True)
        return len(kinds)

    def _next_kind(self) -> str:
        # Each kind once before any comes again, so that few faults also have all kinds.
        if not self._left:
            self._left = self._chance.sample(self._kinds, len(self._kinds))
        return self._left.pop()

    def _count(self, kind: str, state: str, detail: str) -> None:
        if detail.startswith("skipped"):
            self.skipped += 1
        else:
            self.faults[kind] += 1
            self.at_state[state or "any"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--faults", type=int, default=44)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=60.0, help="no new wave after this time")
    parser.add_argument("--only", default="", help="kinds of faults, separated by commas")
    parser.add_argument("--keep", type=Path, default=None, help="work in this folder and leave it there")
    parser.add_argument("--report", type=Path, default=None, help="append the counts to this file as JSON")
    args = parser.parse_args()
    _in_own_mounts()
    reaper.begin(RUN_VARIABLE)  # ends every process of the fleet, also if this one is killed
    seed = random.randrange(1_000_000) if args.seed is None else args.seed
    kinds = [one.strip() for one in args.only.split(",") if one.strip()] or list(FAULTS)
    print(f"seed {seed}, {args.faults} faults of {len(kinds)} kinds", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quire-chaos-") as temporary:
        folder = args.keep or Path(temporary)
        (folder / "documents").mkdir(parents=True)
        fleet = Fleet(folder, seed)
        run = ChaosRun(fleet, folder / "documents", seed, kinds)
        try:
            run.run(args.faults, began + 60 * args.minutes)
        finally:
            fleet.close()
    return _report(run, seed, time.monotonic() - began, args.report)


def _in_own_mounts() -> None:
    """A small disk that fills up is mounted in a mount namespace of this run's own, where that is allowed."""
    if os.geteuid() != 0 or os.environ.get("CHAOS_OWN_MOUNTS"):
        return
    allowed = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    os.environ["CHAOS_OWN_MOUNTS"] = "1" if allowed else "0"
    if allowed:
        os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])


def _report(run: ChaosRun, seed: int, took_s: float, file: Path | None) -> int:
    account = run.account
    faults = sum(run.faults.values())
    print("\n| fault | injected |\n|---|---|")
    for kind, count in sorted(run.faults.items()):
        print(f"| {kind} | {count} |")
    print(f"\nat state changes: {dict(run.at_state.most_common())}")
    print(
        f"seed {seed}: {faults} faults ({run.skipped} skipped), {account.documents} documents with {account.pages} "
        f"pages and {account.images} images, {account.repeated_calls} calls repeated by callers, "
        f"{account.fallbacks} pages by fallback; lost {len(account.lost)}, stuck {len(account.stuck)}, "
        f"doubled {len(account.doubled)}, answered twice {len(account.twice)}, wrong {len(account.wrong)}; "
        f"{took_s:.0f} s"
    )
    for problem in account.problems:
        print(f"PROBLEM {problem}\nRun again with --seed {seed} --keep FOLDER to look at it.")
    if file is not None:
        counts = {
            name: len(getattr(account, name)) for name in ("lost", "stuck", "doubled", "twice", "wrong")
        }
        line = {
            "seed": seed,
            "faults": run.faults,
            "states": run.at_state,
            "seconds": round(took_s),
            **counts,
        }
        line |= {"documents": account.documents, "pages": account.pages, "images": account.images}
        with file.open("a") as out:
            out.write(json.dumps(line) + "\n")
    return 1 if account.problems else 0


if __name__ == "__main__":
    sys.exit(main())
