"""`quire worker`: workers only, beside a running service."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Collection

from quire.api.operations.metrics_page import MetricsPage
from quire.api.operations.metrics_server import metrics_server
from quire.bootstrap import runtime
from quire.cli import exit_codes
from quire.cli.exit_codes import CommandUsageError
from quire.cli.interrupts import until_stopped
from quire.cli.startup import run_service, settings_from, warn_about_names
from quire.domain.job import UnitKind
from quire.settings import Settings
from quire.telemetry.logs import configure

_LOG = logging.getLogger(__name__)

QUEUES: dict[str, tuple[UnitKind, ...]] = {
    "download": (UnitKind.DOWNLOAD,),
    "split": (UnitKind.SPLIT,),
    "read": (UnitKind.READ,),
    "slow": (UnitKind.PAGE, UnitKind.EARLY),
    "page": (UnitKind.READ, UnitKind.PAGE, UnitKind.EARLY),
    "merge": (UnitKind.MERGE,),
    "export": (UnitKind.EXPORT,),
    "callback": (UnitKind.CALLBACK,),
    "classify": (UnitKind.VAULT, UnitKind.CLASSIFY, UnitKind.CLASSIFY_IMAGE),
    "embed": (UnitKind.EMBED,),
    "batch": (),
}
"""The unit kinds of each queue name. A worker that classifies also advances vault documents from one step to the next.
`batch` has no units: the worker forms batches of the requests that wait in `POST /parse`."""

_BATCH = "batch"


def run(args: argparse.Namespace) -> int:
    """Works until SIGTERM or SIGINT. Raises CommandUsageError, SettingsError or CoordinationError."""
    names = _names(args.queues) if args.queues is not None else list(QUEUES)
    kinds = kinds_of(names)
    settings = settings_from(args)
    take_down = configure(settings.logging)
    warn_about_names(settings)
    try:
        run_service(_work(settings, kinds, batching=_BATCH in names))
    finally:
        take_down()
    return exit_codes.OK


def _names(given: str) -> list[str]:
    """Raises CommandUsageError, with the names there are, for one that is not known."""
    wanted = [name.strip().lower() for name in given.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in QUEUES]
    if unknown:
        raise CommandUsageError(f"There is no queue {unknown[0]!r}. Known are: {', '.join(QUEUES)}.")
    if not wanted:
        raise CommandUsageError("--queues names no queue.")
    return wanted


def kinds_of(names: Collection[str]) -> list[UnitKind]:
    """The units behind the names of queues."""
    kinds = {kind for name in names for kind in QUEUES[name]}
    return [kind for kind in UnitKind if kind in kinds]


async def _work(settings: Settings, kinds: list[UnitKind], *, batching: bool) -> None:
    async with runtime(
        settings,
        owner="quire worker",
        kinds=kinds,
        attach=True,
        vault=True,
        batching=batching,
        metrics=True,
    ) as running:
        assert running.meters is not None  # noqa: S101 - asked for above
        page = MetricsPage(running, running.meters)
        _LOG.info(
            "worker process ready",
            extra={
                "worker": running.worker_id,
                "sends_batches": batching,
                "coordination": running.connection.where,
                "reader_processes": running.parts.reader_processes,
            },
        )
        async with metrics_server(settings, page):
            running.ready.set()
            await until_stopped()
        _LOG.info("worker stopping", extra={"in_hand": running.worker.in_hand if running.worker else 0})
