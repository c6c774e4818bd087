"""`quire worker`: workers only, beside a running service."""

from __future__ import annotations

import argparse
import logging

from quire.bootstrap import runtime
from quire.cli import exits
from quire.cli.exits import UsageError, say
from quire.cli.interrupts import until_stopped
from quire.cli.loop import run_service
from quire.cli.overrides import settings_from
from quire.domain.jobs import UnitKind
from quire.settings import Settings
from quire.telemetry.logs import configure

_LOG = logging.getLogger(__name__)

QUEUES: dict[str, tuple[UnitKind, ...]] = {
    "download": (UnitKind.DOWNLOAD,),
    "split": (UnitKind.SPLIT,),
    "read": (UnitKind.READ,),
    "slow": (UnitKind.PAGE,),
    "page": (UnitKind.READ, UnitKind.PAGE),
    "merge": (UnitKind.MERGE,),
    "export": (UnitKind.EXPORT,),
    "callback": (UnitKind.CALLBACK,),
    "classify": (),
    "embed": (),
    "batch": (),
}
"""What each name stands for. The last three are names of the contract that have no work of their own yet."""


def run(args: argparse.Namespace) -> int:
    """Works until SIGTERM or SIGINT. Raises UsageError, SettingsError or CoordinationError."""
    kinds = kinds_of(args.queues) if args.queues is not None else list(UnitKind)
    settings = settings_from(args)
    take_down = configure(settings.logging)
    try:
        run_service(_work(settings, kinds))
    finally:
        take_down()
    return exits.OK


def kinds_of(names: str) -> list[UnitKind]:
    """Raises UsageError, with the names there are, for one that is not known."""
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in QUEUES]
    if unknown:
        raise UsageError(f"There is no queue {unknown[0]!r}. Known are: {', '.join(QUEUES)}.")
    for name in wanted:
        if not QUEUES[name]:
            say(f"quire: the queue {name} has no work in this version.")
    kinds = {kind for name in wanted for kind in QUEUES[name]}
    if not kinds:
        raise UsageError("--queues names no queue with work in it.")
    return [kind for kind in UnitKind if kind in kinds]


async def _work(settings: Settings, kinds: list[UnitKind]) -> None:
    async with runtime(settings, owner="quire worker", kinds=kinds, attach=True) as running:
        _LOG.info(
            "worker started",
            extra={
                "worker": running.worker_id,
                "queues": [kind.value for kind in kinds],
                "coordination": running.connection.where,
                "reader_processes": running.parts.reader_processes,
            },
        )
        await until_stopped()
        _LOG.info("worker stopping", extra={"in_hand": running.worker.in_hand if running.worker else 0})
