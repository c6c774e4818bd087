"""A server with workers on an S3 of its own, and one whose pages only a dispatcher outside reads."""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from io import BytesIO

import pytest

from tests.support.serving import Client, Server, client_of
from tests.support.shared_services import SharedServices
from tests.support.waiting import DEADLINE_S

TOKEN = "token-of-the-dispatcher-outside"


@dataclass(frozen=True)
class Bucket:
    """A bucket of the test's own S3, over plain HTTP."""

    endpoint: str
    name: str

    def put(self, key: str, data: bytes) -> str:
        self._ask(key, "PUT", data)
        return f"s3://{self.name}/{key}"

    def get(self, key: str) -> bytes:
        return self._ask(key, "GET", None)

    def read(self, url: str) -> str:
        return self.get(url.removeprefix(f"s3://{self.name}/")).decode()

    def _ask(self, key: str, method: str, data: bytes | None) -> bytes:
        signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        # Without a type of its own the body would be taken for a form, and apart.
        headers = {"Authorization": signed, "Content-Type": "application/octet-stream"}
        place = f"{self.endpoint}/{self.name}/{urllib.parse.quote(key)}"
        request = urllib.request.Request(place, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            found: bytes = answer.read()
        return found


@pytest.fixture(scope="session")
def make_bucket(s3_endpoint: str) -> Callable[[str], Bucket]:
    def make(name: str) -> Bucket:
        request = urllib.request.Request(f"{s3_endpoint}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=DEADLINE_S).close()
        return Bucket(s3_endpoint, name)

    return make


@pytest.fixture(scope="session")
def bucket(make_bucket: Callable[[str], Bucket]) -> Bucket:
    """That of AWS_S3_BUCKET."""
    return make_bucket("ghost-files")


@pytest.fixture(scope="session")
def aws(s3_endpoint: str) -> dict[str, str]:
    return {
        "AWS_S3_BUCKET": "ghost-files",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-bucket",
        "AWS_ENDPOINT_URL": s3_endpoint,
    }


@pytest.fixture
def server(
    shared_services: SharedServices,
    tmp_path_factory: pytest.TempPathFactory,
    aws: dict[str, str],
    bucket: Bucket,
) -> Server:
    settings = {
        **aws,
        "API_KEYS": "alpha:key-of-alpha,beta:key-of-beta",
        "ALLOW_PRIVATE_URLS": "true",
        "S3_ALLOWED_BUCKETS": "ghost-more/open,gs://ghost-more",
        "EXPORT_MAX_ATTEMPTS": "2",
        "MAX_UPLOAD_MB": "4MB",
        "READER_PROCESSES": "1",
        "RETRY_BASE_DELAY": "20ms",
        "RETRY_JITTER": "0",
    }
    return shared_services.get("ghost", lambda: Server(tmp_path_factory.mktemp("server"), **settings))


@pytest.fixture(scope="module")
def outside_server(
    start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Everything but single pages is done by a worker beside it; those are left to a dispatcher outside."""
    server = start_server(
        RUN_DISPATCHER="0", INTERNAL_TOKEN=TOKEN, API_KEYS="alpha:key-of-alpha,beta:key-of-beta"
    ).wait_ready()
    worker = Server(
        tmp_path_factory.mktemp("worker"),
        "worker",
        "--queues",
        "download,split,read,merge,export",
        DATA_DIR=str(server.data_dir),
        READER_PROCESSES="1",
    )
    yield server
    worker.stop()


@pytest.fixture
async def outside(outside_server: Server) -> AsyncIterator[Client]:
    async with client_of(outside_server, "key-of-alpha") as one:
        yield one


@pytest.fixture(scope="session")
def make_mixed() -> Callable[..., bytes]:
    """A page for each text; `None` is a page that is only a picture, `[…]` one with text and a picture."""

    def make(*pages: str | list[str] | None) -> bytes:
        from PIL import Image, ImageDraw
        from reportlab.lib.utils import ImageReader
        from reportlab.pdfgen.canvas import Canvas

        out = BytesIO()
        canvas = Canvas(out, invariant=1)
        for page in pages:
            if not isinstance(page, str):
                picture = Image.new("RGB", (1200, 1500), "white")
                draw = ImageDraw.Draw(picture)
                for step in range(0, 1500, 40):
                    draw.line((100, step, 1100, 1500 - step), fill=(step % 255, 80, 160), width=9)
                height = 780 if page is None else 420
                canvas.drawImage(ImageReader(picture), 20, 20, width=550, height=height)
            for row, line in enumerate([page] if isinstance(page, str) else page or []):
                canvas.drawString(72, 760 - 16 * row, line)
            canvas.showPage()
        canvas.save()
        return out.getvalue()

    return make
