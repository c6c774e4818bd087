"""Real planes for the tests: an S3 server on loopback, and the object stores."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from quire.objects.object_store import ObjectStore


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("s3") / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from moto.server import main; main()",
                "-H",
                "127.0.0.1",
                "-p",
                str(port),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 60
        while not _answers(endpoint):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the S3 server did not start: {log.read_text()}")
            time.sleep(0.05)
        request = urllib.request.Request(f"{endpoint}/planes", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        yield endpoint
    finally:
        server.kill()
        server.wait()


def _answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@pytest.fixture(scope="session")
def s3_credentials(s3_endpoint: str) -> dict[str, str]:
    return {
        "endpoint": s3_endpoint,
        "access_key_id": "test",
        "secret_access_key": "test",
        "region": "us-east-1",
    }


@pytest.fixture(params=["directory", "s3"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    """The same suite for every implementation of the objects plane."""
    if request.param == "directory":
        opened = ObjectStore.open(str(tmp_path / "objects"), tmp_path / "scratch")
    else:
        opened = ObjectStore.open(
            f"s3://planes/{tmp_path.name}",
            tmp_path / "scratch",
            credentials=request.getfixturevalue("s3_credentials"),
            scratch_bytes=1_000_000,
        )
    yield opened
    await opened.close()
