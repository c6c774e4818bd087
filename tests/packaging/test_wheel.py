"""The wheel: complete, described, and usable in an environment of its own outside the repository."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import quire
from tests.support.environment import ROOT, clean_environment
from tests.support.waiting import DEADLINE_S

_SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


def _run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean_environment(HOME=str(cwd), PYTHONPATH="", PIP_DISABLE_PIP_VERSION_CHECK="1"),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is written into the repository."""
    source = tmp_path_factory.mktemp("source")
    for name in _SOURCES:
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    # Without isolation nothing is downloaded; an older setuptools does not know the licence field.
    known = int(importlib.metadata.version("setuptools").split(".")[0]) >= 77
    options = ["--no-build-isolation"] if known else []
    _run(sys.executable, "-m", "pip", "wheel", "--no-deps", *options, "-w", "dist", ".", cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    package = ROOT / "src"
    wanted = {
        str(path.relative_to(package))
        for path in (package / "quire").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        assert wanted - set(archive.namelist()) == set()


def test_wheel_is_described_as_an_index_shows_it(metadata: Message) -> None:
    assert metadata["Version"] == quire.__version__
    assert metadata["License-Expression"] == "AGPL-3.0-or-later"
    assert metadata["Author"] == "The Quire maintainers"
    assert metadata["Keywords"]
    assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier", [])
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload())
    assert text.startswith("# Quire")
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", text) == [], "links to files lead nowhere on an index"
    assert "docs/client.md" in text


def test_document_is_converted_when_the_wheel_is_installed_elsewhere(
    wheel: Path, tmp_path: Path, make_pdf: object
) -> None:
    home = tmp_path / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", home, cwd=tmp_path)
    installed = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    install = ("install", "--no-deps", "--no-index", "--no-compile", wheel)
    _run(sys.executable, "-m", "pip", "--python", home / "bin" / "python", *install, cwd=tmp_path)
    # Dependencies are those of this environment; its .pth files, and so its editable Quire, are not read from there.
    (installed / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    where = _run(home / "bin" / "python", "-c", "import quire; print(quire.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(home)
    assert _run(home / "bin" / "quire", "--version", cwd=tmp_path) == f"quire {quire.__version__}\n"
    (tmp_path / "a.pdf").write_bytes(make_pdf("Converted far from home"))  # type: ignore[operator]
    assert "Converted far from home" in _run(home / "bin" / "quire", "convert", "a.pdf", cwd=tmp_path)
