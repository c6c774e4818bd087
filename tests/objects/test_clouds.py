"""`gs://` and `az://` against servers that speak their protocols: both are far away, and neither is ours."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from quire.errors import DownloadError, LinkRefusedError, TooLargeError
from quire.objects.buckets import Address, Buckets, source_address
from quire.objects.object_store import ObjectStore
from quire.objects.partial_downloads import Partial
from quire.pipeline.stages.download_stage import clouds_of
from quire.settings import load
from tests.support.cloud_servers import ACCOUNT, KEY, Azure, Cloud
from tests.support.link_servers import Received, serving
from tests.support.waiting import DEADLINE_S


async def fetched(buckets: Buckets, url: str, max_bytes: int = 1 << 20) -> bytes:
    got = Received()
    await buckets.fetch(buckets.check(url), got, max_bytes=max_bytes, timeout_s=DEADLINE_S)
    return bytes(got)


def buckets_with(**settings: str) -> Buckets:
    found = load({"S3_ALLOWED_BUCKETS": "gs://open,az://open/in", **settings})
    return Buckets(found.aws.places, "", clouds_of(found))


async def one(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_document_is_fetched_when_it_is_on_google_cloud_storage(tmp_path: Path) -> None:
    cloud = Cloud({"/open/folder/a b#1.pdf": b"%PDF of Google"})
    async with serving(cloud.serve) as port:
        key = {
            "gcs_base_url": f"http://127.0.0.1:{port}",
            "disable_oauth": True,
            **dict.fromkeys(("client_email", "private_key", "private_key_id"), ""),
        }
        (tmp_path / "key.json").write_text(json.dumps(key))
        for settings in (
            {"GCS_ANONYMOUS": "true", "GCS_ENDPOINT_URL": f"http://127.0.0.1:{port}"},
            {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key), "GCS_ENDPOINT_URL": f"http://127.0.0.1:{port}"},
        ):
            buckets = buckets_with(**settings)
            assert await fetched(buckets, "gs://open/folder/a b#1.pdf") == b"%PDF of Google"
            with pytest.raises(DownloadError) as caught:
                await fetched(buckets, "gs://open/none.pdf")
            assert not caught.value.retryable
            with pytest.raises(TooLargeError):
                await fetched(buckets, "gs://open/folder/a b#1.pdf", max_bytes=5)
            with pytest.raises(LinkRefusedError):
                buckets.check("gs://other/a.pdf")


@pytest.mark.parametrize(
    "credentials",
    [
        {"AZURE_STORAGE_ACCOUNT_KEY": KEY},
        {"AZURE_STORAGE_SAS_TOKEN": "sv=2023-01-01&sig=right"},
    ],
)
async def test_document_is_fetched_when_it_is_on_azure(credentials: dict[str, str]) -> None:
    cloud = Azure({"/open/in/a b.pdf": b"%PDF of Azure"})
    async with serving(cloud.serve) as port:
        account = {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}",
        }
        buckets = buckets_with(**account, **credentials)
        assert await fetched(buckets, "az://open/in/a b.pdf") == b"%PDF of Azure"
        assert await buckets.put(Address.parse("az://open/in/a.md"), one(b"# A"), timeout_s=DEADLINE_S) == 3
        assert cloud.objects["/open/in/a.md"] == b"# A"
        assert cloud.wrong == []
        with pytest.raises(LinkRefusedError):
            buckets.check("az://open/a.pdf")
        wrong = base64.b64encode(b"another key").decode()
        refused = buckets_with(**account, AZURE_STORAGE_ACCOUNT_KEY=wrong)
        with pytest.raises(DownloadError, match="refuses the service's credentials") as caught:
            await fetched(refused, "az://open/in/a b.pdf")
    assert not caught.value.retryable
    assert wrong not in str(caught.value)


async def test_only_the_rest_is_fetched_when_a_part_of_the_same_version_is_there(tmp_path: Path) -> None:
    document = bytes(range(256)) * 100
    cloud = Cloud({"/open/a.pdf": document})
    async with serving(cloud.serve) as port:
        buckets = buckets_with(GCS_ANONYMOUS="true", GCS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
        for validator, asked in (
            (cloud.version("/open/a.pdf")["ETag"], ["GET /open/a.pdf bytes=1000-"]),
            ('"another"', ["GET /open/a.pdf bytes=1000-", "GET /open/a.pdf"]),
            ("", ["GET /open/a.pdf"]),
        ):
            cloud.asked.clear()
            async with Partial(tmp_path, "job", "source") as part:
                await part.restart(validator)
                await part.write(document[:1000])
                address = buckets.check("gs://open/a.pdf")
                await buckets.fetch(address, part, max_bytes=1 << 20, timeout_s=DEADLINE_S)
                assert b"".join([piece async for piece in part.pieces()]) == document
            assert cloud.asked == asked


async def test_proxies_of_the_environment_are_ignored_when_buckets_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    cloud = Cloud({"/open/a.pdf": b"direct"})
    seen: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append(str(request.url))
        return web.Response(
            body=b"by way of the proxy",
            headers={"Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT", "ETag": '"p"'},
        )

    async with serving(cloud.serve) as port, serving(proxy) as proxy_port:
        endpoint = {"GCS_ANONYMOUS": "true", "GCS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        assert await fetched(buckets_with(**endpoint), "gs://open/a.pdf") == b"direct"
        chosen = buckets_with(**endpoint, BUCKETS_PROXY_URL=f"http://127.0.0.1:{proxy_port}")
        assert await fetched(chosen, "gs://open/a.pdf") == b"by way of the proxy"
    assert len(seen) == 1


async def test_own_objects_can_be_kept_when_the_store_is_on_azure(tmp_path: Path) -> None:
    cloud = Azure()
    async with serving(cloud.serve) as port:
        settings = load(
            {
                "OBJECT_STORE": "az://open/quire",
                "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": KEY,
                "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}",
            }
        )
        store = ObjectStore.open(settings.objects_location, tmp_path, clouds=clouds_of(settings))
        await store.put("jobs/1/result", b"# Result")
        assert await store.get("jobs/1/result") == b"# Result"
        link = await store.link("jobs/1/result", 60)
        await store.close()
    assert list(cloud.objects) == ["/open/quire/jobs/1/result"]
    assert link is not None
    assert "sig=" in link
    assert KEY not in link


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("in/a.pdf", "s3://main/in/a.pdf"),
        ("/in/a b.pdf", "s3://main/in/a b.pdf"),
        ("s3://other/a.pdf", "s3://other/a.pdf"),
        ("https://example.org/a.pdf", "https://example.org/a.pdf"),
        ("file:/etc/passwd", "file:/etc/passwd"),
    ],
)
def test_bare_key_is_in_the_bucket_when_there_is_one(given: str, found: str) -> None:
    assert source_address(given, "main") == found
    assert source_address(given, "") == given


@pytest.mark.parametrize("given", ["../a.pdf", "in/../../a.pdf", "in//a.pdf", "in/", "a\nb"])
def test_bare_key_is_refused_when_it_is_malformed(given: str) -> None:
    with pytest.raises(LinkRefusedError):
        source_address(given, "main")


def test_secrets_are_not_shown_when_credentials_are_printed() -> None:
    settings = load({"AZURE_STORAGE_ACCOUNT_KEY": KEY, "GOOGLE_SERVICE_ACCOUNT_KEY": "{secret}"})
    shown = repr(clouds_of(settings)) + str([view.value_shown for view in settings.describe()])
    assert KEY not in shown
    assert "{secret}" not in shown
