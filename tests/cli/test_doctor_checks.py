from __future__ import annotations

import json

import pymupdf

from quire.cli.doctor_checks import tiny_pdf
from tests.cli.conftest import Cli


def test_every_setting_is_shown_when_config_is_asked(cli: Cli) -> None:
    done = cli.run(
        "config", "--json", API_KEYS="team:very-secret", REDIS_URL="redis://u:hush@h:1/0", PORT="9000"
    )
    assert done.code == 0
    found = {one["name"]: one for one in json.loads(done.out)}
    assert found["PORT"]["value"] == "9000"
    assert found["PORT"]["origin"] == "environment"
    assert found["HOST"]["origin"] == "default"
    assert found["API_KEYS"]["value"] == "set"
    assert "very-secret" not in done.out
    assert "hush" not in done.out
    table = cli.run("config", API_KEYS="team:very-secret")
    assert "very-secret" not in table.out
    assert len(table.out.splitlines()) == len(found) + 1


def test_config_names_the_setting_when_one_is_unknown(cli: Cli) -> None:
    done = cli.run("config", QUIRE_PROT="1")
    assert done.code == 2
    assert done.err.startswith("quire: QUIRE_PROT in the environment is not a setting")


def test_doctor_is_content_when_everything_works(cli: Cli) -> None:
    done = cli.run("doctor", "--json")
    found = json.loads(done.out)
    assert found["ok"], done.out
    assert done.code == 0
    assert {one["check"] for one in found["findings"]} >= {
        "coordination",
        "readers",
        "objects",
        "data directory",
    }
    assert not (cli.folder / "quire-data").exists()
    assert cli.left_behind() == []


def test_doctor_fails_with_advice_when_parts_do_not_work(cli: Cli) -> None:
    (cli.folder / "taken").write_text("a file")
    done = cli.run("doctor", "--json", DATA_DIR="taken/data", OCR_LANGUAGES="tlh", HOST="0.0.0.0")
    assert done.code == 1
    failed = {one["check"]: one for one in json.loads(done.out)["findings"] if one["level"] == "fail"}
    assert set(failed) == {"data directory", "ocr", "exposure"}
    assert "tlh" in failed["ocr"]["text"]
    assert "DATA_DIR" in failed["data directory"]["advice"]


def test_doctor_fails_when_the_server_is_out_of_reach(cli: Cli) -> None:
    done = cli.run("doctor", REDIS_URL="redis://:hush@127.0.0.1:9/0")
    assert done.code == 1
    assert "hush" not in done.out
    lines = {line.split()[1]: line.split()[0] for line in done.out.splitlines() if not line.startswith(" ")}
    assert lines["coordination"] == "fail"
    assert lines["secrets"] == "warn"
    assert lines["readers"] == "ok"


def test_doctor_shows_settings_errors_when_they_stop_it(cli: Cli) -> None:
    done = cli.run("doctor", PORT="many")
    assert done.code == 1
    assert done.out.startswith("fail  settings        PORT has 'many'")


def test_probe_document_is_a_sound_pdf_when_made_by_hand() -> None:
    document = pymupdf.open(stream=tiny_pdf("Some words"), filetype="pdf")
    assert document.page_count == 1
    assert not document.is_repaired
    assert document[0].get_text().strip() == "Some words"


def test_help_and_version_are_answered_when_asked(cli: Cli) -> None:
    assert cli.run("--version").out.startswith("quire 0.")
    assert "convert" in cli.run("--help").out
    assert cli.run("jobs", "watch", "--help").code == 0
    assert cli.run().code == 2
    assert cli.run("convert").code == 2
    assert cli.run("unknown").code == 2
