"""`quire batch` and `quire schemas` against a running service."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from quire.cli.arguments import parse
from quire.cli.exit_codes import CommandUsageError
from quire.cli.service_client import ServiceError
from quire.errors import MissingError
from tests.support.client_fixtures import KEY
from tests.support.serving import Server

Pdf = Callable[..., bytes]


@pytest.fixture
def command(service: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setenv("QUIRE_URL", service.url)
    monkeypatch.setenv("QUIRE_API_KEY", KEY)

    def run(*words: str) -> int:
        args = parse(words)
        return int(args.load_command()(args))

    return run


def test_a_batch_is_converted_shown_and_exported(
    command: Callable[..., int], make_pdf: Pdf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.pdf").write_bytes(make_pdf("By the command of batches"))
    (tmp_path / "bad.bin").write_bytes(b"\x7fELF" + b"\0" * 64)
    files = [str(tmp_path / name) for name in ("good.pdf", "bad.bin")]
    assert command("batch", *files, "-o", str(tmp_path / "all.zip")) == 3
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["completed", "failed"]
    with zipfile.ZipFile(tmp_path / "all.zip") as found:
        assert found.namelist() == ["good.md", "failures.json"]
    batch_id = shown.err.split()[2].rstrip(":")
    assert command("batch", "--id", batch_id, "--json") == 3
    assert json.loads(capsys.readouterr().out)["completed"] == 1
    assert command("batch", files[1]) == 1
    for words in (
        [],
        [files[0], "--id", batch_id],
        ["--cancel", files[0]],
        [files[0], "https://example.org/a"],
    ):
        with pytest.raises(CommandUsageError):
            command("batch", *words)
    with pytest.raises(ServiceError, match="no batch"):
        command("batch", "--id", "nothing")


def test_schemas_are_saved_shown_and_deleted(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = {"type": "object", "properties": {"total": {"type": "number"}}}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    assert (
        command("schemas", "save", "invoices", str(tmp_path / "s.json"), "--instructions", "All of it.") == 0
    )
    assert command("schemas", "list") == 0
    assert "invoices" in capsys.readouterr().out.splitlines()
    assert command("schemas", "show", "invoices") == 0
    assert json.loads(capsys.readouterr().out) == schema
    assert command("schemas", "show", "invoices", "--json") == 0
    assert json.loads(capsys.readouterr().out)["instructions"] == "All of it."
    with pytest.raises(ServiceError, match="name"):
        command("schemas", "save", "No Such Name", str(tmp_path / "s.json"))
    with pytest.raises(CommandUsageError, match="JSON"):
        command("schemas", "save", "x", str(tmp_path / "none.json"))
    assert command("schemas", "delete", "invoices") == 0
    with pytest.raises(MissingError, match="no schema"):
        command("schemas", "show", "invoices")
