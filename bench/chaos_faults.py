"""The faults of a chaos run. Each is drawn from the seed; its function returns when the fault is over."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from chaos_fleet import CLOCK_WORKER, DISK_WORKER, WORKERS, Fleet
from chaos_proxy import ProxyMode

Inject = Callable[[Fleet, random.Random], str]

STATE_CHANGES = (
    "",  # at any time
    "job/create",
    "job/claim",
    "job/split_done",
    "job/pages_done",
    "job/merged",
    "ai/admit",
    "ai/settle",
    "parse/accept",
    "parse/claim",
    "parse/finish",
)
"""The scripts that change a state: the fault happens while the answer of one of them is on the way."""


def kill_serve(fleet: Fleet, chance: random.Random) -> str:
    with fleet.locks["serve"]:
        family = fleet.serve.family()
        victims = family[:1] if chance.random() < 0.5 else family
        fleet.serve.kill(victims)
        fleet.restart_serve()
    return f"{len(victims)} processes"


def kill_worker(fleet: Fleet, chance: random.Random) -> str:
    name = chance.choice(WORKERS)
    with fleet.locks[name]:
        family = fleet.workers[name].family()
        victims = family[:1] if chance.random() < 0.5 else family
        fleet.workers[name].kill(victims)
        fleet.start_worker(name)
    return f"{name}, {len(victims)} processes"


def stop_worker(fleet: Fleet, chance: random.Random) -> str:
    name = chance.choice(WORKERS)
    with fleet.locks[name]:
        fleet.workers[name].end()
        fleet.start_worker(name)
    return name


def kill_reader(fleet: Fleet, chance: random.Random) -> str:
    name = chance.choice(WORKERS)
    readers = fleet.readers_of(name)
    for one in readers[-1:]:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    return f"{name}, {len(readers[-1:])} of {len(readers)} processes"


def pause_worker(fleet: Fleet, chance: random.Random) -> str:
    name, pause_s = chance.choice(WORKERS), chance.choice((0.5, 1.5, 5.0))
    with fleet.locks[name]:
        paused = fleet.workers[name].process
        paused.send_signal(signal.SIGSTOP)
        time.sleep(pause_s)
        paused.send_signal(signal.SIGCONT)
    return f"{name}, {pause_s:g} s"


def restart_redis(fleet: Fleet, chance: random.Random) -> str:
    sign = chance.choice((signal.SIGTERM, signal.SIGKILL))
    with fleet.locks["redis"]:
        fleet.stop_redis(sign)
        time.sleep(chance.uniform(0, 1.5))
        fleet.start_redis()
    return sign.name


def fail_over_redis(fleet: Fleet, _chance: random.Random) -> str:
    with fleet.losing_redis_data(), fleet.locks["redis"]:
        fleet.fail_over()
    return "a replica is the primary"


def flush_redis(fleet: Fleet, _chance: random.Random) -> str:
    with fleet.losing_redis_data():
        fleet.flush_redis()
    return "FLUSHALL"


def pause_redis(fleet: Fleet, chance: random.Random) -> str:
    pause_s = chance.choice((0.3, 1.0, 3.0))
    with fleet.locks["redis"]:
        fleet.redis.send_signal(signal.SIGSTOP)
        time.sleep(pause_s)
        fleet.redis.send_signal(signal.SIGCONT)
    return f"{pause_s:g} s"


def _through(fleet: Fleet, name: str, mode: ProxyMode, for_s: float) -> str:
    fleet.proxies[name].set(mode)
    time.sleep(for_s)
    fleet.proxies[name].set(ProxyMode.PASS)
    return f"{name}, {for_s:.1f} s"


def cut_network(fleet: Fleet, chance: random.Random) -> str:
    name = chance.choice(("redis of workers", "redis of serve"))
    return _through(fleet, name, ProxyMode.CUT, chance.uniform(0.05, 3))


def stall_network(fleet: Fleet, chance: random.Random) -> str:
    name = chance.choice(("redis of workers", "redis of serve"))
    return _through(fleet, name, ProxyMode.STALL, chance.uniform(0.2, 3))


def store_errors(fleet: Fleet, chance: random.Random) -> str:
    return _through(fleet, "store", ProxyMode.ERRORS, chance.uniform(0.3, 3))


def torn_uploads(fleet: Fleet, chance: random.Random) -> str:
    return _through(fleet, "store", ProxyMode.TEAR, chance.uniform(0.3, 2))


def slow_store(fleet: Fleet, chance: random.Random) -> str:
    return _through(fleet, "store", ProxyMode.SLOW, chance.uniform(0.5, 2))


def store_away(fleet: Fleet, chance: random.Random) -> str:
    return _through(fleet, "store", ProxyMode.CUT, chance.uniform(0.3, 3))


def restart_database(fleet: Fleet, chance: random.Random) -> str:
    mode = chance.choice(("fast", "immediate"))
    with fleet.locks["database"]:
        fleet.restart_database(mode)
    return mode


def fail_over_database(fleet: Fleet, chance: random.Random) -> str:
    lag_s = chance.choice((0.0, 0.1, 1.0, 3.0))
    with fleet.locks["database"], fleet.locks["losses"]:
        fleet.fail_over_database(lag_s)
    return f"a replica is the primary, {f'two documents and {lag_s:g} s behind' if lag_s else 'in step'}"


def full_disk(fleet: Fleet, chance: random.Random) -> str:
    if fleet.disk is None:
        return "skipped: this process may not mount a disk"
    filler = fleet.disk.parent / "filler"
    with suppress(OSError), filler.open("wb") as out:
        while True:
            out.write(os.urandom(1 << 20))
    for_s = chance.uniform(0.5, 3)
    time.sleep(for_s)
    filler.unlink()
    return f"{DISK_WORKER}, {for_s:.1f} s"


def slow_disk(fleet: Fleet, chance: random.Random) -> str:
    """Of Redis: each write of its append-only file and each fsync takes long."""
    if not fleet.has_slow_disk:
        return "skipped: there is no C compiler"
    for_s = chance.uniform(0.5, 3)
    fleet.slow_disk.touch()
    time.sleep(for_s)
    fleet.slow_disk.unlink(missing_ok=True)  # two such faults may be drawn at once
    return f"redis, {for_s:.1f} s"


def move_clock(fleet: Fleet, chance: random.Random) -> str:
    offset_s = chance.choice((-300, -30, -3, 0, 3, 30, 300))
    fleet.clock_file.write_text(str(offset_s))
    return f"{CLOCK_WORKER}, {offset_s:+d} s"


_STORMS: tuple[list[dict[str, object]], ...] = (
    [{"fault": "rate_limit", "probability": 0.7, "retry_after_s": 1}],
    [{"fault": "server_error", "probability": 0.8}],
    [{"fault": "hang", "probability": 0.5}],
    [{"fault": "cut", "probability": 0.5}, {"fault": "reset", "probability": 0.5}],
    [{"fault": "bad_json", "probability": 0.4}, {"fault": "empty", "probability": 0.5}],
    [{"fault": "overloaded"}],
)


def provider_storm(fleet: Fleet, chance: random.Random) -> str:
    rules, for_s = chance.choice(_STORMS), chance.uniform(1, 4)
    fleet.provider.play({"rules": rules})
    time.sleep(for_s)
    fleet.provider.play({})
    return f"{', '.join(str(one['fault']) for one in rules)}, {for_s:.1f} s"


_BACKEND: tuple[dict[str, object], ...] = (
    {"batch_status": 500},
    {"status": 503},
    {"gaps": 0.5},
    {"duplicates": 0.5},
    {"malformed": 0.5},
    {"empty": True},
)


def backend_storm(fleet: Fleet, chance: random.Random) -> str:
    script, for_s = chance.choice(_BACKEND), chance.uniform(0.5, 3)
    if chance.random() < 0.3:
        fleet.backend.kill()
        time.sleep(for_s)
        fleet.backend.come_back()
        return f"killed, {for_s:.1f} s"
    fleet.backend.script(**script)
    time.sleep(for_s)
    fleet.backend.script()
    return f"{script}, {for_s:.1f} s"


FAULTS: dict[str, Inject] = {
    one.__name__.replace("_", " "): one
    for one in (
        kill_serve,
        kill_worker,
        stop_worker,
        kill_reader,
        pause_worker,
        restart_redis,
        fail_over_redis,
        flush_redis,
        pause_redis,
        cut_network,
        stall_network,
        store_errors,
        torn_uploads,
        slow_store,
        store_away,
        restart_database,
        fail_over_database,
        full_disk,
        slow_disk,
        move_clock,
        provider_storm,
        backend_storm,
    )
}
