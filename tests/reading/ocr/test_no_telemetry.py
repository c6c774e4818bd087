"""onnxruntime reports to its maker unless it is told not to before it is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.environment import clean_environment
from tests.support.waiting import DEADLINE_S


def test_nothing_is_kept_to_be_reported_when_models_are_loaded(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", "import quire, onnxruntime"],
        env=clean_environment(HOME=str(tmp_path)),
        check=True,
        timeout=DEADLINE_S,
    )
    assert list(tmp_path.rglob("*")) == []
