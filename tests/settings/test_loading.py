from __future__ import annotations

from pathlib import Path

import pytest

from quire.errors import SettingsError
from quire.settings import ApiKey, Settings, load


def problems(environ: dict[str, str], overrides: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(environ, overrides)
    return caught.value.public.splitlines()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "quire.yaml"


def test_defaults_hold_when_nothing_is_set() -> None:
    settings = load({})
    assert settings == Settings()
    assert (settings.http.host, settings.http.port) == ("127.0.0.1", 8080)
    assert settings.jobs.ttl_s == 7 * 86_400
    assert settings.limits.max_upload_bytes == 512 << 20
    assert settings.objects_location == "quire-data/objects"
    assert settings.auth.api_keys == ()


def test_unrelated_variables_are_ignored_when_present() -> None:
    assert load({"PATH": "/bin", "HOME": "/root", "REDIS_PORT": "x", "LANG": "C"}) == Settings()


def test_environment_is_read_when_set() -> None:
    settings = load(
        {
            "PORT": " 9000 ",
            "RUN_DISPATCHER": "0",
            "DOCUMENT_PROCESSING_TIMEOUT": "1h30m",
            "RETRY_JITTER": "250ms",
            "MAX_UPLOAD_MB": "50",
            "READER_MEMORY_MB": "2GB",
            "IMAGE_COLOR": "GRAY",
            "FILES_BASE": "file:///mnt/my%20docs",
            "API_KEYS": "red:k1, blue:k2,k3",
            "OBJECT_STORE": "s3://bucket/prefix",
            "HOST": "[::1]",
        }
    )
    assert settings.http.port == 9000
    assert not settings.http.run_dispatcher
    assert settings.jobs.processing_timeout_s == 5400
    assert settings.jobs.retry_jitter_s == 0.25
    assert settings.limits.max_upload_bytes == 50 << 20
    assert settings.reading.memory_bytes == 2 << 30
    assert settings.images.color == "gray"
    assert settings.downloads.files_base == Path("/mnt/my docs")
    assert settings.auth.api_keys == (ApiKey("red", "k1"), ApiKey("blue", "k2"), ApiKey("default", "k3"))
    assert settings.objects_location == "s3://bucket/prefix"
    assert settings.http.host == "::1"


def test_default_holds_when_the_variable_is_empty() -> None:
    assert load({"PORT": "", "WEB_USERNAME": "  "}) == Settings()


def test_file_beats_environment_and_command_line_beats_both_when_all_are_given(config: Path) -> None:
    config.write_text("port: 2\nimage_dpi: 150\n")
    environ = {"QUIRE_CONFIG": str(config), "PORT": "1", "IMAGE_DPI": "120", "MAX_PAGES": "7"}
    settings = load(environ, {"PORT": "3"})
    assert (settings.http.port, settings.images.dpi, settings.limits.max_pages) == (3, 150, 7)
    origins = {view.name: view.origin for view in settings.describe()}
    assert origins["PORT"] == "command line"
    assert origins["IMAGE_DPI"] == f"file {config}"
    assert origins["MAX_PAGES"] == "environment"
    assert origins["HOST"] == "default"


def test_file_is_found_when_the_command_line_names_it(config: Path) -> None:
    config.write_text("PORT: 2\n")
    assert load({"QUIRE_CONFIG": "/nowhere.yaml"}, {"quire_config": str(config)}).http.port == 2


def test_yaml_file_is_read_when_nested_and_with_references(config: Path) -> None:
    config.write_text(
        """
        http:
          HOST: ${BIND:-127.0.0.5}
          port: "${P}"
        api_keys:
          red: ${RED_KEY}
          blue: [b1, 0123]
        WEB_PASSWORD: $${not a reference} $5
        redis_url:
        secret_key: null
        run_dispatcher: off
        web_username: 22:30
        """
    )
    settings = load(
        {"QUIRE_CONFIG": str(config), "P": "81", "RED_KEY": "r1", "BIND": "", "SECRET_KEY": "kept"}
    )
    assert (settings.http.host, settings.http.port) == ("127.0.0.5", 81)
    assert settings.auth.api_keys == (ApiKey("red", "r1"), ApiKey("blue", "b1"), ApiKey("blue", "0123"))
    assert settings.auth.web_password == "${not a reference} $5"
    assert settings.auth.secret_key == "kept"
    assert settings.auth.web_username == "22:30"
    assert not settings.http.run_dispatcher


def test_toml_file_is_read_when_named(tmp_path: Path) -> None:
    config = tmp_path / "quire.toml"
    config.write_text(
        'job_ttl = "1d"\nAPI_KEYS = ["a:k1", "k2"]\n'
        "[images]\nimage_dpi = 72\n[http]\nrun_dispatcher = false\n"
    )
    settings = load({"QUIRE_CONFIG": str(config)})
    assert settings.jobs.ttl_s == 86_400
    assert settings.images.dpi == 72
    assert not settings.http.run_dispatcher
    assert [one.team for one in settings.auth.api_keys] == ["a", "default"]


def test_all_problems_are_reported_together_when_there_are_many(config: Path) -> None:
    config.write_text("imag_dpi: 1\nworker:\n  image_dpi: 2\nlog_level: loud\nport: ${NOWHERE}\n")
    said = problems(
        {"QUIRE_CONFIG": str(config), "QUIRE_PORT": "80", "QUIRE_UR": "x", "MAX_PAGES": "many"}, {"prt": "1"}
    )
    assert said == [
        "QUIRE_PORT in the environment is not a setting; did you mean PORT?",
        "QUIRE_UR in the environment is not a setting; did you mean QUIRE_URL?",
        "prt on the command line is not a setting; did you mean PORT?",
        f"imag_dpi in {config} is not a setting; did you mean IMAGE_DPI?",
        f"image_dpi in {config} belongs to images, not to worker.",
        f"PORT in {config} needs NOWHERE, which the environment doesn't have.",
        "MAX_PAGES has 'many' in the environment; expected a whole number from 1 to 1000000.",
        f"LOG_LEVEL has 'loud' in the file {config}; expected debug, info, warn or error.",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("PORT", "-1"),
        ("PORT", "80.5"),
        ("RUN_DISPATCHER", "maybe"),
        ("JOB_TTL", "60"),
        ("JOB_TTL", "7 days"),
        ("JOB_TTL", "1s1s"),
        ("RETRY_BACKOFF_FACTOR", "nan"),
        ("RETRY_BACKOFF_FACTOR", "0.5"),
        ("MAX_UPLOAD_MB", "0"),
        ("MAX_UPLOAD_MB", "50 apples"),
        ("IMAGE_COLOR", "cmyk"),
        ("FILES_BASE", "relative/path"),
        ("FILES_BASE", "file://host/x"),
        ("REDIS_URL", "http://x"),
        ("REDIS_URL", "localhost:6379"),
        ("REDIS_URL", "redis://h:port"),
        ("REDIS_URL", "redis+sentinel://a:26379,b:port/name/0"),
        ("REDIS_URL", "redis+sentinel://a:26379,/name/0"),
        ("REDIS_URL", "redis+sentinel://a:26379/name/first"),
        ("REDIS_URL", "redis+other://a:26379"),
        ("OBJECT_STORE", "ftp://x"),
        ("HOST", "a b"),
        ("API_KEYS", "team:"),
        ("API_KEYS", "te am:key"),
        ("API_KEYS", "a:same,b:same"),
    ],
)
def test_start_stops_with_the_name_when_a_value_is_malformed(name: str, value: str) -> None:
    (said,) = problems({name: value})
    assert said.startswith(f"{name} has ")
    assert "expected" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEYS", "te am:hunter2"),
        ("API_KEYS", "a:hunter2,b:hunter2"),
        ("REDIS_URL", "http://:hunter2@h"),
        ("REDIS_URL", ":hunter2@h:6379"),
    ],
)
def test_secret_stays_out_of_the_sentence_when_malformed(name: str, value: str) -> None:
    (said,) = problems({name: value})
    assert "hunter2" not in said
    assert said.startswith(f"{name} has a value")


