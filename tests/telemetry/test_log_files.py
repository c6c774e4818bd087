"""LOG_FILE: rotation, compression, retention, and several processes on one file."""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quire.settings import LoggingSettings
from quire.telemetry.log_files import SharedFileHandler
from quire.telemetry.logs import configure

log = logging.getLogger("quire.test")

WRITER = """
import io, logging, sys
from pathlib import Path
from quire.settings import LoggingSettings
from quire.telemetry.logs import configure
target, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
take_down = configure(
    LoggingSettings(pretty="false", file=target, max_size_bytes=200_000, max_backups=1000), io.StringIO()
)
for number in range(count):
    logging.getLogger("quire.test").info("line", extra={"by": name, "n": number})
take_down()
"""


def rotated(target: Path) -> list[Path]:
    return sorted(one for one in target.parent.iterdir() if one.name.startswith(f"{target.name}.2"))


def lines(target: Path) -> list[dict[str, object]]:
    texts = [
        gzip.decompress(one.read_bytes()) if one.suffix == ".gz" else one.read_bytes()
        for one in rotated(target)
    ]
    return [json.loads(line) for part in [*texts, target.read_bytes()] for line in part.splitlines()]


def write(settings: LoggingSettings, count: int) -> None:
    take_down = configure(settings, io.StringIO())
    for number in range(count):
        log.info("Line %d", number)
    take_down()


def test_newest_lines_are_kept_in_order_when_the_file_was_rotated_often(tmp_path: Path) -> None:
    target = tmp_path / "logs" / "quire.log"
    write(LoggingSettings(pretty="false", file=target, max_size_bytes=2_000, max_backups=3), 200)
    aside = rotated(target)
    assert len(aside) == 3
    assert all(one.suffix == ".gz" for one in aside)
    numbers = [int(str(line["event"]).split()[1]) for line in lines(target)]
    assert numbers == list(range(numbers[0], 200))


def test_rotated_files_stay_plain_when_compression_is_off(tmp_path: Path) -> None:
    target = tmp_path / "quire.log"
    write(
        LoggingSettings(pretty="false", file=target, max_size_bytes=2_000, max_backups=500, compress=False),
        100,
    )
    assert rotated(target)
    assert all(one.suffix != ".gz" for one in rotated(target))
    assert [line["event"] for line in lines(target)] == [f"Line {n}" for n in range(100)]


def test_rotated_file_is_deleted_when_it_is_too_old(tmp_path: Path) -> None:
    target = tmp_path / "quire.log"
    old = tmp_path / "quire.log.20200101T000000.000000Z.gz"
    old.write_bytes(gzip.compress(b"{}\n"))
    long_ago = time.time() - 31 * 86_400
    os.utime(old, (long_ago, long_ago))
    write(LoggingSettings(pretty="false", file=target, max_size_bytes=2_000, max_age_days=30), 50)
    assert not old.exists()
    assert rotated(target)


def test_plain_file_of_a_process_that_died_is_compressed_by_the_next_rotation(tmp_path: Path) -> None:
    target = tmp_path / "quire.log"
    left = tmp_path / "quire.log.20990101T000000.000000Z"
    left.write_text('{"event": "left"}\n')
    write(LoggingSettings(pretty="false", file=target, max_size_bytes=2_000), 50)
    assert not left.exists()
    assert gzip.decompress(Path(f"{left}.gz").read_bytes()) == b'{"event": "left"}\n'


def test_lines_go_to_a_new_file_when_an_operator_moved_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "quire.log"
    take_down = configure(LoggingSettings(pretty="false", file=target), io.StringIO())
    log.info("before")
    target.rename(tmp_path / "moved.log")
    log.info("after")
    take_down()
    assert "before" in (tmp_path / "moved.log").read_text()
    assert "after" in target.read_text()


def test_no_line_is_lost_when_four_processes_share_a_file_that_is_rotated(tmp_path: Path) -> None:
    target, count = tmp_path / "quire.log", 3_000
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(target), f"w{n}", str(count)]) for n in range(4)
    ]
    assert [one.wait() for one in writers] == [0, 0, 0, 0]
    found = lines(target)
    assert len(rotated(target)) > 3
    for name in ("w0", "w1", "w2", "w3"):
        assert [line["n"] for line in found if line["by"] == name] == list(range(count))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_service_goes_on_when_the_disk_of_the_log_is_full(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "quire.log"
    target.symlink_to("/dev/full")
    take_down = configure(LoggingSettings(pretty="false", file=target), io.StringIO())
    log.info("lost")
    take_down()
    assert "could not be written" in capsys.readouterr().err


def test_process_goes_on_when_standard_error_is_closed() -> None:
    script = (
        "import logging, os, sys\nfrom quire.settings import LoggingSettings\n"
        "from quire.telemetry.logs import configure\n"
        "configure(LoggingSettings(pretty='false'))\nos.close(2)\n"
        "logging.getLogger('quire').error('nobody reads this')\nprint('still here')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.strip() == "still here"


def test_files_are_private_when_made(tmp_path: Path) -> None:
    target = tmp_path / "quire.log"
    write(LoggingSettings(pretty="false", file=target, max_size_bytes=2_000), 50)
    assert {one.stat().st_mode & 0o077 for one in tmp_path.iterdir()} == {0}


def test_handler_refuses_when_there_is_no_file() -> None:
    with pytest.raises(ValueError, match="LOG_FILE"):
        SharedFileHandler(LoggingSettings())
