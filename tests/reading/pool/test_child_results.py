"""What children send back is data: bytes of any other shape are refused, and nothing in them is ever run."""

from __future__ import annotations

import ast
import importlib
import pickle
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quire.errors import CoordinationError, PageCrashedError, PageTimeoutError, PasswordWrongError, QuireError
from quire.reading.files.page_chunks import Chunk, read_chunk
from quire.reading.pool import child_results
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.reading.pool.child_results import (
    MalformedAnswerError,
    decode_error,
    decode_result,
    encode_error,
    encode_result,
)
from tests.reading.pool import pool_tasks
from tests.support.environment import ROOT
from tests.support.waiting import DEADLINE_S

MARK = Path("/tmp/quire-was-here")
SOURCE = ROOT / "src" / "quire"


@pytest.fixture
async def pool() -> AsyncIterator[ChildPool]:
    made = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=()))
    yield made
    await made.close()


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    places: tuple[tuple[int, float], ...]
    picture: bytes


def found() -> Found:
    raise NotImplementedError


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("import pathlib; pathlib.Path('/tmp/quire-was-here').touch()",)


def test_result_comes_back_with_its_types() -> None:
    value = Found("a\ud800b", ((1, 2.5),), b"\x00\xff")
    assert decode_result(found, encode_result(value)) == Found("a?b", ((1, 2.5),), b"\x00\xff")


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Found("a", (), b"")),
        pickle.dumps(Bomb()),
        b"",
        b"\xc1",
        msgspec.msgpack.encode(["a", [], b""]),
        msgspec.msgpack.encode({"name": 1, "places": [], "picture": b""}),
        msgspec.msgpack.encode({"name": "a"}),
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
    ],
)
def test_bytes_of_another_shape_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedAnswerError):
        decode_result(found, content)


def test_error_keeps_its_class_text_and_policy() -> None:
    error = PasswordWrongError("The password is wrong.", retry_after_s=3)
    again = decode_error(encode_error(error))
    assert (type(again), again.public, again.retryable, again.retry_after_s) == (
        PasswordWrongError,
        "The password is wrong.",
        False,
        3,
    )


@pytest.mark.parametrize("name", ["CoordinationError", "CancelledError", "SystemExit", "Bomb", ""])
def test_error_is_refused_when_no_reader_raises_such(name: str) -> None:
    forged = msgspec.msgpack.encode([name, "text", True, None])
    with pytest.raises(MalformedAnswerError):
        decode_error(forged)


def test_text_of_an_error_is_bounded() -> None:
    forged = msgspec.msgpack.encode(["PageTimeoutError", "x" * 1_000_000, True, None])
    error = decode_error(forged)
    assert isinstance(error, PageTimeoutError)
    assert len(error.public) <= 2_000
    assert issubclass(CoordinationError, QuireError)


@pytest.mark.parametrize("task", [pool_tasks.answer_with_a_pickle, pool_tasks.answer_with_noise])
async def test_child_that_sends_something_else_costs_one_task_and_is_replaced(
    pool: ChildPool, task: Any
) -> None:
    before = await pool.run(pool_tasks.pid, timeout_s=DEADLINE_S)
    MARK.unlink(missing_ok=True)  # noqa: ASYNC240
    with pytest.raises(PageCrashedError):
        await pool.run(task, timeout_s=DEADLINE_S)
    assert not MARK.exists()  # noqa: ASYNC240
    assert await pool.run(pool_tasks.pid, timeout_s=DEADLINE_S) != before


async def test_answer_that_claims_to_be_huge_is_not_read(pool: ChildPool) -> None:
    with pytest.raises(PageCrashedError):
        await pool.run(pool_tasks.claim_a_huge_answer, timeout_s=DEADLINE_S)
    assert await pool.run(pool_tasks.pid, timeout_s=DEADLINE_S) > 0


def test_parent_never_unpickles() -> None:
    pool = SOURCE / "reading" / "pool"
    for name in (
        "child_pool.py",
        "child_process.py",
        "child_results.py",
        "child_task.py",
        "server_process.py",
    ):
        assert "pickle.loads" not in (pool / name).read_text()


def _functions_run_in_children() -> list[tuple[str, str]]:
    """Module and name of every function that is handed to `pool.run`, read from the source."""
    found: set[tuple[str, str]] = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imported = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name) and node.args:
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                first = node.args[0]
                module = imported.get(first.id, ("", ""))[0] if isinstance(first, ast.Name) else ""
                if called in ("run", "_run_in_child") and module.startswith(
                    ("quire.reading", "quire.classification")
                ):
                    found.add(imported[first.id])  # type: ignore[union-attr]
    return sorted(found)


def test_every_function_that_children_run_returns_a_type_that_can_be_checked() -> None:
    functions = _functions_run_in_children()
    assert len(functions) >= 8
    for module, name in functions:
        function = getattr(importlib.import_module(module), name)
        assert child_results._decoder(function).type is not Any, name


def test_chunk_survives_the_way_back() -> None:
    sample = ROOT / "samples" / "notes.md"
    from quire.reading.pdf.page_reader import ReadOptions

    chunk = read_chunk(str(sample), None, (1,), ReadOptions(), False)
    again = decode_result(read_chunk, encode_result(chunk))
    assert isinstance(again, Chunk)
    assert again == chunk
