"""Elements of a page, and the Markdown that is made of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from quire.batching.dolphin_provider import markdown_of, read_page
from quire.batching.image_head import read_image_head
from quire.batching.parse_intake import ParseSubmission
from quire.bootstrap import runtime
from quire.coordination.parse_requests import KnownRequest
from quire.errors import CoordinationError, PageError
from quire.reading.ocr.picture_elements import ElementOptions, read_elements
from quire.settings import load
from tests.support.parse_fixtures import ROOT, Services
from tests.support.serving import client_of
from tests.support.waiting import DEADLINE_S

FONT = 34


def page() -> bytes:
    """A title, a paragraph, a list, a table and a dark figure, drawn as a scan would show them."""
    picture = Image.new("L", (1700, 2200), 255)
    draw = ImageDraw.Draw(picture)
    draw.text((150, 120), "Quarterly Report", fill=0, font=ImageFont.load_default(84))
    body = ImageFont.load_default(FONT)
    for row, line in enumerate(
        [
            "The harvest was better than in any year before, and the",
            "barns of the valley were full by the end of September.",
            "Nobody had expected this after the long and dry spring.",
        ]
    ):
        draw.text((150, 300 + 50 * row), line, fill=0, font=body)
    for row, line in enumerate(["1. Sell the wheat", "2. Store the barley", "3. Feed the oats"]):
        draw.text((150, 620 + 50 * row), line, fill=0, font=body)
    for row, cells in enumerate(
        [("Grain", "Tons", "Price"), ("Wheat", "120", "210"), ("Barley", "95", "180"), ("Oats", "40", "150")]
    ):
        for column, cell in enumerate(cells):
            draw.text((150 + 420 * column, 960 + 60 * row), cell, fill=0, font=body)
    picture.paste(Image.effect_noise((700, 500), 90).convert("L"), (400, 1400))
    out = BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def elements() -> list[dict[str, object]]:
    found = read_elements(page(), ElementOptions())
    return [
        {"label": one.label, "bbox": list(one.bbox), "text": one.text, "reading_order": one.reading_order}
        for one in found
    ]


def test_parts_are_told_apart_when_a_page_has_all_of_them(elements: list[dict[str, object]]) -> None:
    by_label = {str(one["label"]): str(one["text"]) for one in elements}
    assert by_label["title"] == "Quarterly Report"
    assert by_label["para"].startswith("The harvest was better than in any year before, and the barns")
    assert by_label["list"].splitlines() == ["1. Sell the wheat", "2. Store the barley", "3. Feed the oats"]
    assert by_label["table"].splitlines()[1] == "Wheat | 120 | 210"
    assert [one["reading_order"] for one in elements] == list(range(len(elements)))


def test_boxes_are_where_the_parts_are_when_a_page_is_read(elements: list[dict[str, object]]) -> None:
    title = next(one for one in elements if one["label"] == "title")
    left, top, right, bottom = title["bbox"]  # type: ignore[misc]
    assert 140 <= left <= 165
    assert 110 <= top <= 160
    assert right > 700
    assert bottom < 240


def test_markdown_is_made_when_elements_are_there(elements: list[dict[str, object]]) -> None:
    text = markdown_of(elements)
    assert text.startswith("# Quarterly Report\n\nThe harvest")
    assert "1. Sell the wheat\n2. Store the barley" in text
    assert "| Grain | Tons | Price |\n| --- | --- | --- |\n| Wheat | 120 | 210 |" in text


def test_markdown_is_safe_when_a_backend_gives_html() -> None:
    text = markdown_of(
        [
            {"label": "para", "bbox": [0, 0, 1, 1], "text": "<script>x</script>", "reading_order": 2},
            {"label": "tab", "bbox": [], "text": "<table><tr><th>a|b</th><td>c</table>", "reading_order": 1},
            {"label": "header", "bbox": [], "text": "Page 7", "reading_order": 0},
            {"label": "para", "bbox": [], "text": "# no heading", "reading_order": 3},
            {"label": "fig", "bbox": [], "text": "", "reading_order": 4},
        ]
    )
    assert (
        text == "| a\\|b | c |\n| --- | --- |\n\n&lt;script>x&lt;/script>\n\n\\# no heading\n\n![figure](#)"
    )


def test_damaged_picture_is_an_error_when_it_is_read() -> None:
    with pytest.raises(PageError):
        read_elements(page()[:5000], ElementOptions())


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_size_is_seen_when_a_picture_begins(kind: str) -> None:
    out = BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "x" * 30_000
    Image.new("RGB", (321, 123)).save(out, kind, **({"exif": exif} if kind == "JPEG" else {}))
    found = read_image_head(out.getvalue())
    assert found is not None
    assert (found.kind, found.width, found.height) == (kind.lower(), 321, 123)
    assert read_image_head(out.getvalue()[:20]) is None


@pytest.fixture(scope="module")
def backend_url() -> Iterator[str]:
    """`quire backend` in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "quire", "backend", "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process.stdout.readline().split()[-1]
    process.terminate()
    assert process.wait(DEADLINE_S) == 0


