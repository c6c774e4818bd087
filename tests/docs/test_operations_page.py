"""The commands and settings that docs/operations.md names exist."""

from __future__ import annotations

import re
import shlex

import pytest

from quire.cli.arguments import parse
from quire.settings.sections import declarations
from tests.support.environment import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
COMMANDS = sorted(
    {
        line.partition("#")[0].strip()
        for block in BLOCKS
        for line in block.splitlines()
        if line.startswith("quire ")
    }
    | {one for one in re.findall(r"`(quire [a-z][^`]*)`", PAGE) if "…" not in one}
)
# Names in capitals that are no settings: words of other programs and our own terms.
_OTHERS = {
    "SIGTERM",
    "BGSAVE",
    "JSON",
    "RPM",
    "TPM",
    "DLQ",
    "PDF",
    "OCR",
    "CPU",
    "ID",
    "GET",
    "POST",
    "USD",
    "MB",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_page_is_understood(command: str) -> None:
    words = shlex.split(command)[1:]
    if words in (["jobs"], ["dlq"]):
        return
    assert callable(parse(words).load_command())


def test_settings_of_the_page_exist() -> None:
    named = set(re.findall(r"`([A-Z][A-Z0-9_]{3,})(?:=[^`]*)?`", PAGE))
    assert named - set(declarations()) - _OTHERS == set()