def test_platform_variables_are_ignored_when_kubernetes_links_a_service() -> None:
    environ = {
        "QUIRE_SERVICE_HOST": "10.0.0.1",
        "QUIRE_SERVICE_PORT": "8080",
        "QUIRE_SERVICE_PORT_HTTP": "8080",
        "QUIRE_PORT": "tcp://10.0.0.1:8080",
        "QUIRE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "QUIRE_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert load(environ) == Settings()


@pytest.mark.parametrize(
    ("name", "source", "word"),
    [
        ("a.yaml", "port: [1", "malformed"),
        ("a.yaml", "port: 1\nport: 2", "port given twice (line 2)"),
        ("a.yaml", "port: 1\nPORT: 2", "PORT is given twice"),
        ("a.yaml", "- port", "expected settings"),
        ("a.yaml", "? [a]\n: b", "not a word"),
        ("a.yaml", "http: 1", "is a section"),
        ("a.yaml", "port: [1, 2]", "should be a single value"),
        ("a.yaml", "port: ${A-b}", "`${`"),
        ("a.yaml", "api_keys: ['a:b,c']", "comma"),
        ("a.yaml", "quire_config: b.yaml", "leave it out"),
        ("a.toml", "port = ", "malformed"),
        ("a.json", "{}", ".yaml, .yml or .toml"),
    ],
)
def test_start_stops_when_the_file_is_malformed(tmp_path: Path, name: str, source: str, word: str) -> None:
    (tmp_path / name).write_text(source)
    said = problems({"QUIRE_CONFIG": str(tmp_path / name)})
    assert word in "\n".join(said)
    assert name in said[0]


def test_start_stops_when_the_file_is_missing(tmp_path: Path) -> None:
    (said,) = problems({"QUIRE_CONFIG": str(tmp_path / "none.yaml")})
    assert "No such file" in said


def test_empty_file_changes_nothing_when_named(config: Path) -> None:
    config.write_text("# nothing yet\n")
    assert load({"QUIRE_CONFIG": str(config)}).http == Settings().http


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("redis://h:99999/0", "a port is wrong, expected a number from 1 to 65535"),
        ("redis://:6379/0", "a host is missing, expected host:port"),
        ("redis://h:6379/first", "its database (the last part of its path) is wrong, expected a number"),
        ("redis+cluster://a:1,b:99999", "a port is wrong, expected a number from 1 to 65535"),
    ],
)
def test_the_wrong_part_is_named_when_an_address_of_redis_is_malformed(url: str, wrong: str) -> None:
    assert problems({"REDIS_URL": url}) == [f"REDIS_URL has a value in the environment; {wrong}."]
