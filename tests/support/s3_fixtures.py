"""S3 servers of the tests' own: one that checks signatures (SeaweedFS), and a quick one (moto)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import DEADLINE_S

_PORTS = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class S3:
    """An S3 server and the key to it."""

    endpoint: str
    key: str
    secret: str

    @property
    def settings(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": "us-east-1",
        }

    def client(self) -> Any:
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name="us-east-1",
            config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def keys(self, bucket: str) -> list[str]:
        found = self.client().list_objects_v2(Bucket=bucket).get("Contents", [])
        return sorted(one["Key"] for one in found)

    def read(self, bucket: str, key: str) -> bytes:
        body: bytes = self.client().get_object(Bucket=bucket, Key=key)["Body"].read()
        return body


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
        deadline = time.monotonic() + DEADLINE_S
        while not _answers(endpoint):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the S3 server did not start: {log.read_text()}")
            time.sleep(0.05)
        request = urllib.request.Request(f"{endpoint}/planes", method="PUT")
        urllib.request.urlopen(request, timeout=DEADLINE_S).close()
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


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    folder = tmp_path_factory.mktemp("seaweedfs")
    config = folder / "identities.json"
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": "key-of-the-tests", "secretKey": "secret-of-the-tests"}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    free = _free_ports(2 * len(_PORTS))
    ports = [f"-{name}.port{kind}={free.pop()}" for name in _PORTS for kind in ("", ".grpc")]
    s3_port = next(one for one in ports if one.startswith("-s3.port=")).partition("=")[2]
    log = folder / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("weed")),
                "server",
                f"-dir={folder / 'data'}",
                *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.config={config}"),
                *("-volume.max=500", "-master.volumeSizeLimitMB=30", "-master.telemetry=false"),
                *("-s3.port.iceberg=0", "-s3.port.lance=0"),
                *ports,
            ],
            cwd=folder,
            stdout=out,
            stderr=out,
        )
    found = S3(f"http://127.0.0.1:{s3_port}", "key-of-the-tests", "secret-of-the-tests")
    try:
        _wait_for(found, server, log)
        yield found
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="session")
def moto(s3_endpoint: str) -> S3:
    return S3(s3_endpoint, "test", "secret-of-moto")


@pytest.fixture(scope="session", params=["seaweedfs", "moto"])
def s3(request: pytest.FixtureRequest) -> S3:
    """The same tests for every S3 server there is."""
    found: S3 = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def bucket(s3: S3, request: pytest.FixtureRequest) -> str:
    """A new bucket for each test."""
    name = f"bucket-{abs(hash(request.node.nodeid)) % 10**12}"
    s3.client().create_bucket(Bucket=name)
    return name


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _wait_for(server: S3, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until an object can be written: the first bucket is there before the first volume is."""
    from botocore.exceptions import BotoCoreError, ClientError

    deadline = time.monotonic() + DEADLINE_S
    client = server.client()
    while True:
        try:
            client.create_bucket(Bucket="probe-of-the-tests")
            client.put_object(Bucket="probe-of-the-tests", Key="probe", Body=b"probe")
            return
        except (BotoCoreError, ClientError) as error:
            if getattr(error, "response", {}).get("Error", {}).get("Code") == "BucketAlreadyOwnedByYou":
                client.put_object(Bucket="probe-of-the-tests", Key="probe", Body=b"probe")
                return
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"SeaweedFS did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)
