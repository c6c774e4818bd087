"""What docs/client.md shows can be typed as it stands there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_fixtures import KEY
from tests.support.environment import ROOT
from tests.support.serving import Server

PAGE = ROOT / "docs" / "client.md"


def test_every_block_of_the_page_runs_when_typed_in_order(
    client_service: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_pdf: Callable[..., bytes]
) -> None:
    (tmp_path / "report.pdf").write_bytes(make_pdf("Report on harbour fees", "Second page", "Third page"))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, Any] = {}
    for block in blocks:
        typed = block.replace("http://127.0.0.1:8080", client_service.url).replace(
            'api_key="…"', f"api_key={KEY!r}"
        )
        exec(compile(typed, str(PAGE), "exec"), names)
    assert names["done"].status == "completed"
    assert (tmp_path / "back.pdf").read_bytes() == (tmp_path / "report.pdf").read_bytes()
    assert (tmp_path / "everything.zip").stat().st_size > 0
    shutil.rmtree(tmp_path)
