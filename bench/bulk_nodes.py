"""Bulk runs on several Ray nodes of this machine: kill -9 of driver, worker, reader process, node and head at random.

    python bench/bulk_nodes.py [--seeds 20] [--first-seed 0]
    python bench/bulk_nodes.py --ports    # where a cluster that `quire bulk` starts itself listens

A seed is one target: a run in which something is killed once or twice, then a run that must finish. Each run has a
deadline: a run that hangs fails the seed. Prints one line of JSON for each seed, and stops at the first that fails.

The cluster is in a network namespace of its own, where there is no other host: a head that is started by hand listens
on all addresses.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from tests.bulk.rows import check_complete, make_lake, rows_of  # noqa: E402

_KINDS = ("driver", "worker", "reader", "node", "node and driver", "head")
_MILD = ("worker", "reader", "node")
"""Kills that a run survives."""
_NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}
_RUN_S = 240.0
_NETWORK = "ip link set lo up"
_REACHABLE = " && ip addr add 10.99.0.1/24 dev lo && ip route add 8.8.8.8/32 dev lo src 10.99.0.1"
"""An address that Ray takes for the one that other hosts reach; there are no other hosts. A driver with such an address
would look for a head on loopback there, so only `--ports` has it."""
_DOCUMENTS = 120


class RayNodes:
    """A head and two more nodes, each with an address and processes of its own."""

    def __init__(self) -> None:
        self._next = 2
        self.start()

    def start(self) -> None:
        from ray.cluster_utils import Cluster

        head = {**_NODE, "include_dashboard": False, "node_ip_address": "127.0.0.1"}
        self._cluster = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=True)
        self._others: list[Any] = []
        for _ in range(2):
            self._add()

    def _add(self) -> None:
        self._next += 1
        address = f"127.0.{self._next // 250}.{self._next % 250 + 1}"
        self._others.append(self._cluster.add_node(**_NODE, node_ip_address=address))

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def kill_one(self, chance: random.Random) -> None:
        """Kills a node that is not the head; another joins in its place."""
        self._cluster.remove_node(self._others.pop(chance.randrange(2)), allow_graceful=False)
        self._add()

    def kill_head(self) -> None:
        """Kills the head: the cluster's own state is gone with it."""
        if self._cluster.head_node is not None:
            self._cluster.remove_node(self._cluster.head_node, allow_graceful=False)

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        self._cluster.shutdown()


def _start(lake: Path, target: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "quire", "bulk", str(lake), str(target), "--quiet", "--ocr", "off"]
    command += ["--engine", "ray", "--shard-pages", "5", *more]
    return subprocess.Popen(command, start_new_session=True)


def _end(driver: subprocess.Popen[bytes], what: str) -> int:
    """Returns the exit code. A run that does not end in time is a defect."""
    try:
        return driver.wait(_RUN_S)
    except subprocess.TimeoutExpired:
        driver.kill()
        raise SystemExit(f"The run hangs after the kill of: {what}") from None


def _wait_for_parts(driver: subprocess.Popen[bytes], target: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while driver.poll() is None and time.monotonic() < deadline:
        if _parts_in(target) >= count:
            return
        time.sleep(0.02)


def _kill_process(of_reader: bool, chance: random.Random) -> None:
    """Kills the process of an actor, or a process below one."""
    actors = [one for one in psutil.process_iter(["cmdline"]) if _is_actor(one)]
    victims = actors
    if of_reader:
        victims = []
        for one in actors:
            with contextlib.suppress(psutil.NoSuchProcess):
                victims += one.children(recursive=True)
    if victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            chance.choice(victims).kill()


def _is_actor(process: psutil.Process) -> bool:
    return "ShardActor" in " ".join(process.info["cmdline"] or ())


def _disturb(kind: str, driver: subprocess.Popen[bytes], nodes: RayNodes, chance: random.Random) -> None:
    """Kills what the kind names."""
    if kind in ("worker", "reader"):
        _kill_process(kind == "reader", chance)
    if "node" in kind:
        nodes.kill_one(chance)
    if kind == "head":
        nodes.kill_head()
    if "driver" in kind:
        driver.kill()


def run_seed(seed: int, folder: Path, nodes: RayNodes, expected: dict[tuple[str, int], str]) -> None:
    """One run with one or two kills, then one that must finish."""
    chance = random.Random(seed)
    target, began = folder / f"out-{seed}", time.monotonic()
    kinds = [*chance.sample(_MILD, chance.randint(0, 1)), _KINDS[seed % len(_KINDS)]]
    killed: list[str] = []
    driver = _start(folder / "lake", target, "--address", nodes.address)
    for kind in kinds:
        _wait_for_parts(driver, target, _parts_in(target) + chance.randint(0, 12))
        if driver.poll() is None:
            killed.append(f"{kind} after {_parts_in(target)} parts")
            _disturb(kind, driver, nodes, chance)
    first = _end(driver, ", ".join(killed))
    if "head" in kinds:
        nodes.restart()
    code = _end(_start(folder / "lake", target, "--address", nodes.address), "nothing")
    rows = rows_of(target)
    check_complete(rows, expected)
    seconds = round(time.monotonic() - began, 1)
    figures = {"seed": seed, "killed": killed, "parts": _parts_in(target), "exit": [first, code]}
    print(json.dumps({**figures, "rows": len(rows), "seconds": seconds}), flush=True)
    if code != 3:
        raise SystemExit(f"Exit code {code}, expected 3: the lake has two files that can't be read.")


def check_ports(folder: Path) -> None:
    """A run without an address, on a host that others could reach: every socket that listens must be on loopback."""
    expected = make_lake(folder / "lake", 20)
    driver = _start(folder / "lake", folder / "out")
    seen: set[tuple[str, str]] = set()
    while driver.poll() is None:
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.pid is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    seen.add((one.laddr.ip, psutil.Process(one.pid).name()))
        time.sleep(0.2)
    check_complete(rows_of(folder / "out"), expected)
    print(json.dumps({"exit": driver.returncode, "listened": sorted(seen)}), flush=True)
    addresses = {address.removeprefix("::ffff:") for address, _ in seen}
    if addresses != {"127.0.0.1"}:
        raise SystemExit("The cluster listens where other hosts can reach it, or was not seen at all.")


def _parts_in(target: Path) -> int:
    return len(list(target.glob("part-*.parquet")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--ports", action="store_true")
    args = parser.parse_args()
    if os.environ.get("BENCH_IN_NAMESPACE") != "1":
        network = _NETWORK + (_REACHABLE if args.ports else "")
        again = [*("unshare", "-n", "sh", "-c", network + ' && exec "$@"', "sh"), sys.executable]
        done = subprocess.run([*again, *sys.argv], env={**os.environ, "BENCH_IN_NAMESPACE": "1"}, check=False)
        raise SystemExit(done.returncode)
    with tempfile.TemporaryDirectory(prefix="quire-bench-nodes-") as name:
        folder = Path(name)
        if args.ports:
            check_ports(folder)
            return
        expected = make_lake(folder / "lake", _DOCUMENTS)
        nodes = RayNodes()
        try:
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                run_seed(seed, folder, nodes, expected)
        finally:
            nodes.stop()


if __name__ == "__main__":
    main()
