"""The Kubernetes Jobs of deploy/bulk, as far as they can be proved without a cluster; shares of several machines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from quire.bulk.bulk_run import BulkRun, ShardShare
from quire.bulk.plan_options import PlanOptions
from quire.cli import main
from quire.cli.arguments import parse
from quire.clock import SystemClock
from quire.objects.bulk_locations import BulkLocation
from tests.support.environment import ROOT


def _job(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "deploy" / "bulk" / f"{name}-job.yaml").read_text()))


def _container(name: str) -> dict[str, Any]:
    (found,) = _job(name)["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("name", ["plan", "read"])
def test_a_job_fits_the_schema_and_runs_a_command_that_exists(name: str) -> None:
    job = _job(name)
    kubernetes_validate.validate(job, "1.30.0", strict=True)
    args = [one.replace("$(JOB_COMPLETION_INDEX)", "7") for one in _container(name)["args"]]
    found = parse(args)
    assert (found.source, found.target) == ("s3://lake/in", "s3://lake/rows")
    assert (found.plan_only, found.no_plan) == (name == "plan", name == "read")
    if name == "read":
        assert found.shard_index == 7
        assert found.shard_count == job["spec"]["completions"]


@pytest.mark.parametrize(("code", "is_done"), [(0, True), (3, True), (1, False), (2, False), (137, False)])
def test_a_pod_succeeds_when_only_documents_had_errors(tmp_path: Path, code: int, is_done: bool) -> None:
    program = tmp_path / "quire"
    program.write_text(f'#!/bin/sh\n[ "$1 $2" = "bulk s3://lake/in" ] && exit {code}\nexit 99\n')
    program.chmod(0o755)
    container = _container("read")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([*container["command"], *container["args"]], env=environment, check=False)
    assert (done.returncode == 0) is is_done


async def test_every_shard_is_of_one_machine(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    for number in range(7):
        (lake / f"{number}.txt").write_text("x" * (number + 1))
    bulk = BulkRun(
        BulkLocation.open(str(lake)), BulkLocation.open(str(tmp_path / "out")), PlanOptions(shard_pages=1)
    )
    plans, _ = await bulk.plan(SystemClock())
    taken: list[int] = []
    for index in range(3):
        queue, _ = await bulk.waiting(plans, ShardShare(index, 3))
        while (shard := queue.take()) is not None:
            taken.append(shard)
    assert sorted(taken) == list(range(7))


def test_a_machine_without_a_plan_fails_and_does_not_report_a_complete_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake").mkdir()
    assert main(["bulk", str(tmp_path / "lake"), str(tmp_path / "out"), "--no-plan"]) == 1
    assert "There is no plan in" in capsys.readouterr().err
