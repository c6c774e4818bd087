"""Two threads share the lines of a page, and the page is the same by one and by two."""

from __future__ import annotations

import os
import threading

import pytest

from quire.reading.ocr import careful_reader
from quire.reading.ocr.line_threads import MANY_LINES, for_each_line
from tests.reading.ocr import scans
from tests.support.waiting import DEADLINE_S


def test_two_threads_read_at_the_same_time_when_there_are_two_cores() -> None:
    both = threading.Barrier(2, timeout=DEADLINE_S)

    def read(line: int) -> int:
        if line < 2:
            both.wait()  # broken where one thread has to read both
        return line * 10

    lines = list(range(MANY_LINES))
    assert for_each_line(read, lines, cores=2) == [line * 10 for line in lines]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lines")]


@pytest.mark.parametrize(("count", "cores"), [(MANY_LINES, 1), (MANY_LINES - 1, 2)])
def test_one_thread_reads_all_lines_when_they_are_few_or_there_is_one_core(count: int, cores: int) -> None:
    readers = for_each_line(lambda _: threading.get_ident(), range(count), cores=cores)
    assert readers == [threading.get_ident()] * count


@pytest.mark.parametrize("fails_in_main", [True, False])
def test_the_failure_is_raised_when_a_line_fails_in_either_thread(*, fails_in_main: bool) -> None:
    both = threading.Barrier(2, timeout=DEADLINE_S)

    def fail(line: int) -> None:
        if line < 2:
            both.wait()
            if (threading.current_thread() is threading.main_thread()) == fails_in_main:
                raise MemoryError

    with pytest.raises(MemoryError):
        for_each_line(fail, range(MANY_LINES), cores=2)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lines")]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores can't be chosen here")
def test_a_page_reads_the_same_when_it_has_one_core() -> None:
    picture = scans.noisy(scans.sheet(3, filled=0.6).picture, 3)
    cores = os.sched_getaffinity(0)
    read = careful_reader.read(picture, ["eng"])
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert careful_reader.read(picture, ["eng"]) == read
    finally:
        os.sched_setaffinity(0, cores)
    assert len(list(read.lines())) >= MANY_LINES
