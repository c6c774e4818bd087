from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quire.errors import DamagedError
from quire.settings import LoggingSettings
from quire.telemetry.logs import REDACTED, configure, redact, redact_text

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Logs as JSON into memory; gives a function that reads them back."""
    stream = io.StringIO()
    take_down = configure(LoggingSettings(level="debug", pretty="false"), stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    take_down()


log = logging.getLogger("quire.test")


def test_extra_fields_are_json_fields_when_logged(lines: Lines) -> None:
    log.info("Page %d is done", 7, extra={"job_id": "j1", "pages": 3, "ok": True, "path": Path("/a/b")})
    (line,) = lines()
    assert line["event"] == "Page 7 is done"
    assert (line["level"], line["logger"]) == ("info", "quire.test")
    assert (line["job_id"], line["pages"], line["ok"], line["path"]) == ("j1", 3, True, "/a/b")
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize(
    "key",
    [
        *("password", "web_password", "API_KEY", "x-api-key", "apiKey", "Authorization", "access_token"),
        *("secret_key", "prompt", "ai_prompt", "text", "page_text", "pageText", "markdown", "content"),
        *("Set-Cookie", "body"),
    ],
)
def test_value_is_redacted_when_its_name_is_private(lines: Lines, key: str) -> None:
    log.info("x", extra={key: "hunter2", "nested": {"deep": [{key: "hunter2"}]}})
    (line,) = lines()
    assert line[key] == REDACTED
    assert "hunter2" not in json.dumps(line)


@pytest.mark.parametrize("key", ["content_type", "text_only", "key", "context", "content_ref", "page"])
def test_value_is_kept_when_its_name_only_resembles_a_private_one(key: str) -> None:
    assert redact({key: "kept"}) == {key: "kept"}


def test_numbers_are_kept_when_their_name_is_private() -> None:
    usage = {"prompt_tokens": 812, "total_tokens": 9.5, "text": None, "has_password": True}
    assert redact(usage) == usage


@pytest.mark.parametrize(
    ("said", "logged"),
    [
        ("GET https://u:hunter2@h.example/a?sig=hunter2#x now", "GET https://h.example/a now"),
        ("redis://:hunter2@cache:6379/0", "redis://cache:6379/0"),
        ('"GET /jobs?api_key=hunter2 HTTP/1.1" 200', '"GET /jobs HTTP/1.1" 200'),
        ("Authorization: Bearer hunter2hunter2", f"Authorization: {REDACTED} {REDACTED}"),
        ("sent bearer hunter2.hunter2-x", f"sent bearer {REDACTED}"),
        ("key sk-proj-hunter2hunter2 is bad", f"key {REDACTED} is bad"),
        ("password=hunter2, next", f"password={REDACTED}, next"),
        ('{"api_key": "hunter2 x"}', f'{{"api_key": {REDACTED}}}'),
        ("future: <Task exception=ValueError('hunter2 (x)')>", "future: <Task exception=ValueError(…)>"),
        ("nothing to hide: page 3 of 10, 50 % done", "nothing to hide: page 3 of 10, 50 % done"),
    ],
)
def test_message_loses_its_secrets_when_logged(lines: Lines, said: str, logged: str) -> None:
    log.warning(said)
    assert lines()[0]["event"] == logged


def test_message_is_cut_when_very_long() -> None:
    assert len(redact_text("a-" * 1_000_000)) == 4001


def test_bytes_and_deep_values_are_bounded_when_logged() -> None:
    deep: list[Any] = []
    deep.append(deep)
    assert redact(b"\x00secret") == "[7 bytes]"
    assert "[…]" in str(redact(deep))
    assert len(redact(list(range(10_000)))) == 100


def test_exception_shows_class_and_code_but_not_its_words_when_foreign(lines: Lines) -> None:
    try:
        try:
            int("hunter2")
        except ValueError as error:
            raise DamagedError("The file is damaged.") from error
    except DamagedError:
        log.exception("Reading failed")
    try:
        int("hunter2")
    except ValueError as error:
        log.error("Again", exc_info=error, extra={"cause": error})
    ours, foreign = lines()
    assert (ours["error_class"], ours["error_code"]) == ("DamagedError", "damaged_document")
    assert (ours["error"], ours["caused_by"]) == ("The file is damaged.", "ValueError")
    assert ours["where"][0].startswith("test_logs.py:")
    assert foreign["error_class"] == foreign["cause"] == "ValueError"
    assert "hunter2" not in json.dumps([ours, foreign])


def test_uncaught_exception_is_logged_when_a_thread_dies(lines: Lines) -> None:
    def die() -> None:
        raise ValueError("hunter2")

    thread = threading.Thread(target=die, name="doomed")
    thread.start()
    thread.join()
    (line,) = lines()
    assert (line["level"], line["error_class"]) == ("critical", "ValueError")
    assert "doomed" in line["event"]
    assert "hunter2" not in json.dumps(line)


def test_uncaught_exception_is_one_json_line_when_the_process_dies() -> None:
    script = (
        "from quire.settings import LoggingSettings\nfrom quire.telemetry.logs import configure\n"
        "configure(LoggingSettings())\npassword = 'hunter2'\nint(password)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stderr)["error_class"] == "ValueError"
    assert "hunter2" not in done.stderr


def test_uvicorn_lines_are_ours_when_logging_is_configured(lines: Lines) -> None:
    access = logging.getLogger("uvicorn.access")
    access.info('%s - "%s %s HTTP/%s" %d', "127.0.0.1:5", "GET", "/jobs?token=hunter2", "1.1", 200)
    logging.getLogger("uvicorn.error").info("Started", extra={"color_message": "\x1b[1mStarted"})
    first, second = lines()
    assert first["event"] == '127.0.0.1:5 - "GET /jobs HTTP/1.1" 200'
    assert (second["logger"], "color_message" in second) == ("uvicorn.error", False)


def test_level_is_respected_when_set() -> None:
    stream = io.StringIO()
    take_down = configure(LoggingSettings(level="warn", pretty="false"), stream)
    log.info("no")
    log.warning("yes")
    take_down()
    log.warning("after")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["yes"]


def test_each_line_appears_once_when_configured_twice() -> None:
    first, second = io.StringIO(), io.StringIO()
    settings = LoggingSettings(pretty="false")
    take_downs = [configure(settings, first), configure(settings, second)]
    log.info("once")
    for take_down in reversed(take_downs):
        take_down()
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_lines_are_readable_when_pretty() -> None:
    stream = io.StringIO()
    take_down = configure(LoggingSettings(pretty="true"), stream)
    log.info("Ready", extra={"port": 8080, "password": "hunter2"})
    take_down()
    assert "Ready" in stream.getvalue()
    assert "port=8080" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_arguments_stay_out_of_stderr_when_a_line_cannot_be_formatted() -> None:
    script = (
        "import logging\nfrom quire.settings import LoggingSettings\n"
        "from quire.telemetry.logs import configure\n"
        "configure(LoggingSettings())\nlogging.getLogger('quire').info('%d pages', 'hunter2')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "could not be written" in done.stderr
    assert "hunter2" not in done.stderr
