"""Tests that start one of each server and then never end. `test_interrupted_runs.py` runs and kills them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.coordination_servers import plain_server
from tests.support.postgres import PostgresServer
from tests.support.s3_fixtures import S3
from tests.support.serving import Server


def _never_end(name: str) -> None:
    Path(os.environ["ENDLESS_FOLDER"], f"{name}-{os.getpid()}").touch()
    threading.Event().wait()


def test_services(start_vault: Callable[..., Server], postgres: PostgresServer) -> None:
    start_vault(DATABASE_URL=postgres.fresh_database())
    with plain_server():
        _never_end("services")


def test_one_server() -> None:
    with plain_server():
        _never_end("one_server")


def test_far_things(seaweedfs: S3, moto: S3) -> None:
    from tests.web.browsing import CHROMIUM, browser

    if CHROMIUM.exists():
        with browser():
            _never_end("far-things")
    _never_end("far-things")
