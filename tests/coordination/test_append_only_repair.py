"""What of a damaged append-only file is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.coordination.append_only_repair import cut_damaged_tail, valid_length

SELECT = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"
SET = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
MULTI, EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"


@pytest.mark.parametrize(
    ("valid", "damaged"),
    [
        (SELECT + SET, b""),
        (SELECT + SET, SET[:-1]),
        (SELECT + SET, bytes(4096)),
        (SELECT + MULTI + SET + EXEC, SET[:5]),
        (SELECT, MULTI + SET + SET),
        (SELECT, MULTI + MULTI + b"\0" + EXEC),
        (SELECT + b"#TS:1\r\n", b"#TS:"),
        (b"", b"*99999999999999999999\r\n" + SET),
    ],
)
def test_complete_commands_and_transactions_are_kept(tmp_path: Path, valid: bytes, damaged: bytes) -> None:
    log = tmp_path / "appendonly.aof.1.incr.aof"
    log.write_bytes(valid + damaged)
    assert valid_length(log) == len(valid)
    shown = cut_damaged_tail(tmp_path, tmp_path / "aside", dry_run=True)
    assert log.read_bytes() == valid + damaged
    done = cut_damaged_tail(tmp_path, tmp_path / "aside")
    assert log.read_bytes() == valid
    if not damaged:
        assert done is None
        return
    assert done is not None
    assert shown is not None
    assert done.cut_bytes == shown.cut_bytes == len(damaged)
    assert (done.kept / log.name).read_bytes() == valid + damaged
    assert cut_damaged_tail(tmp_path, tmp_path / "aside") is None