def asked(url: str) -> object:
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        return json.load(answer)


async def test_page_is_read_when_the_backend_is_quire_itself(backend_url: str, services: Services) -> None:
    service = services.start(BATCH_BACKEND_URL=backend_url)
    async with client_of(service) as client:
        good, bad = await asyncio.gather(
            client.post("/parse", data=page(), headers={"Content-Type": "image/png"}),
            client.post("/parse", data=page()[:5000], headers={"Content-Type": "image/png"}),
        )
    assert good.status == 200
    assert good.json["results"][0] | {"bbox": 0} == {
        "label": "title",
        "bbox": 0,
        "text": "Quarterly Report",
        "reading_order": 0,
    }
    assert bad.status == 422
    assert await asyncio.to_thread(asked, f"{backend_url}/health") == {"status": "healthy"}


async def test_page_is_read_on_this_machine_when_no_backend_is_set(tmp_path: Path) -> None:
    settings = load({"DATA_DIR": str(tmp_path), "READER_PROCESSES": "1"})
    async with runtime(settings, owner="test", kinds=[], batching=True) as running:
        assert running.batcher is not None
        read = await read_page(running.batcher, page(), team="t", filename="p1.png", key="job-p1")
        again = await read_page(running.batcher, page(), team="t", filename="p1.png", key="job-p1")
        with pytest.raises(PageError):
            await read_page(running.batcher, page()[:5000], team="t", filename="p2.png", key="job-p2")
    assert read.markdown.startswith("# Quarterly Report")
    assert again.batch_id == read.batch_id


async def test_caller_with_a_key_may_send_again_when_the_server_loses_its_request_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key was known a moment ago: what is lost is not what the caller asked for in vain (404)."""
    settings = load({"DATA_DIR": str(tmp_path), "READER_PROCESSES": "1"})
    async with runtime(settings, owner="test", kinds=[], batching=True) as running:
        batcher = running.batcher
        assert batcher is not None
        await read_page(batcher, page(), team="t", filename="p1.png", key="job-p1")
        queue = batcher._parts.queue
        find, known = queue.find_by_key, []

        async def find_and_lose(team: str, key: str) -> str | None:
            known.append(await find(team, key))
            await running.connection.command("FLUSHALL")
            return known[0]

        monkeypatch.setattr(queue, "find_by_key", find_and_lose)
        assert await batcher.resume("t", "job-p1") is None
        assert known[0]

        async def accept_and_lose(_submission: ParseSubmission) -> KnownRequest:
            return KnownRequest(known[0])

        monkeypatch.setattr(batcher._intake, "accept", accept_and_lose)
        with pytest.raises(CoordinationError) as lost:
            await read_page(batcher, page(), team="t", filename="p1.png", key="job-p2")
        assert lost.value.retryable
